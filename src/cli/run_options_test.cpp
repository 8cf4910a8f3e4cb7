// SPDX-License-Identifier: Apache-2.0
#include "cli/run_options.hpp"

#include <cstdlib>
#include <doctest/doctest.h>

#include "cli/failure.hpp"

namespace tranche::cli {
namespace {

std::string failure_text(const RunOptions& options, const std::optional<std::string>& file = {}) {
  try {
    job_of(options, file);
  } catch (const Failure& failure) {
    CHECK(failure.code() == kUsage);
    return failure.text();
  }
  return "taken";
}

TEST_CASE("run: flags alone make a job, and the command survives the shell") {
  RunOptions options{.gpus = "10GB",
                     .name = "x",
                     .kind = "inference",
                     .time = "30m",
                     .priority = "high",
                     .labels = {"team=a=b"},
                     .envs = {"EMPTY="},
                     .command = {"python", "train.py", "a b", "it's"}};
  const wire::JobSpec job = job_of(options, {});
  CHECK(job.name == "x");
  CHECK(wire::text(job.resources.gpus) == "10GB");
  CHECK(job.kind == wire::WorkloadKind::kInference);
  CHECK(job.limits.time == std::chrono::minutes(30));
  CHECK(job.priority.value == 75);
  CHECK(*job.labels.find("team") == "a=b");
  CHECK(job.envs.find("EMPTY")->empty());
  CHECK(job.run == "python train.py 'a b' 'it'\\''s'");
}

TEST_CASE("run: storage, network, setup and secrets by flag; a secret's value is never an argument") {
  ::setenv("RUN_OPTIONS_TEST", "of the caller", 1);
  const wire::JobSpec job = job_of({.setup = "make",
                                    .network = "internet",
                                    .secrets = {"RUN_OPTIONS_TEST"},
                                    .volumes = {"w:/w:ro", "out:/out"},
                                    .command = {"x"}},
                                   {});
  CHECK(job.setup == "make");
  CHECK(job.network == wire::Network::kInternet);
  CHECK(*job.secrets.find("RUN_OPTIONS_TEST") == "of the caller");
  REQUIRE(job.volumes.size() == 2);
  CHECK(job.volumes[0] == wire::VolumeMount{.name = "w", .path = "/w", .read_only = true});
  CHECK(job.volumes[1] == wire::VolumeMount{.name = "out", .path = "/out"});
  const std::string given = failure_text({.secrets = {"A=hidden"}, .command = {"x"}});
  CHECK(given.find("--secret") != std::string::npos);
  CHECK(given.find("hidden") == std::string::npos);
  CHECK(failure_text({.secrets = {"NOT_THERE_AT_ALL"}, .command = {"x"}}).find("NOT_THERE_AT_ALL") !=
        std::string::npos);
  CHECK(failure_text({.volumes = {"w"}, .command = {"x"}}).find("--volume") != std::string::npos);
  CHECK(failure_text({.network = "all", .command = {"x"}}).find("none, gang, internet") != std::string::npos);
}

TEST_CASE("run: a line of shell in quotes is refused with what runs it, and a path with blanks is none") {
  CHECK(failure_text({.command = {"sleep 1; echo it's"}}).find("sh -c 'sleep 1; echo it'\\''s'") !=
        std::string::npos);
  CHECK(failure_text({.command = {"sh /x/y.sh"}}).find("one word") != std::string::npos);
  CHECK(job_of({.command = {"/opt/my tools/go"}}, {}).run == "'/opt/my tools/go'");
  CHECK(job_of({.command = {"sh", "-c", "sleep 1; true"}}, {}).run == "sh -c 'sleep 1; true'");
}

TEST_CASE("run: a frame in the command of a render needs frames, and frames need it") {
  CHECK(failure_text({.kind = "render", .command = {"blender", "-f", "{frame:04}"}}).find("--frames 1-240") !=
        std::string::npos);
  CHECK(failure_text({.kind = "render", .frames = "1-3", .command = {"blender"}}).find("needs {frame}") !=
        std::string::npos);
  CHECK(job_of({.kind = "render", .frames = "1-3", .command = {"blender", "{frame}"}}, {}).units);
  CHECK(job_of({.command = {"awk", "{frame}"}}, {}).run.find("{frame}") != std::string::npos);
}

TEST_CASE("run: flags go on top of a job file") {
  const std::string file = "name: a\nresources:\n  gpus: H100\nlabels: {x: 1}\nrun: ./go\n";
  RunOptions options{.file = "job.yaml", .gpus = "A100:2", .labels = {"y=2"}};
  const wire::JobSpec job = job_of(options, file);
  CHECK(job.name == "a");
  CHECK(wire::text(job.resources.gpus) == "A100:2");
  CHECK(job.labels.size() == 2);
  CHECK(job.run == "./go");
}

TEST_CASE("run: what is wrong is named, with file and line or flag, in at most three lines") {
  CHECK(failure_text({.file = "job.yaml"}, "run: x\nresources:\n  gpuz: H100\n")
            .find("job.yaml: line 3: resources.gpuz") != std::string::npos);
  CHECK(failure_text({.name = "x"}).find("nothing to run") != std::string::npos);
  CHECK(failure_text({.time = "soon", .command = {"x"}}).find("--time") != std::string::npos);
  CHECK(failure_text({.kind = "infernce", .command = {"x"}}).find("did you mean 'inference'?") !=
        std::string::npos);
  CHECK(failure_text({.labels = {"x"}, .command = {"x"}}).find("--label takes KEY=VALUE") !=
        std::string::npos);
}

TEST_CASE("run: a caret stands below the mistake in a GPU string") {
  const std::string text = failure_text({.gpus = "H100:x", .command = {"x"}});
  const std::size_t second = text.find('\n') + 1;
  const std::size_t caret = text.find('^', second);
  REQUIRE(caret != std::string::npos);
  CAPTURE(text);
  CHECK(text.at(caret - second) == 'x');
}

}  // namespace
}  // namespace tranche::cli
