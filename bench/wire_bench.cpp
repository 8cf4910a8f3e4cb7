// SPDX-License-Identifier: Apache-2.0
// What it costs to cross a border: records of the journal, JSON of the API, job files, GPU strings.
#include <chrono>
#include <string>

#include "bench/bench.hpp"
#include "wire/agent_message.hpp"
#include "wire/codec.hpp"
#include "wire/job_spec.hpp"

namespace tranche::bench {
namespace {

using namespace std::chrono_literals;

template <class Work>
double nanoseconds_each(Work&& work) {
  double best = 0;
  for (int round = 0; round < 5; ++round) {  // The best of five: the machine is shared.
    std::size_t count = 0;
    const auto start = std::chrono::steady_clock::now();
    auto now = start;
    while (now - start < 100ms) {
      for (int i = 0; i < 100; ++i) work();
      count += 100;
      now = std::chrono::steady_clock::now();
    }
    const double each =
        std::chrono::duration<double, std::nano>(now - start).count() / static_cast<double>(count);
    if (round == 0 || each < best) best = each;
  }
  return best;
}

wire::MeterRecord sample_record() {
  return {.lease = {77},
          .epoch = 3,
          .sequence = 912,
          .device = {12},
          .from = Instant(1'794'773'395s),
          .to = Instant(1'794'773'455s),
          .device_nanoseconds = 41'222'333'444,
          .vram_byte_seconds = 720'000'000'000,
          .energy_millijoules = 18'000'000,
          .copied_bytes = 91'000'000,
          .network_bytes = 12'000,
          .units = {{"tokens", 91'222}}};
}

constexpr std::string_view kSubmission =
    R"({"name":"serve-13b","kind":"inference","run":"./serve --model 13b --port 8080","resources":{"gpus":"H100:0.25",)"
    R"("cpus":"4+","memory":"32GB"},"envs":{"HF_HOME":"/data/hf","BATCH":"8"},"limits":{"time":"2h","spend":"12.50"},)"
    R"("priority":50,"labels":{"team":"search","stage":"prod"},"volumes":[{"name":"weights","path":"/w"}]})";

Row row(std::string what, double value, double goal) {
  return {.what = std::move(what), .value = value, .unit = "ns", .goal = goal, .better = Better::kLower};
}

std::vector<Row> run() {
  std::string bytes;
  const auto record = sample_record();
  std::string encoded;
  wire::encode(encoded, record);
  const auto job = *wire::parse_job_file(kSubmission);
  std::string json;
  std::vector<Row> rows;
  rows.push_back(row("record of 12 fields, encode",
                     nanoseconds_each([&] {
                       bytes.clear();
                       wire::encode(bytes, record);
                     }),
                     500));
  rows.push_back(row("record of 12 fields, decode",
                     nanoseconds_each([&] {
                       if (!wire::decode<wire::MeterRecord>(encoded)) bytes.clear();
                     }),
                     500));
  rows.push_back(row("submission of " + std::to_string(kSubmission.size()) + " bytes, from JSON",
                     nanoseconds_each([&] {
                       if (!wire::from_json<wire::JobSpec>(kSubmission)) bytes.clear();
                     }),
                     3000));
  rows.push_back(row("the same, with dialects (parse_job_file)",
                     nanoseconds_each([&] {
                       if (!wire::parse_job_file(kSubmission)) bytes.clear();
                     }),
                     0));
  rows.push_back(row("the same, to JSON",
                     nanoseconds_each([&] {
                       json.clear();
                       wire::append_json(json, job);
                     }),
                     0));
  rows.push_back(row("GPU string H100:0.5",
                     nanoseconds_each([&] {
                       if (!wire::parse_gpu_request("H100:0.5")) bytes.clear();
                     }),
                     0));
  return rows;
}

}  // namespace

Suite wire_suite() {
  return {.name = "wire", .about = "records, JSON, job files and GPU strings", .run = run};
}

}  // namespace tranche::bench
