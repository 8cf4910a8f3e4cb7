// SPDX-License-Identifier: Apache-2.0
#include "journal/exported_file.hpp"

#include <algorithm>
#include <ostream>
#include <sodium.h>

#include "journal/anchors.hpp"
#include "journal/error.hpp"
#include "journal/json_line.hpp"
#include "journal/verify.hpp"

namespace tranche::journal {

std::string header_line(const ExportHeader& header) {
  return R"({"tranche_journal":1,"from":)" + std::to_string(header.from) + R"(,"to":)" +
         std::to_string(header.to) + R"(,"previous":")" + to_hex(header.previous) + R"(","public_key":")" +
         to_hex(header.public_key) + "\"}";
}

std::string record_line(std::uint64_t sequence, const Hash& hash, std::string_view body) {
  const std::size_t size = sodium_base64_encoded_len(body.size(), sodium_base64_VARIANT_ORIGINAL);
  std::string text(size, '\0');
  sodium_bin2base64(text.data(),
                    size,
                    reinterpret_cast<const unsigned char*>(body.data()),
                    body.size(),
                    sodium_base64_VARIANT_ORIGINAL);
  text.pop_back();
  return R"({"sequence":)" + std::to_string(sequence) + R"(,"hash":")" + to_hex(hash) + R"(","body":")" +
         text + "\"}";
}

std::string end_line(const Checkpoint& seal) {
  return R"({"end":)" + checkpoint_line(seal) + "}";
}

std::optional<ExportHeader> parse_header_line(std::string_view line) {
  ExportHeader header{};
  if (take(line, R"({"tranche_journal":1,"from":)") && take_number(line, header.from) &&
      take(line, R"(,"to":)") && take_number(line, header.to) && take(line, R"(,"previous":")") &&
      take_hex(line, header.previous) && take(line, R"(","public_key":")") &&
      take_hex(line, header.public_key) && line == "\"}")
    return header;
  return std::nullopt;
}

bool parse_record_line(std::string_view line, ExportedRecord& record) {
  if (!take(line, R"({"sequence":)") || !take_number(line, record.sequence) || !take(line, R"(,"hash":")") ||
      !take_hex(line, record.hash) || !take(line, R"(","body":")") || !line.ends_with("\"}"))
    return false;
  line.remove_suffix(2);
  record.body.resize(line.size() / 4 * 3);
  std::size_t size = 0;
  const int outcome = sodium_base642bin(reinterpret_cast<unsigned char*>(record.body.data()),
                                        record.body.size(),
                                        line.data(),
                                        line.size(),
                                        nullptr,
                                        &size,
                                        nullptr,
                                        sodium_base64_VARIANT_ORIGINAL);
  record.body.resize(size);
  return outcome == 0;
}

std::optional<Checkpoint> parse_end_line(std::string_view line) {
  if (!take(line, R"({"end":)") || !line.ends_with('}')) return std::nullopt;
  line.remove_suffix(1);
  return parse_checkpoint_line(line);
}

void export_records(
    const Store& store, std::uint64_t from, std::uint64_t to, Instant now, std::ostream& out) {
  const std::uint64_t last = store.last_sequence();
  from = std::clamp<std::uint64_t>(from, 1, last + 1);
  to = std::clamp(to, from - 1, last);  // An empty export is still a sealed statement.
  out << header_line(
             {.from = from, .to = to, .previous = store.hash_at(from - 1), .public_key = store.public_key()})
      << '\n';
  const auto checkpoints = store.checkpoints(from, to);
  auto next = checkpoints.begin();
  store.scan_with_hash(from, to, [&](std::uint64_t sequence, std::string_view body, const Hash& hash) {
    out << record_line(sequence, hash, body) << '\n';
    for (; next != checkpoints.end() && next->sequence == sequence; ++next)
      out << checkpoint_line(*next) << '\n';
    return out.good();
  });
  out << end_line(store.seal_export(from, to, now)) << '\n';
  out.flush();
  if (!out) throw DiskFailed("the export could not be written");
}

}  // namespace tranche::journal
