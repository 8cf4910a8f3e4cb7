// SPDX-License-Identifier: Apache-2.0
// The program that tests is a script here: it says how far it is, waits to be let on, and reports.
#include "agent/device_orders.hpp"

#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <thread>
#include <unistd.h>

#include "agent/files.hpp"
#include "gpu/device_tests.hpp"
#include "wire/codec.hpp"

namespace tranche::agent {
namespace {

using wire::DeviceTask;

// Writes its arguments beside itself, then its progress, and waits until the file `go` is there.
constexpr std::string_view kProgram = R"(#!/bin/sh
here=$(dirname "$0")
echo "$*" >> "$here/asked"
while [ $# -gt 0 ]; do
  case "$1" in
    --progress) progress=$2 ;;
    --report) report=$2 ;;
  esac
  shift
done
echo '{"percent":62,"part":"memory.random"}' > "$progress.new"
mv "$progress.new" "$progress"
until [ -e "$here/go" ]; do sleep 0.01; done
echo half > "$progress.new"
cp "$here/report" "$report"
)";

struct Bench {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("tranche-orders-test-" + std::to_string(::getpid()));

  Bench() {
    remove_tree(folder);
    std::filesystem::create_directories(folder / "scratch");
    std::ofstream(folder / "program") << kProgram;
    std::filesystem::permissions(folder / "program", std::filesystem::perms::owner_all);
    gpu::DeviceReports reports{.items = {{.uuid = "GPU-1"}}};
    reports.items.front().receipt.verdict = wire::Verdict::kPass;
    std::ofstream(folder / "report") << wire::to_json(reports);
  }
  ~Bench() { remove_tree(folder); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  void let_on() const { std::ofstream(folder / "go") << "go"; }
  [[nodiscard]] std::vector<std::string> asked() const {
    std::vector<std::string> lines;
    std::ifstream in(folder / "asked");
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
};

wire::DeviceOrder order(std::uint64_t number, DeviceTask task) {
  return {.order = number, .device = {number}, .uuid = "GPU-" + std::to_string(number), .task = task};
}

wire::DeviceFacts facts(std::uint64_t number) {
  return {.uuid = "GPU-" + std::to_string(number), .pci_address = "0000:0" + std::to_string(number)};
}

TEST_CASE("device orders: how far the test is that runs, who waits, and whom it is tested together with") {
  Bench bench;
  DeviceOrders orders({.program = (bench.folder / "program").string(),
                       .scratch = (bench.folder / "scratch").string(),
                       .ring = [] {}});
  CHECK(orders.progress().items.empty());
  for (const std::uint64_t number : {1U, 2U, 3U})
    orders.begin(order(number, DeviceTask::kAccept), facts(number));
  orders.begin(order(4, DeviceTask::kTest), facts(4));    // Out of service: nothing is tested against it.
  orders.begin(order(2, DeviceTask::kAccept), facts(2));  // Told again after a break of the link.
  wire::TestsUnderWay now;
  do { now = orders.progress(); } while (now.items.front().part != "memory.random");
  CHECK(now.items == std::vector<wire::TestProgress>{{1, 62, "memory.random"}, {2, 0, ""}, {3, 0, ""}, {4}});
  bench.let_on();
  std::vector<wire::Receipts> answers;
  while (answers.size() < 4) {
    for (wire::Receipts& one : orders.take_answers()) answers.push_back(std::move(one));
    std::this_thread::yield();
  }
  for (std::uint64_t i = 0; i < 4; ++i) {
    CHECK(answers[i].outcomes.front().order == i + 1);
    CHECK(answers[i].outcomes.front().done);
    CHECK(answers[i].acceptances.front().device == DeviceId{i + 1});
    CHECK(answers[i].scrubs.size() == (i < 3 ? 1 : 0));
  }
  const auto lines = bench.asked();
  REQUIRE(lines.size() == 4);
  const auto has = [&](std::size_t line, const std::string& words) {
    return lines[line].find(words) != std::string::npos;
  };
  CHECK(has(0, "--device 0000:01"));
  CHECK(has(0, "--together 0000:02 --together 0000:03"));
  CHECK(has(1, "--device 0000:02"));
  CHECK(has(1, "--together 0000:03"));  // The first may have somebody on it by now.
  CHECK_FALSE(has(1, "0000:01"));
  CHECK_FALSE(has(2, "--together"));
  CHECK_FALSE(has(0, "0000:04"));
  CHECK(has(0, "--scrub"));
  CHECK_FALSE(has(3, "--scrub"));
  CHECK(orders.progress().items.empty());
  CHECK(std::filesystem::is_empty(bench.folder / "scratch"));  // Nothing is left behind.
}

TEST_CASE("device orders: a program that says nothing of how far it is, or nonsense, is starting") {
  Bench bench;
  DeviceOrders orders({.program = (bench.folder / "program").string(),
                       .scratch = (bench.folder / "scratch").string(),
                       .ring = [] {}});
  std::ofstream(bench.folder / "program") << "#!/bin/sh\nhere=$(dirname \"$0\")\necho x > \"$here/asked\"\n"
                                             "until [ -e \"$here/go\" ]; do sleep 0.01; done\nexit 3\n";
  orders.begin(order(7, DeviceTask::kAccept), facts(7));
  while (bench.asked().empty()) std::this_thread::yield();
  CHECK(orders.progress().items == std::vector<wire::TestProgress>{{7, 0, "starting"}});
  std::ofstream(bench.folder / "scratch" / "device-progress-7.json") << "half a w";
  CHECK(orders.progress().items == std::vector<wire::TestProgress>{{7, 0, "starting"}});
  bench.let_on();
  std::vector<wire::Receipts> answers;
  while (answers.empty()) {
    answers = orders.take_answers();
    std::this_thread::yield();
  }
  CHECK_FALSE(answers.front().outcomes.front().done);
  CHECK(answers.front().outcomes.front().message.starts_with("the test could not run"));
}

}  // namespace
}  // namespace tranche::agent
