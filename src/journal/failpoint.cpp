// SPDX-License-Identifier: Apache-2.0
#include "journal/failpoint.hpp"

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace tranche::journal {
namespace {

enum class Action { kKill, kError, kDelay };

struct Armed {
  Action action = Action::kKill;
  std::uint64_t from_pass = 1;
  std::uint64_t passes = 0;
};

struct Failpoints {
  std::mutex mutex{};
  std::map<std::string, Armed, std::less<>> by_name{};
};

Failpoints& failpoints() {
  static Failpoints all;
  return all;
}

Action action_named(std::string_view name) {
  if (name == "kill") return Action::kKill;
  if (name == "error") return Action::kError;
  if (name == "delay") return Action::kDelay;
  throw std::invalid_argument("a failpoint's action is kill, error or delay, not '" + std::string(name) +
                              "'");
}

std::string_view take_until(std::string_view& text, char separator) {
  const auto end = text.find(separator);
  const auto word = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return word;
}

bool arm_from_environment() {
  if (const char* spec = std::getenv("TRANCHE_FAILPOINTS")) {  // NOLINT(concurrency-mt-unsafe): before main
    try {
      arm_failpoints(spec);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "tranche: TRANCHE_FAILPOINTS: %s\n", error.what());
      std::_Exit(2);
    }
  }
  return true;
}

}  // namespace

namespace failpoint_detail {

std::atomic<bool> armed = false;  // NOLINT(*-non-const-global-variables)

void pass(std::string_view name) {
  Action action{};
  {
    auto& all = failpoints();
    const std::lock_guard hold(all.mutex);
    const auto found = all.by_name.find(name);
    if (found == all.by_name.end() || ++found->second.passes < found->second.from_pass) return;
    action = found->second.action;
  }
  switch (action) {
    case Action::kKill:
      ::raise(SIGKILL);
      break;
    case Action::kError:
      throw FailpointError("failpoint " + std::string(name));
    case Action::kDelay:
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      break;
  }
}

namespace {
const bool kReadAtStart = arm_from_environment();
}

}  // namespace failpoint_detail

void arm_failpoints(std::string_view spec) {
  std::map<std::string, Armed, std::less<>> wanted;
  while (!spec.empty()) {
    std::string_view one = take_until(spec, ',');
    const std::string name(take_until(one, ':'));
    Armed armed{.action = action_named(take_until(one, ':'))};
    if (!one.empty()) {
      const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), armed.from_pass);
      if (error != std::errc{} || end != one.data() + one.size())
        throw std::invalid_argument("a failpoint's count is a number, not '" + std::string(one) + "'");
    }
    wanted[name] = armed;
  }
  auto& all = failpoints();
  const std::lock_guard hold(all.mutex);
  all.by_name = std::move(wanted);
  failpoint_detail::armed.store(!all.by_name.empty(), std::memory_order_relaxed);
}

std::vector<std::string_view> failpoint_names() {
  return {"append.begin",
          "append.inserted",
          "append.signed",
          "append.committed",
          "append.marked",
          "append.anchored",
          "wal.copy",
          "wal.copied",
          "snapshot.begin",
          "file.written",
          "file.synced",
          "file.renamed",
          "snapshot.pruned"};
}

}  // namespace tranche::journal
