// SPDX-License-Identifier: Apache-2.0
#include "cli/wait_for_tests.hpp"

#include <algorithm>
#include <thread>

#include "base/text.hpp"
#include "cli/terminal.hpp"
#include "wire/fields.hpp"

namespace tranche::cli {
namespace {

using wire::DeviceTestView;
using wire::NodeTestView;
using wire::Verdict;

bool is_in(const NodeTestView& view, const DeviceTestView& wanted) {
  return std::any_of(view.items.begin(), view.items.end(), [&](const DeviceTestView& one) {
    return one.device == wanted.device && one.last_test && wanted.last_test &&
           one.last_test->at == wanted.last_test->at;
  });
}

// Without reports of tests before this one.
std::vector<DeviceTestView> those_of(const NodeTestView& view,
                                     const std::vector<DeviceId>& ordered,
                                     const NodeTestView& before) {
  std::vector<DeviceTestView> out;
  for (const DeviceTestView& one : view.items) {
    if (std::find(ordered.begin(), ordered.end(), one.device) == ordered.end()) continue;
    out.push_back(one);
    if (is_in(before, one)) out.back().last_test.reset();
  }
  return out;
}

// What is being done now, for people.
std::string words_of(const NodeTestView& view, const std::vector<DeviceTestView>& tests) {
  if (!view.connected) return "waits for " + view.node + ", which is not connected";
  std::size_t waiting = 0;
  std::string out;
  for (const DeviceTestView& one : tests) {
    if (!one.testing) continue;
    if (one.part.empty()) {
      ++waiting;
      continue;
    }
    out +=
        (out.empty() ? "" : ", ") + text(one.device) + " " + std::to_string(one.percent) + " %: " + one.part;
  }
  if (waiting > 0) out += (out.empty() ? "" : "; ") + std::to_string(waiting) + " to come";
  return out;
}

// On a terminal the line stays where it is; in a log each change is a line.
class ProgressLine {
 public:
  explicit ProgressLine(const Session& session)
      : quiet_(session.flags().quiet), terminal_(stderr_is_terminal()) {}
  ~ProgressLine() {
    if (terminal_ && !last_.empty()) write_stderr("\r\x1b[K");
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(const std::string& words) {
    if (quiet_ || words == last_) return;
    last_ = words;
    write_stderr(terminal_ ? "\r\x1b[K" + words : words + "\n");
  }

 private:
  bool quiet_;
  bool terminal_;
  std::string last_{};
};

Table found_table(const std::vector<DeviceTestView>& tests) {
  Table table({{"DEVICE"},
               {"STATE"},
               {"TEST"},
               {"VERDICT"},
               {"MEASURED", Align::kRight},
               {"FLOOR", Align::kRight},
               {"UNIT"},
               {"DETAIL"}});
  for (const DeviceTestView& one : tests) {
    if (!one.last_test) {
      table.add(
          {text(one.device), wire::name_of(one.state), "-", "unknown", "-", "-", "-", "it did not run"});
      continue;
    }
    for (const wire::TestOutcome& row : one.last_test->tests)
      table.add({text(one.device),
                 wire::name_of(one.state),
                 row.name,
                 wire::name_of(row.verdict),
                 std::to_string(row.measured),
                 row.floor == 0 ? "-" : std::to_string(row.floor),
                 row.unit,
                 row.detail});
  }
  return table;
}

bool is_fit(const DeviceTestView& one) {
  return one.last_test &&
         (one.last_test->verdict == Verdict::kPass || one.last_test->verdict == Verdict::kInfo);
}

}  // namespace

void wait_for_tests(Session& session,
                    const std::string& path,
                    const std::vector<DeviceId>& ordered,
                    const NodeTestView& before) {
  constexpr auto kPause = std::chrono::seconds(1);
  Answer<NodeTestView> answer;
  std::vector<DeviceTestView> tests;
  {
    ProgressLine line(session);
    for (;;) {
      answer = session.get<NodeTestView>(path);
      tests = those_of(answer.value, ordered, before);
      if (std::none_of(tests.begin(), tests.end(), [](const DeviceTestView& one) { return one.testing; }))
        break;
      line.show(words_of(answer.value, tests));
      std::this_thread::sleep_for(kPause);
    }
  }
  session.print(answer.body, {.table = [&] { return found_table(tests); }});
  if (!std::all_of(tests.begin(), tests.end(), is_fit)) throw quiet_end(kOther);
}

}  // namespace tranche::cli
