// SPDX-License-Identifier: Apache-2.0
// Tests of vendors, called when they are installed. Their words become our verdicts: a tool that stops before
// it has judged is UNKNOWN, because its set-up may be at fault.
#include <cstdlib>

#include "gpu/child_program.hpp"
#include "gpu/device_tests.hpp"
#include "wire/document.hpp"
#include "wire/gpu_catalog.hpp"

namespace tranche::gpu {
namespace {

using std::chrono::minutes;

std::string words_at(const std::string& text, std::string_view label) {
  const auto at = text.find(label);
  if (at == std::string::npos) return {};
  const auto from = text.find_first_not_of(" :\t", at + label.size());
  return from == std::string::npos ? std::string() : text.substr(from, text.find('\n', from) - from);
}

TestOutcome unknown(std::string name, const ProgramEnd& end) {
  TestOutcome out{.name = std::move(name), .verdict = Verdict::kUnknown};
  out.detail = end.timed_out ? "did not end in time" : "gave no verdict: " + end.output.substr(0, 160);
  return out;
}

Verdict verdict_of_word(std::string_view word) {
  const std::string lower = wire::lower_case(word);
  if (lower.starts_with("pass")) return Verdict::kPass;
  if (lower.starts_with("fail") || lower.starts_with("error")) return Verdict::kCritical;
  if (lower.starts_with("warn")) return Verdict::kWarning;
  if (lower.starts_with("skip") || lower.starts_with("not") || lower.starts_with("waive"))
    return Verdict::kInfo;
  return Verdict::kUnknown;
}

std::string member(const wire::Document& document, const wire::Node& object, std::string_view key) {
  for (auto i = object.first_child; i != wire::Node::kNone; i = document.at(i).next) {
    if (document.at(i).key == key) return std::string(document.at(i).text);
  }
  return {};
}

// Every object with a status anywhere below one with a name: all versions of these tools share that much.
void gather(const wire::Document& document,
            const wire::Node& node,
            const std::string& name,
            std::vector<TestOutcome>& rows,
            const std::string& prefix) {
  std::string here = name;
  if (node.kind == wire::NodeKind::kObject) {
    if (const std::string own = member(document, node, "name"); !own.empty()) here = own;
    const std::string status = member(document, node, "status");
    if (!status.empty()) {
      TestOutcome row{.name = prefix + here, .verdict = verdict_of_word(status)};
      if (row.verdict != Verdict::kPass) row.detail = status;
      rows.push_back(std::move(row));
    }
  }
  for (auto i = node.first_child; i != wire::Node::kNone; i = document.at(i).next)
    gather(document, document.at(i), here, rows, prefix);
}

std::vector<TestOutcome> rows_of_json(const std::string& name, const ProgramEnd& end) {
  const auto brace = end.output.find('{');
  const auto last = end.output.rfind('}');
  if (end.timed_out || brace == std::string::npos || last < brace) return {unknown(name, end)};
  const std::string json = end.output.substr(brace, last - brace + 1);
  const auto document = wire::parse_json_document(json, {});
  if (!document) return {unknown(name, end)};
  std::vector<TestOutcome> rows;
  gather(*document, document->root(), "test", rows, name + ".");
  if (rows.empty()) return {unknown(name, end)};
  return rows;
}

void run_dcgm(const std::string& uuid, TestLevel level, std::vector<TestOutcome>& rows) {
  const std::string program = find_program("dcgmi");
  if (program.empty()) return;
  const char* const number = level == TestLevel::kQuick ? "1" : level == TestLevel::kStandard ? "2" : "3";
  const ProgramEnd end =
      run_program({.command = {program, "diag", "-r", number, "-i", uuid, "-j"}, .limit = minutes(30)});
  for (TestOutcome& row : rows_of_json("dcgm", end)) rows.push_back(std::move(row));
}

void run_nvbandwidth(const std::string& uuid, std::vector<TestOutcome>& rows) {
  const std::string program = find_program("nvbandwidth");
  if (program.empty()) return;
  const ProgramEnd end = run_program(
      {.command = {program, "-j"}, .environment = {{"CUDA_VISIBLE_DEVICES", uuid}}, .limit = minutes(10)});
  for (TestOutcome& row : rows_of_json("nvbandwidth", end)) rows.push_back(std::move(row));
}

// Between all devices at once; alone, a device has nobody to reduce with, and a sum of one number proves
// nothing.
void run_nccl(const std::vector<std::string>& uuids, std::vector<TestOutcome>& rows) {
  const std::string program = find_program("all_reduce_perf");
  if (program.empty()) return;
  if (uuids.size() < 2) {
    rows.push_back({.name = "nccl.all_reduce",
                    .verdict = Verdict::kInfo,
                    .detail = "not run: it needs two devices, and this test is of one"});
    return;
  }
  std::string visible;
  for (const std::string& uuid : uuids) visible += (visible.empty() ? "" : ",") + uuid;
  const ProgramEnd end = run_program(
      {.command = {program, "-b", "8M", "-e", "256M", "-f", "2", "-g", std::to_string(uuids.size())},
       .environment = {{"CUDA_VISIBLE_DEVICES", visible}},
       .limit = minutes(10)});
  const std::string bounds = words_at(end.output, "Out of bounds values");
  const std::string speed = words_at(end.output, "Avg bus bandwidth");
  // It ends with a failure both when results are wrong and when it cannot run; only the count tells them
  // apart.
  const bool wrong = std::strtol(bounds.c_str(), nullptr, 10) != 0;
  if (end.timed_out || bounds.empty() || (end.exit_code != 0 && !wrong)) {
    rows.push_back(unknown("nccl.all_reduce", end));
    return;
  }
  TestOutcome row{.name = "nccl.all_reduce", .verdict = Verdict::kPass, .unit = "MB/s"};
  row.measured = static_cast<std::int64_t>(std::strtod(speed.c_str(), nullptr) * 1000);
  if (wrong) {
    row.verdict = Verdict::kCritical;
    row.detail = "values out of bounds: " + bounds + ", between " + visible;
  }
  rows.push_back(std::move(row));
}

}  // namespace

std::vector<TestOutcome> run_vendor_tools(const std::string& uuid,
                                          const std::vector<std::string>& together,
                                          TestLevel level) {
  std::vector<TestOutcome> rows;
  run_dcgm(uuid, level, rows);
  if (level == TestLevel::kQuick) return rows;
  run_nvbandwidth(uuid, rows);
  run_nccl(together, rows);
  return rows;
}

}  // namespace tranche::gpu
