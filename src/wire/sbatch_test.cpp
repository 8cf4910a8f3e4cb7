// SPDX-License-Identifier: Apache-2.0
#include "wire/sbatch.hpp"

#include <doctest/doctest.h>

namespace tranche::wire {
namespace {

using namespace std::chrono_literals;

JobSpec job_of(std::string_view lines) {
  const auto script = read_batch_script("#!/bin/sh\n" + std::string(lines) + "\n./train\n");
  INFO(lines, script ? "" : text(script.error()));
  REQUIRE(script.has_value());
  return script->job;
}

std::string problem_of(std::string_view lines) {
  const auto script = read_batch_script("#!/bin/sh\n" + std::string(lines) + "\n./train\n");
  return script ? "" : text(script.error());
}

TEST_CASE("sbatch: the options of a usual script become a job") {
  const std::string script =
      "#!/bin/sh\n#SBATCH --job-name=train -N 2\n#SBATCH --gres=gpu:h100:4   # a node's worth\n"
      "#SBATCH -t 1-12:30:00\n#SBATCH -c8 --mem 32G\n#SBATCH --signal=B:USR1@90\n"
      "#SBATCH --export=NONE,LR=0.1\n#SBATCH --chdir='/data/my runs'\nsrun ./train\n";
  CHECK(is_batch_script(script));
  const auto read = read_batch_script(script);
  REQUIRE(read.has_value());
  const JobSpec& job = read->job;
  CHECK(job.name == "train");
  CHECK(job.num_nodes == 2);
  CHECK(job.resources.gpus == *parse_gpu_request("h100:8"));
  CHECK(*job.limits.time == 36h + 30min);
  CHECK(job.resources.cpus.milli_min == 8000);
  CHECK(job.resources.memory.min.count == std::int64_t{32} << 30);
  REQUIRE(job.checkpoint);
  CHECK(job.checkpoint->signal == "SIGUSR1");
  CHECK(job.checkpoint->grace == 90s);
  REQUIRE(job.envs.find("LR") != nullptr);
  CHECK(*job.envs.find("LR") == "0.1");
  CHECK(job.workdir == "/data/my runs");
  CHECK(job.run == script);
}

TEST_CASE("sbatch: devices and times in all the forms that Slurm takes") {
  CHECK(job_of("#SBATCH --gpus=2").resources.gpus == *parse_gpu_request("gpu:2"));
  CHECK(job_of("#SBATCH -G h100:2").resources.gpus == *parse_gpu_request("H100:2"));
  CHECK(job_of("#SBATCH --gres gpu").resources.gpus == *parse_gpu_request("gpu:1"));
  CHECK(job_of("#SBATCH --gpus-per-node=a100:2\n#SBATCH --nodes=3").resources.gpus ==
        *parse_gpu_request("a100:6"));
  const std::pair<std::string_view, Duration> times[] = {{"90", 90min},
                                                         {"90:30", 90min + 30s},
                                                         {"1:30:15", 1h + 30min + 15s},
                                                         {"2-3", 51h},
                                                         {"2-3:30", 51h + 30min}};
  for (const auto& [written, meant] : times)
    CHECK(*job_of("#SBATCH --time=" + std::string(written)).limits.time == meant);
  CHECK_FALSE(job_of("#SBATCH --time=UNLIMITED").limits.time.has_value());
  CHECK(job_of("#SBATCH --mem=4000").resources.memory.min.count == std::int64_t{4000} << 20);
  CHECK(job_of("#SBATCH -c 4 --mem-per-cpu=2G").resources.memory.min.count == std::int64_t{8} << 30);
  CHECK(*job_of("#SBATCH --reservation=clm_000001").labels.find("booking") == "clm_000001");
}

TEST_CASE("sbatch: what cannot be honoured is refused by name and line") {
  for (const std::string_view name :
       {"begin", "partition", "account", "qos", "constraint", "mail-type", "licenses"}) {
    const std::string problem = problem_of("#SBATCH --" + std::string(name) + "=1");
    CHECK(problem.find("line 2") != std::string::npos);
    CHECK(problem.find("--" + std::string(name)) != std::string::npos);
  }
  CHECK(problem_of("#SBATCH --tiem=10").find("time") != std::string::npos);
  CHECK(problem_of("#SBATCH --ntasks=4").find("--ntasks") != std::string::npos);
  CHECK(problem_of("#SBATCH --gres=shard:2").find("--gres") != std::string::npos);
  CHECK(problem_of("#SBATCH --gpus=nonsense:2").find("--gpus") != std::string::npos);
  CHECK(problem_of("#SBATCH --time=soon").find("--time") != std::string::npos);
  CHECK(problem_of("#SBATCH --mem=0").find("--mem") != std::string::npos);
  CHECK(problem_of("#SBATCH --time").find("no value") != std::string::npos);
  CHECK(problem_of("#SBATCH job").find("'job'") != std::string::npos);
}

TEST_CASE("sbatch: an array becomes a job of many units, each of which knows its index") {
  const auto script = read_batch_script("#!/bin/sh\n#SBATCH -a 0-9%4\n./work $SLURM_ARRAY_TASK_ID\n");
  REQUIRE(script.has_value());
  const JobSpec& job = script->job;
  REQUIRE(job.units);
  CHECK(*job.units == std::map<std::string, UnitRange>{{"units", {.first = 0, .last = 9}}});
  CHECK(job.run ==
        "export SLURM_ARRAY_TASK_ID={unit}\n#!/bin/sh\n#SBATCH -a 0-9%4\n./work $SLURM_ARRAY_TASK_ID\n");
  CHECK(*job.envs.find("SLURM_ARRAY_TASK_MAX") == "9");
  CHECK(*job.envs.find("SLURM_ARRAY_TASK_COUNT") == "10");
  REQUIRE(job.retry);
  CHECK(job.retry->attempts == 0);
  REQUIRE(script->notes.size() == 1);
  CHECK(script->notes[0].find("%4") != std::string::npos);
  CHECK(job_of("#SBATCH --array=7").units->at("units") == UnitRange{.first = 7, .last = 7});
  for (const std::string_view wrong : {"1-10:2", "1,3", "5-1", "", "a-b", "1-2-3", "-3"})
    CHECK(problem_of("#SBATCH --array='" + std::string(wrong) + "'").find("--array") != std::string::npos);
}

TEST_CASE("sbatch: dependencies are jobs that it waits for") {
  CHECK(job_of("#SBATCH --dependency=afterok:job_1:job_2,afterany:job_3").after ==
        std::vector<std::string>{"job_1", "job_2", "job_3:any"});
  CHECK(job_of("#SBATCH -d afterok:job_1").after == std::vector<std::string>{"job_1"});
  for (const std::string_view wrong :
       {"singleton", "afternotok:job_1", "afterok", "job_1", "afterok:a?afterok:b"})
    CHECK(problem_of("#SBATCH -d '" + std::string(wrong) + "'").find("afterok:JOB") != std::string::npos);
}

TEST_CASE("sbatch: options below the first command are ignored, and said to be") {
  const auto script = read_batch_script("#!/bin/sh\n#SBATCH -J a\n\n# words\necho\n#SBATCH --array=1-9\n");
  REQUIRE(script.has_value());
  REQUIRE(script->notes.size() == 1);
  CHECK(script->notes[0].starts_with("line 6: "));
  CHECK_FALSE(is_batch_script("#!/bin/sh\necho\n#SBATCH -J a\n"));
  CHECK_FALSE(is_batch_script("run: ./train\n"));
  CHECK_FALSE(is_batch_script("#SBATCHED\n"));
}

TEST_CASE("sbatch: other interpreters and arguments run the script from a file") {
  const auto bash = read_batch_script("#!/bin/bash -l\n#SBATCH -J a\necho END_OF_SCRIPT\n", {"it's", "2"});
  REQUIRE(bash.has_value());
  CHECK(bash->job.run ==
        "cat > \"${TMPDIR:-/tmp}/script\" <<'END_OF_SCRIPT_'\n#!/bin/bash -l\n#SBATCH -J a\necho "
        "END_OF_SCRIPT\n"
        "END_OF_SCRIPT_\nexec /bin/bash -l \"${TMPDIR:-/tmp}/script\" 'it'\\''s' '2'\n");
}

}  // namespace
}  // namespace tranche::wire
