// SPDX-License-Identifier: Apache-2.0
// notebook: Jupyter, or any program with web pages, for its owner alone, and gone while nobody uses it.
#include <algorithm>

#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/price_plan.hpp"
#include "cli/run_options.hpp"
#include "cli/workdir_upload.hpp"
#include "net/http.hpp"
#include "wire/api_party.hpp"
#include "wire/service.hpp"

namespace tranche::cli {
namespace {

constexpr int kAsksForAddress = 1000;

struct Options {
  RunOptions job{};
  std::string name{}, idle = "30m", login_for = "12h", ready{};
  std::uint16_t port = 8888;
  bool dry_run = false;
};

// Whichever of Jupyter's programs is there. Who may come in is the gateway's business, so Jupyter asks
// nobody.
constexpr std::string_view kJupyter = R"(
if command -v jupyter-lab >/dev/null; then program=jupyter-lab kind=ServerApp
elif command -v jupyter-notebook >/dev/null; then program=jupyter-notebook kind=NotebookApp
else echo "Jupyter is neither on this node nor in the image: give --image, or a command after --" >&2; exit 127
fi
exec $program --no-browser --ip=127.0.0.1 --port="$PORT" --port-retries=0 --allow-root \
  --$kind.base_url="$TRANCHE_BASE_URL" --$kind.token= --$kind.password= --$kind.allow_remote_access=True
)";

Duration duration_of(const char* flag, const std::string& text) {
  const auto read = parse_duration(text);
  if (!read) throw usage_failure(std::string(flag) + " takes a duration such as 30m, not '" + text + "'");
  return *read;
}

// Letters, digits and dashes, as names of services are.
std::string own_name(std::string_view user) {
  std::string name = "notebook-";
  for (const char c : user) {
    const char small = static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
    name += (small >= 'a' && small <= 'z') || (small >= '0' && small <= '9') ? small : '-';
  }
  return name.substr(0, 63);
}

wire::ServiceSpec service_of(Session& session, const Options& options, const std::string& path) {
  const std::string tenant = path.substr(0, path.find('/'));
  wire::ServiceSpec service{
      .name = options.name.empty() ? own_name(path.substr(path.rfind('/') + 1)) : options.name,
      .replicas = {.min = 0, .max = 1},
      .concurrency = 256,
      .timeout = std::chrono::minutes(10),
      .idle = duration_of("--idle-stop", options.idle),
      .personal = true,
      .keep_path = true};
  const std::string base = "/" + tenant + "/" + service.name + "/";
  RunOptions flags = options.job;
  flags.kind = "interactive";
  wire::JobSpec job = job_of(flags, std::nullopt);
  if (job.run.empty()) {
    job.run = kJupyter;
    service.ready = base + "api";
  }
  if (!options.ready.empty() || !options.job.command.empty())
    service.ready = base + options.ready.substr(options.ready.starts_with('/') ? 1 : 0);
  job.port = options.port;
  job.envs.set("TRANCHE_BASE_URL", base);
  if (options.dry_run) job.workdir.clear();  // Nothing is uploaded for a question.
  if (!job.workdir.empty()) job.workdir = upload_workdir(session, job.workdir, "");
  service.versions.push_back({.name = "v1", .weight = 1, .job = std::move(job)});
  return service;
}

void notebook(Session& session, const Options& options) {
  const auto me = session.get<wire::Whoami>("/v1/whoami", Explain::kPreparation);
  const wire::ServiceSpec spec = service_of(session, options, me.value.party.path);
  if (options.dry_run)
    return show_price_plan(
        session,
        session.ask<wire::PricePlan>(
            {.method = "PUT", .path = "/v1/services?dry_run=true", .body = wire::to_json(spec)}));
  auto answer =
      session.ask<wire::ServiceView>({.method = "PUT", .path = "/v1/services", .body = wire::to_json(spec)});
  const wire::NewToken body{.label = "notebook " + spec.name,
                            .scope = wire::Scope::kRead,
                            .expires_in = duration_of("--login-for", options.login_for)};
  const auto token =
      session.ask<wire::IssuedToken>({.method = "POST", .path = "/v1/tokens", .body = wire::to_json(body)});
  // The gateway hears of a new service a moment after it was set.
  for (int asked = 0; answer.value.url.empty() && asked < kAsksForAddress; ++asked)
    answer.value = session.get<wire::ServiceView>("/v1/services/" + path_segment(spec.name)).value;
  // At an origin of its own where there is one: pages of other services cannot reach into it there.
  const std::string base = *spec.versions.front().job.envs.find("TRANCHE_BASE_URL");
  if (!answer.value.origin.empty()) answer.value.url = answer.value.origin + base;
  if (!answer.value.url.ends_with('/')) answer.value.url += '/';
  answer.value.url += "?tranche_token=" + net::percent_encode(token.value.secret);
  const std::string url = answer.value.url;
  session.print(wire::to_json(answer.value),
                {.table =
                     [&] {
                       Table table({{"NOTEBOOK"}, {"URL"}});
                       table.add({spec.name, url});
                       return table;
                     },
                 .text = [&] { return url + "\n"; },
                 .names = [&] { return spec.name + "\n"; }});
  session.say("open it within " + options.login_for + "; it is yours alone. It stops after " + options.idle +
              " without use, starts again when opened, and ends with: tranche service rm " + spec.name);
}

}  // namespace

