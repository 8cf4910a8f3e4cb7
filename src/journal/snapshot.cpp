// SPDX-License-Identifier: Apache-2.0
// File layout: "TRNCSNAP", format (4 bytes), state format (4), sequence (8), chain head (32), state hash
// (32), content size (8), content, BLAKE2b-256 over everything before it. Integers are little endian.
#include "journal/snapshot.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <sodium.h>
#include <unistd.h>

#include "journal/durable_file.hpp"
#include "journal/error.hpp"
#include "journal/failpoint.hpp"
#include "journal/signing_key.hpp"

namespace tranche::journal {
namespace {

constexpr std::string_view kMagic = "TRNCSNAP";
constexpr std::uint32_t kSnapshotFormat = 1;
constexpr std::size_t kHeaderSize = 8 + 4 + 4 + 8 + 32 + 32 + 8;

std::filesystem::path snapshot_folder(const std::filesystem::path& folder) {
  return folder / "snapshots";
}

// The number is padded so that names sort as sequences do.
std::string snapshot_name(std::uint64_t sequence) {
  const std::string digits = std::to_string(sequence);
  return "snapshot-" + std::string(20 - digits.size(), '0') + digits + ".bin";
}

std::vector<std::filesystem::path> snapshots_newest_first(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code ignored;  // No folder: no snapshots.
  for (const auto& entry : std::filesystem::directory_iterator(snapshot_folder(folder), ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("snapshot-") && name.ends_with(".bin")) found.push_back(entry.path());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

std::string header_of(const SnapshotLabel& label, std::size_t content_size) {
  std::string header(kMagic);
  const auto add = [&](const auto& bytes, std::size_t size) {
    header.append(reinterpret_cast<const char*>(bytes.data()), size);
  };
  add(little_endian(kSnapshotFormat), 4);
  add(little_endian(label.state_format), 4);
  add(little_endian(label.sequence), 8);
  add(label.chain_head, 32);
  add(label.state_hash, 32);
  add(little_endian(content_size), 8);
  return header;
}

Hash digest_of(std::string_view header, std::string_view content) {
  static_cast<void>(hash_of(""));  // Readies libsodium.
  crypto_generichash_blake2b_state state;
  Hash digest{};
  crypto_generichash_blake2b_init(&state, nullptr, 0, digest.size());
  for (const auto part : {header, content}) {
    crypto_generichash_blake2b_update(
        &state, reinterpret_cast<const unsigned char*>(part.data()), part.size());
  }
  crypto_generichash_blake2b_final(&state, digest.data(), digest.size());
  return digest;
}

// The reason why the file is no good, or nothing.
std::string read_snapshot(const std::filesystem::path& file, Snapshot& snapshot) {
  std::string bytes = read_file(file);
  if (bytes.size() < kHeaderSize + sizeof(Hash)) return "it is cut short";
  const std::string_view whole(bytes);
  const auto digest = digest_of(whole.substr(0, bytes.size() - sizeof(Hash)), "");
  if (std::memcmp(digest.data(), bytes.data() + bytes.size() - sizeof(Hash), sizeof(Hash)) != 0)
    return "its content does not match its checksum";
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  if (!whole.starts_with(kMagic)) return "it is not a snapshot";
  const auto number_of_4 = [&](std::size_t at) {
    return static_cast<std::uint32_t>(from_little_endian(data + at) & 0xFFFFFFFF);
  };
  if (number_of_4(8) != kSnapshotFormat)
    return "its format " + std::to_string(number_of_4(8)) + " is unknown";
  snapshot.label.state_format = number_of_4(12);
  snapshot.label.sequence = from_little_endian(data + 16);
  std::memcpy(snapshot.label.chain_head.data(), data + 24, 32);
  std::memcpy(snapshot.label.state_hash.data(), data + 56, 32);
  if (from_little_endian(data + 88) != bytes.size() - kHeaderSize - sizeof(Hash)) return "its size is wrong";
  if (file.filename() != snapshot_name(snapshot.label.sequence)) return "its name does not match its content";
  bytes.resize(bytes.size() - sizeof(Hash));
  bytes.erase(0, kHeaderSize);
  snapshot.content = std::move(bytes);
  return {};
}

std::string why_not_of_this_history(const Snapshot& snapshot, const Reader& store) {
  if (snapshot.label.sequence > store.last_sequence())
    return "it is ahead of the journal, which ends at record " + std::to_string(store.last_sequence());
  if (store.hash_at(snapshot.label.sequence) != snapshot.label.chain_head)
    return "it belongs to another history";
  return {};
}

}  // namespace

void write_snapshot(const std::filesystem::path& folder,
                    const SnapshotLabel& label,
                    std::string_view content) {
  failpoint("snapshot.begin");
  make_folder(snapshot_folder(folder), 0700);
  const std::string header = header_of(label, content.size());
  const Hash digest = digest_of(header, content);
  write_durably(snapshot_folder(folder) / snapshot_name(label.sequence),
                {header, content, {reinterpret_cast<const char*>(digest.data()), digest.size()}},
                0600);
  const auto all = snapshots_newest_first(folder);
  for (std::size_t i = kSnapshotsKept; i < all.size(); ++i) ::unlink(all[i].c_str());
  failpoint("snapshot.pruned");
}

std::optional<Snapshot> newest_snapshot(const std::filesystem::path& folder,
                                        const Reader& store,
                                        std::uint32_t state_format,
                                        const OnBadSnapshot& on_bad) {
  for (const auto& file : snapshots_newest_first(folder)) {
    Snapshot snapshot{};
    std::string why;
    try {
      why = read_snapshot(file, snapshot);
    } catch (const DiskFailed& error) { why = error.what(); }
    if (why.empty() && snapshot.label.state_format != state_format) continue;
    if (why.empty()) why = why_not_of_this_history(snapshot, store);
    if (why.empty()) return snapshot;
    auto aside = file;
    aside += ".bad";
    ::rename(file.c_str(), aside.c_str());
    if (on_bad) on_bad(file, why);
  }
  return std::nullopt;
}

}  // namespace tranche::journal
