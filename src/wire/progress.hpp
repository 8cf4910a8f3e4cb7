// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a job says of how far it is, in units of its own. docs/progress.md is the protocol for people.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "wire/amounts.hpp"

namespace tranche::wire {

enum class WorkUnit : std::uint8_t { kNone, kUnit, kFrame, kSecond, kStep, kRequest, kToken };
BOOST_DESCRIBE_ENUM(WorkUnit, kNone, kUnit, kFrame, kSecond, kStep, kRequest, kToken)

struct UnitVerdict {  // How one unit of a chunk went.
  std::int64_t unit = 0;
  bool good = false;
  std::int32_t exit_code = 0;
  std::int64_t microseconds = 0;
  bool operator==(const UnitVerdict&) const = default;
};
BOOST_DESCRIBE_STRUCT(UnitVerdict, (), (unit, good, exit_code, microseconds))

// A checkpoint that the job said is whole, as it was found then.
struct CheckpointNote {
  std::string name{};  // Of a file or folder in the checkpoint folder.
  std::int64_t bytes = 0;
  std::string digest{};  // SHA-256 of its files, with their names.
  Instant at{};
  WorkUnit unit = WorkUnit::kNone;  // How far the job was.
  std::int64_t done = 0;
  bool operator==(const CheckpointNote&) const = default;
};
BOOST_DESCRIBE_STRUCT(CheckpointNote, (), (name, bytes, digest, at, unit, done))
constexpr std::size_t kCheckpointsKept = 3;  // Of a job: a damaged one has others before it.

struct ProgressReport {
  LeaseId lease{};
  std::uint64_t epoch = 0;
  Instant at{};
  WorkUnit unit = WorkUnit::kNone;  // None: there are only verdicts.
  std::int64_t done = 0;
  std::int64_t total = 0;  // Zero: not known.
  std::string metrics{};   // "loss=0.41 lr=0.001", as the job wrote them.
  std::vector<UnitVerdict> verdicts{};
  std::vector<CheckpointNote> checkpoints{};  // New ones.
  bool operator==(const ProgressReport&) const = default;
};
BOOST_DESCRIBE_STRUCT(ProgressReport,
                      (),
                      (lease, epoch, at, unit, done, total, metrics, verdicts, checkpoints))

// One line of the protocol. A verdict, a checkpoint that is whole, or how far the whole job is.
struct ProgressLine {
  WorkUnit unit = WorkUnit::kNone;
  std::int64_t done = 0;
  std::int64_t total = 0;
  std::string metrics{};
  std::optional<UnitVerdict> verdict{};
  std::string checkpoint{};
};

// Nothing when the line is not of the protocol: such a line is the job's own, and costs nothing.
[[nodiscard]] std::optional<ProgressLine> parse_progress_line(std::string_view line);

// A set of units as ranges: sorted, apart from each other.
using UnitSet = std::vector<UnitRange>;
[[nodiscard]] std::int64_t count_of(const UnitSet& set);
[[nodiscard]] bool contains(const UnitSet& set, std::int64_t unit);
void add_unit(UnitSet& set, std::int64_t unit);
bool remove_unit(UnitSet& set, std::int64_t unit);   // False: it was not there.
[[nodiscard]] std::string text(const UnitSet& set);  // "1-16, 20"

// The command for one unit: {frame} becomes 17, {frame:04} becomes 0017.
[[nodiscard]] std::string command_for(std::string_view command,
                                      std::string_view unit_name,
                                      std::int64_t unit);

}  // namespace tranche::wire