void add_notebook_command(const Command& root, Program& program) {
  const auto options = std::make_shared<Options>();
  const Command& command =
      add_command(root,
                  {"notebook",
                   "Jupyter, or any program with web pages, for you alone",
                   "tranche notebook --gpus 10GB --volume work:/home --idle-stop 1h\n"
                   "tranche notebook --gpus H100:0.5 --image lab.tar\n"
                   "tranche notebook --name board -- sh -c 'tensorboard --port $PORT --path_prefix "
                   "${TRANCHE_BASE_URL%/}'"});
  RunOptions& job = options->job;
  command.add_option("--name", options->name, "Of the service; else notebook- and your name")
      .type_name("NAME");
  command.add_option("--gpus", job.gpus, "H100:0.5, 10GB, ...; without it: no device").type_name("GPUS");
  command.add_option("--sku", job.sku, "A shape the operator defined, instead of --gpus").type_name("NAME");
  command.add_option("--cpus", job.cpus, "4, 4+ or 4..8").type_name("COUNT");
  command.add_option("--memory", job.memory, "32GB, 32+ or 16GB..64GB").type_name("SIZE");
  command.add_option("--image", job.image, "Container image").type_name("IMAGE");
  command.add_option("--workdir", job.workdir, "Directory to upload; it starts in a copy of it")
      .type_name("DIR");
  command.add_option("--volume", job.volumes, "NAME:/PATH or NAME:/PATH:ro; may be repeated")
      .type_name("VOLUME")
      .repeatable();
  command.add_option("--env", job.envs, "KEY=VALUE; may be repeated").type_name("VARIABLE").repeatable();
  command.add_flag(
      "--dry-run", options->dry_run, "Say whether it would be let in and what it costs; start nothing");
  command.add_option("--idle-stop", options->idle, "Stops after so long without a request or an open page")
      .type_name("DURATION")
      .capture_default_str();
  command.add_option("--login-for", options->login_for, "How long the address lets you in")
      .type_name("DURATION")
      .capture_default_str();
  command.add_option("--port", options->port, "That the program listens on, as $PORT")
      .type_name("PORT")
      .capture_default_str();
  command.add_option("--ready", options->ready, "Path below $TRANCHE_BASE_URL that answers 2xx once it runs")
      .type_name("PATH");
  command.add_option("command", job.command, "Command and its arguments, after --; else Jupyter");
  command.callback([options, &program] { notebook(program.session(), *options); });
}

}  // namespace tranche::cli
