// SPDX-License-Identifier: Apache-2.0
// doctor: what on this machine and its way to the server is as it should be, and what next where it is not.
#include <algorithm>
#include <array>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/human.hpp"
#include "cli/terminal.hpp"
#include "wire/api_party.hpp"
#include "wire/json_writer.hpp"

namespace tranche::cli {
namespace {

enum class Health { kOk, kWarn, kFail };
struct Finding {
  Health health = Health::kOk;
  std::string what{};
  std::string detail{};
  std::string next{};
};

std::string_view word(Health health) {
  static constexpr std::array<std::string_view, 3> kWords{"ok", "warn", "fail"};
  return kWords.at(static_cast<std::size_t>(health));
}

Finding check_config(Session& session) {
  try {
    const Target& target = session.target();
    return {Health::kOk,
            "configuration",
            session.environment().config_file.string() +
                (target.context.empty() ? ", no context" : ", context '" + target.context + "'"),
            {}};
  } catch (const Failure& failure) {
    return {Health::kFail,
            "configuration",
            failure.lines().front(),
            failure.lines().size() > 1 ? failure.lines()[1] : "correct the file"};
  }
}

std::vector<Finding> check_server(Session& session, const std::string& client_version) {
  std::vector<Finding> findings;
  const auto ready = session.try_call({.path = "/readyz"});
  if (!ready) {
    findings.push_back({Health::kFail,
                        "server",
                        ready.error().message,
                        "start one with: tranche up; or log in to another: tranche login URL"});
    return findings;
  }
  findings.push_back(
      {ready->status == 200 ? Health::kOk : Health::kFail,
       "server",
       session.target().server + (ready->status == 200 ? " is ready" : " answers " + ready->body),
       ready->status == 200 ? "" : "look at the server's log"});
  if (session.target().token.empty()) {
    findings.push_back(
        {Health::kFail, "token", "none for this server", "tranche login " + session.target().server});
    return findings;
  }
  const auto who = session.try_call({.path = "/v1/whoami"});
  if (!who || who->status != 200) {
    findings.push_back({Health::kFail,
                        "token",
                        who ? "the server does not take it" : who.error().message,
                        "tranche login " + session.target().server});
    return findings;
  }
  const auto whoami = Session::parsed<wire::Whoami>(who->body);
  findings.push_back({Health::kOk, "token", "you are " + whoami.party.path, {}});
  const bool same = whoami.server_version == client_version;
  findings.push_back({same ? Health::kOk : Health::kWarn,
                      "versions",
                      "client " + client_version + ", server " + whoami.server_version,
                      same ? "" : "use the client that came with the server"});
  return findings;
}

std::string in_path(const std::string& program) {
  const char* const path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): no other thread runs.
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    const std::string file = std::string(rest.substr(0, colon)) + "/" + program;
    if (::access(file.c_str(), X_OK) == 0) return file;
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return {};
}

Finding check_bubblewrap() {
  const std::string file = in_path("bwrap");
  if (!file.empty()) return {Health::kOk, "bubblewrap", file, {}};
  return {Health::kWarn,
          "bubblewrap",
          "not found: an agent that is not root cannot run jobs",
          "apt install bubblewrap"};
}

// Asks the system's OpenCL loader itself. Its types are opaque here: only counts and names are wanted.
Finding check_opencl() {
  using Platforms = int (*)(unsigned, void**, unsigned*);
  using Devices = int (*)(void*, std::uint64_t, unsigned, void**, unsigned*);
  using DeviceText = int (*)(void*, unsigned, std::size_t, void*, std::size_t*);
  constexpr std::uint64_t kAllDevices = 0xFFFFFFFF;
  constexpr unsigned kDeviceName = 0x102B;
  void* const library = ::dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return {
        Health::kWarn, "OpenCL", "no loader on this machine", "apt install ocl-icd-libopencl1 and a driver"};
  }
  const auto platforms = reinterpret_cast<Platforms>(::dlsym(library, "clGetPlatformIDs"));
  const auto devices = reinterpret_cast<Devices>(::dlsym(library, "clGetDeviceIDs"));
  const auto device_text = reinterpret_cast<DeviceText>(::dlsym(library, "clGetDeviceInfo"));
  std::array<void*, 16> found{};
  unsigned count = 0;
  if (platforms != nullptr) platforms(found.size(), found.data(), &count);
  std::string names;
  for (unsigned i = 0; i < std::min<unsigned>(count, found.size()); ++i) {
    std::array<void*, 16> ids{};
    unsigned known = 0;
    if (devices == nullptr || devices(found.at(i), kAllDevices, ids.size(), ids.data(), &known) != 0)
      continue;
    for (unsigned k = 0; k < std::min<unsigned>(known, ids.size()); ++k) {
      std::array<char, 256> name{};
      if (device_text == nullptr ||
          device_text(ids.at(k), kDeviceName, name.size() - 1, name.data(), nullptr) != 0)
        continue;
      names += (names.empty() ? "" : ", ") + std::string(name.data());
    }
  }
  if (names.empty())
    return {Health::kWarn, "OpenCL", "no devices", "install a driver, such as pocl-opencl-icd for CPUs"};
  return {Health::kOk, "OpenCL", names, {}};
}

