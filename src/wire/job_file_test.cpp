// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <sstream>

#include "base/text.hpp"
#include "wire/codec.hpp"
#include "wire/job_spec.hpp"

namespace tranche::wire {
namespace {

using namespace std::chrono_literals;

JobSpec parsed(std::string_view file) {
  const auto job = parse_job_file(file);
  REQUIRE_MESSAGE(job.has_value(), text(job.error()));
  return *job;
}
std::string complaint(std::string_view file) {
  const auto job = parse_job_file(file);
  return job ? "no complaint" : text(job.error());
}

TEST_CASE("job file: every key of our own form is read") {
  const JobSpec job = parsed(R"(
# yaml-language-server: $schema=job.schema.json
name: film
kind: render
workdir: ./scene
num_nodes: 2
resources:
  gpus: H100:0.5
  cpus: 4+
  memory: 16GB..64GB
  disk: 100GB
  isolation: hard
  topology: rack
  whole_node: true
image: example/blender:4
envs: {SCENE: a.blend, PORT: 8080, ON: true, EMPTY: }
secrets:
  TOKEN: "0123"
volumes:
  - data:/data
  - {name: out, path: /out}
  - weights:/w:ro
file_mounts: {/etc/x: ./x}
setup: pip install x
run: |
  blender -b
  echo done
limits: {vram: 20GB, compute: 30%, time: 1h30m, spend: 12.50, idle: 600, price_per_hour: "2.10"}
retry: {attempts: 3, on: [error, fault], backoff: 30s}
priority: high
preemptible: true
network: internet
window: {start: "22:00", end: "06:00", tz: Europe/Madrid, recurrence: FREQ=WEEKLY}
deadline: 2026-11-16T09:00:00+01:00
schedule: 0 3 * * *
burst: auto
checkpoint: {signal: SIGUSR2, grace: 60s, every: 10m}
sku: large
units: {frames: 1..240, steps: 10}
model: {class: 13b, precision: int4, context: 4096, users: 8}
media: {resolution: 4k, samples: 256}
labels: {team: film}
infra: burst/aws
after: [job_000001]
)");
  CHECK(job.kind == WorkloadKind::kRender);
  CHECK(job.resources.gpus.items.at(0).milli == 500);
  CHECK(job.resources.cpus == CpuRange{.milli_min = 4000, .milli_max = 0});
  CHECK(job.resources.memory == MemoryBounds{.min = gigabytes(16), .max = gigabytes(64)});
  CHECK(job.resources.isolation == Isolation::kHard);
  CHECK(*job.envs.find("PORT") == "8080");
  CHECK(*job.envs.find("ON") == "true");
  CHECK(job.envs.find("EMPTY")->empty());
  CHECK(*job.secrets.find("TOKEN") == "0123");
  CHECK(job.volumes.at(1) == VolumeMount{.name = "out", .path = "/out"});
  CHECK(job.volumes.at(2).read_only);
  CHECK(job.run == "blender -b\necho done\n");
  CHECK(job.limits.spend == Money{12'500'000});
  CHECK(*job.limits.idle == 600s);
  CHECK(job.limits.compute == Share{300});
  CHECK(job.retry->on == std::vector{RetryOn::kError, RetryOn::kFault});
  CHECK(job.priority.value == 75);
  CHECK(job.window->tz == "Europe/Madrid");
  CHECK(job.deadline == parse_instant("2026-11-16T08:00:00Z"));
  CHECK(*job.schedule == "0 3 * * *");
  CHECK(job.units->at("frames").count() == 240);
  CHECK(job.model->name == "13b");
  CHECK(job.model->precision == Precision::kInt4);
  CHECK(job.after == std::vector<std::string>{"job_000001"});

  const std::string json = to_json(job);
  CHECK(parsed(json) == job);
  CHECK(*from_json<JobSpec>(json) == job);
  std::string bytes;
  encode(bytes, job);
  CHECK(*decode<JobSpec>(bytes) == job);
}

TEST_CASE("job file: a small job is a small text") {
  CHECK(to_json(parsed("run: ./serve\nresources: {gpus: 10GB}")) ==
        R"({"resources":{"gpus":"10GB"},"run":"./serve"})");
}

TEST_CASE("job file: a SkyPilot file is read unchanged") {
  const JobSpec job = parsed(R"(
name: minimal
resources:
  infra: k8s
  accelerators: {A100: 8}
  cpus: 4+
  memory: 32+
  use_spot: true
  image_id: docker:ubuntu:22.04
  disk_size: 256
  max_hourly_cost: 3.2
  autostop: 10
  job_recovery:
    strategy: FAILOVER
    max_restarts_on_errors: 3
num_nodes: 2
workdir: .
envs:
  MODEL: llama
file_mounts:
  /data: ./data
volumes:
  /mnt/data: my-volume
setup: |
  pip install -r requirements.txt
run: python train.py
)");
  CHECK(text(job.resources.gpus) == "A100:8");
  CHECK(job.preemptible);
  CHECK(job.infra == "k8s");
  CHECK(job.image == "ubuntu:22.04");
  CHECK(job.resources.disk == gigabytes(256));
  CHECK(job.resources.memory == MemoryBounds{.min = gigabytes(32), .max = {}});
  CHECK(*job.limits.price_per_hour == Money{3'200'000});
  CHECK(*job.limits.idle == Duration(10min));
  CHECK(job.retry->attempts == 3);
  CHECK(job.volumes.at(0) == VolumeMount{.name = "my-volume", .path = "/mnt/data"});
}

TEST_CASE("job file: every way SkyPilot and dstack ask for GPUs") {
  const auto gpus = [](std::string_view yaml) {
    return text(parsed("run: x\nresources:\n  " + std::string(yaml)).resources.gpus);
  };
  CHECK(gpus("accelerators: H100:8") == "H100:8");
  CHECK(gpus("accelerators: {H100: 8}") == "H100:8");
  CHECK(gpus("accelerators: {L4:1, A100:1}") == "{L4, A100}");
  CHECK(gpus("accelerators: {L4: 1, A100: 2}") == "{L4, A100:2}");
  CHECK(gpus("accelerators: ['L4:1', A100]") == "[L4, A100]");
  CHECK(gpus("gpu: 24GB..40GB:2") == "24GB..40GB:2");
  CHECK(gpus("gpu: {name: A100, memory: 80GB, count: 2}") == "A100-80GB:2");
  CHECK(gpus("gpus: {gpu: H100, vram: 20GB, compute: 30%, isolation: soft}") ==
        "{gpu: H100, vram: 20GB, compute: 30%, isolation: soft}");
  CHECK(gpus("gpus: 2") == "gpu:2");
  CHECK(gpus("gpus: 4090") == "RTX4090");
}

TEST_CASE("job file: a dstack task is read") {
  const JobSpec job = parsed(R"(
type: task
name: train
nodes: 2
image: pytorch/pytorch
env: [HF_HOME=/hf, A=b=c]
commands:
  - pip install x
  - python train.py
resources: {cpu: 4.., memory: 32GB.., gpu: H100:2, disk: 200GB}
max_duration: 3h
max_price: 4.5
spot_policy: auto
retry: {on_events: [interruption, error]}
schedule: {cron: "0 8 * * *"}
utilization_policy: {min_gpu_utilization: 10, time_window: 1h}
)");
  CHECK(job.run == "pip install x\npython train.py");
  CHECK(*job.envs.find("A") == "b=c");
  CHECK(job.limits.time == Duration(3h));
  CHECK(job.limits.idle == Duration(1h));
  CHECK(job.preemptible);
  CHECK(job.retry->on == std::vector{RetryOn::kPreemption, RetryOn::kError});
  CHECK(job.num_nodes == 2);
  CHECK(*job.schedule == "0 8 * * *");
}

TEST_CASE("job file: a mistake is named with its line, its place and the nearest right word") {
  CHECK(complaint("run: x\nresources:\n  gpuz: H100\n") ==
        "line 3: resources.gpuz: unknown key 'gpuz' (did you mean 'gpus'?)");
  CHECK(complaint("run: x\nresources:\n  gpus: H10O:2\n") ==
        "line 3: resources.gpus: no GPU model 'H10O' is known (at character 1; nearest legal form: H100:2)");
  CHECK(complaint("run: x\nrun: y\n") == "line 2: run: is given twice");
  CHECK(complaint("name: x\n") ==
        "line 1: run: is required unless kind is interactive or an image brings its own command");
  CHECK(complaint("run: x\nkind: trainig\n") ==
        "line 2: kind: 'trainig' is not one of batch, inference, finetune, training, render, video, "
        "interactive "
        "(did you mean 'training'?)");
  CHECK(complaint("run: x\npriority: 101\n") ==
        "line 2: priority: must be 0..100, or one of idle, low, normal, high, critical");
  CHECK(complaint("run: x\npreemptible: no\n") == "line 2: preemptible: must be true or false, not a string");
  CHECK(complaint("run: x\nenvs: {1A: x}\n") ==
        "line 1: envs.1A: is not a name that an environment variable can have");
  CHECK(complaint("run: x\nenvs: [A]\n") == "line 2: envs: 'A' has no value: write NAME=value");
  CHECK(complaint("run: x\ncheckpoint: {signal: SIGKILL}\n") ==
        "line 2: checkpoint.signal: must be a signal that a process can catch, such as SIGUSR1 or SIGTERM");
  CHECK(complaint("run: x\nservice: {}\n") ==
        "line 2: service: is known from other systems, but Tranche cannot honour it");
  CHECK(complaint("run: x\nresources:\n  any_of: []\n") ==
        "line 3: resources.any_of: is known from other systems, but Tranche cannot honour it");
  CHECK(complaint("run: x\nenv: {A: b}\nenvs: {A: c}\n") == "line 3: envs: is given twice");
  CHECK(complaint(R"({"run": "x", "nodez": 1})") == "nodez: unknown key 'nodez' (did you mean 'nodes'?)");
  CHECK(complaint(R"({"run": "x", "envs": {"A": 1}})") == "envs.A: must be a string, not a number");
  CHECK(complaint("run: x\nlimits: {spend: 0}\n") ==
        "line 1: limits.spend: must be above zero; without it, only the limits of quotas count");
  CHECK(complaint("run: x\nunits: {frames: }\n") ==
        "line 2: units.frames: must be a string or a number, not null");
  CHECK(complaint("- a\n- b\n") == "line 1: must be an object, not a list");
  CHECK(complaint("") == "is empty");
  CHECK(complaint("run: x\n---\nrun: y\n") == "holds more than one document");
  CHECK(complaint("run: [x\n").find("not valid YAML") != std::string::npos);
}

TEST_CASE("job file: YAML means the 1.2 core schema, within limits") {
  CHECK(parsed("run: no\nname: yes").run == "no");
  CHECK(parsed("run: x\nnum_nodes: 0x10").num_nodes == 16);
  CHECK(parsed("run: x\nnum_nodes: 0o17").num_nodes == 15);
  CHECK(complaint("run: x\nnum_nodes: 0b1") == "line 2: num_nodes: must be a whole number, not a string");
  CHECK(*parsed("run: x\nenvs: &e {A: 1}\nlabels: *e").labels.find("A") == "1");
  CHECK(complaint("run: !!python/object x").find("are not taken") != std::string::npos);
  CHECK(complaint("run: &a [*a]").find("not valid YAML") == std::string::npos);

  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last;
    for (int j = 1; j < 10; ++j) laughs += ", " + last;
    laughs += "]\n";
  }
  CHECK(complaint(laughs).find("holds more than 20000 values") != std::string::npos);
  CHECK(complaint("run: " + std::string(100, '[') + std::string(100, ']')).find("too many levels") !=
        std::string::npos);
  CHECK(complaint(std::string(300'000, 'x')) == "is 300000 bytes long; at most 262144 are taken");
}

TEST_CASE("job file: the published schema is the one the code has") {
  const std::string path = std::string(TRANCHE_SOURCE_DIR) + "/docs/job.schema.json";
  if (std::getenv("TRANCHE_WRITE_GOLDEN") != nullptr) std::ofstream(path) << job_file_schema() << '\n';
  std::ifstream file(path);
  std::ostringstream published;
  published << file.rdbuf();
  CHECK_MESSAGE(published.str() == job_file_schema() + "\n",
                "write it anew with TRANCHE_WRITE_GOLDEN=1 wire_test");
}

TEST_CASE("job file: a waiting job stays well under a kibibyte") {
  const JobSpec job = parsed(
      "name: serve\nkind: inference\nrun: ./serve --model 13b\nresources: {gpus: 'H100:0.25'}\n"
      "envs: {HF_HOME: /data/hf, PORT: '8080'}\nlimits: {time: 2h, spend: 10}\nlabels: {team: a}\n");
  std::size_t heap = job.resources.gpus.items.capacity() * sizeof(GpuItem);
  heap += (job.envs.size() + job.labels.size()) * sizeof(TextMap::Entry);
  heap += job.run.size() > 15 ? job.run.capacity() + 1 : 0;
  MESSAGE("a JobSpec takes ", sizeof(JobSpec), " bytes and ", heap, " on the heap");
  CHECK(sizeof(JobSpec) + heap < 950);
}

}  // namespace
}  // namespace tranche::wire
