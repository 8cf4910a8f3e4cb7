// SPDX-License-Identifier: Apache-2.0
#pragma once
// The lines of an exported journal, written and read.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "journal/chain.hpp"

namespace tranche::journal {

struct ExportHeader {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  Hash previous{};  // The chain before `from`.
  PublicKey public_key{};
};

struct ExportedRecord {
  std::uint64_t sequence = 0;
  Hash hash{};
  std::string body{};
};

[[nodiscard]] std::string header_line(const ExportHeader& header);
[[nodiscard]] std::string record_line(std::uint64_t sequence, const Hash& hash, std::string_view body);
[[nodiscard]] std::string end_line(const Checkpoint& seal);

[[nodiscard]] std::optional<ExportHeader> parse_header_line(std::string_view line);
[[nodiscard]] bool parse_record_line(std::string_view line, ExportedRecord& record);
[[nodiscard]] std::optional<Checkpoint> parse_end_line(std::string_view line);

}  // namespace tranche::journal