// How long one small durable write takes where a server would keep its journal: it bounds every answer.
Finding check_disk(const std::string& folder) {
  std::string file = folder + "/.tranche-doctor.XXXXXX";
  const int descriptor = ::mkstemp(file.data());
  if (descriptor < 0) return {Health::kWarn, "disk", "cannot write in " + folder, "give another with --data"};
  ::unlink(file.c_str());
  const std::string page(4096, 'x');
  std::vector<double> milliseconds;
  for (int i = 0; i < 20; ++i) {
    const auto began = std::chrono::steady_clock::now();
    if (::write(descriptor, page.data(), page.size()) < 0 || ::fdatasync(descriptor) != 0) break;
    milliseconds.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count());
  }
  ::close(descriptor);
  if (milliseconds.empty()) return {Health::kFail, "disk", "writing in " + folder + " fails", "is it full?"};
  std::sort(milliseconds.begin(), milliseconds.end());
  const double median = milliseconds[milliseconds.size() / 2];
  std::array<char, 96> text{};
  std::snprintf(text.data(),
                text.size(),
                "fdatasync of 4 KiB: median %.2f ms, worst %.2f ms",
                median,
                milliseconds.back());
  const bool slow = median > 20;
  return {slow ? Health::kWarn : Health::kOk,
          "disk",
          folder + ", " + text.data(),
          slow ? "every change waits for this: put the data on a faster disk" : ""};
}

std::string json_of(const std::vector<Finding>& findings) {
  std::string json = R"({"items":[)";
  for (const Finding& finding : findings) {
    if (json.back() == '}') json += ',';
    json += R"({"health":")" + std::string(word(finding.health)) + R"(","what":)";
    wire::append_json_string(json, finding.what);
    wire::append_json_string(json += R"(,"detail":)", finding.detail);
    wire::append_json_string(json += R"(,"next":)", finding.next);
    json += '}';
  }
  return json + "]}";
}

std::string text_of(const std::vector<Finding>& findings, bool colours) {
  std::string out;
  for (const Finding& finding : findings) {
    const std::string plain(word(finding.health));
    const Colour colour = finding.health == Health::kOk     ? Colour::kGreen
                          : finding.health == Health::kWarn ? Colour::kYellow
                                                            : Colour::kRed;
    out += (colours ? coloured(plain, colour) : plain) + std::string(6 - plain.size(), ' ');
    out += finding.what + std::string(finding.what.size() < 15 ? 15 - finding.what.size() : 1, ' ') +
           finding.detail;
    if (!finding.next.empty()) out += "; next: " + finding.next;
    out += '\n';
  }
  return out;
}

void doctor(Session& session, const std::string& folder, const std::string& client_version) {
  std::vector<Finding> findings{check_config(session)};
  if (findings.front().health == Health::kOk) {
    for (Finding& finding : check_server(session, client_version)) findings.push_back(std::move(finding));
  }
  findings.push_back(check_opencl());
  findings.push_back(check_bubblewrap());
  findings.push_back(check_disk(folder));
  const auto table = [&] {
    Table rows({{"HEALTH"}, {"WHAT"}, {"DETAIL"}, {"NEXT"}});
    for (const Finding& finding : findings)
      rows.add({word(finding.health), finding.what, finding.detail, finding.next});
    return rows;
  };
  session.print(json_of(findings),
                {.table = table,
                 .text = [&] { return text_of(findings, session.colours()); },
                 .names =
                     [&] {
                       std::string names;
                       for (const Finding& finding : findings) names += finding.what + "\n";
                       return names;
                     }});
  const bool failed = std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.health == Health::kFail;
  });
  if (failed) throw quiet_end(kOther);
}

}  // namespace

void add_doctor_command(const Command& root, Program& program) {
  const auto folder = std::make_shared<std::string>(".");
  const Command& command =
      add_command(root,
                  {"doctor",
                   "Check configuration, server, token, versions, devices, sandbox and disk",
                   "tranche doctor\ntranche doctor --data /var/lib/tranche -o json"});
  command.add_option("--data", *folder, "Where a server would keep its data").type_name("DIR");
  command.callback([folder, &program] { doctor(program.session(), *folder, program.version); });
}

}  // namespace tranche::cli
