// SPDX-License-Identifier: Apache-2.0
#pragma once
// Two copies of the truth outside the database. Anchors are signed checkpoints, one JSON line each: whoever
// keeps the file elsewhere can prove a rewrite or a cut. The mark says how far records were acknowledged: it
// catches a database that came back shorter (a damaged or lost WAL), down to the last record.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "journal/chain.hpp"
#include "journal/durable_file.hpp"

namespace tranche::journal {

// {"checkpoint":N,"hash":"...","at":N,"signature":"..."}, without the line's end.
[[nodiscard]] std::string checkpoint_line(const Checkpoint& checkpoint);
[[nodiscard]] std::optional<Checkpoint> parse_checkpoint_line(std::string_view line);

class AnchorFile {
 public:
  // Cuts off last lines that power loss left incomplete; the database still has those checkpoints.
  explicit AnchorFile(const std::filesystem::path& path);
  [[nodiscard]] const std::optional<Checkpoint>& last() const { return last_; }
  // False when it could not be written (disk full); then nothing of it was, and the caller tries again later.
  [[nodiscard]] bool append(const Checkpoint& checkpoint);

 private:
  std::filesystem::path path_{};
  File file_{};
  std::optional<Checkpoint> last_{};
};

// Calls `visit` with each anchor; false from it ends. Throws Corrupt (0) at a line that is no anchor.
void read_anchors(const std::filesystem::path& path, const std::function<bool(const Checkpoint&)>& visit);

struct Mark {
  std::uint64_t sequence = 0;
  Hash head{};
};

// Written in place after every commit, without a sync: after power loss it may be old, never ahead.
class MarkFile {
 public:
  explicit MarkFile(const std::filesystem::path& folder);
  void write(const Mark& mark) noexcept;

 private:
  File file_{};
};

// Empty when there is none, or a power loss spoiled it.
[[nodiscard]] std::optional<Mark> read_mark(const std::filesystem::path& folder);

}  // namespace tranche::journal
