// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the journal's tests share. Test equipment: nothing of the product includes it.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <stdlib.h>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/random.hpp"
#include "journal/store.hpp"

namespace tranche::journal {

// A folder of its own, removed at the end. In memory where possible: durability is proved elsewhere.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const bool has_memory = std::filesystem::is_directory("/dev/shm");
    std::string name =
        (has_memory ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path()) /
        "tranche-journal-XXXXXX";
    TRANCHE_CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_{};
};

inline Instant at_second(std::int64_t seconds) {
  return Instant(std::chrono::seconds(1'900'000'000 + seconds));
}

// What record `sequence` holds in a test: known beforehand, different for each, of different sizes.
inline std::string body_of(std::uint64_t sequence) {
  Random random(sequence);
  std::string body = "record " + std::to_string(sequence) + " ";
  const std::uint64_t size = 20 + random.below(300);
  while (body.size() < size) body += static_cast<char>(random.below(256));
  return body;
}

inline std::vector<std::string> bodies_after(std::uint64_t sequence, std::uint64_t count) {
  std::vector<std::string> bodies;
  for (std::uint64_t i = 1; i <= count; ++i) bodies.push_back(body_of(sequence + i));
  return bodies;
}

inline void append_records(Store& store, std::uint64_t count, Instant now = at_second(0)) {
  store.append(bodies_after(store.last_sequence(), count), now);
}

inline std::vector<std::pair<std::uint64_t, std::string>> records_in(const Reader& store) {
  std::vector<std::pair<std::uint64_t, std::string>> records;
  store.scan(1, UINT64_MAX, [&](std::uint64_t sequence, std::string_view body) {
    records.emplace_back(sequence, body);
    return true;
  });
  return records;
}

// The number of records, when each is the one that was given; otherwise the first wrong one is told as
// -sequence.
inline std::int64_t count_expected_records(const Reader& store) {
  std::int64_t count = 0;
  for (const auto& [sequence, body] : records_in(store)) {
    if (sequence != static_cast<std::uint64_t>(count) + 1 || body != body_of(sequence))
      return -static_cast<std::int64_t>(sequence);
    ++count;
  }
  return count;
}

// TRANCHE_LONG=1 asks for the long runs, a larger number for as many times more where that makes sense.
inline int long_scale() {
  const char* text = ::getenv("TRANCHE_LONG");  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? 0 : std::max(1, std::atoi(text));
}

inline bool is_long_run() {
  return long_scale() > 0;
}

// TRANCHE_SEED repeats a run that failed; every randomised test prints its seed.
inline std::uint64_t test_seed(std::uint64_t otherwise) {
  const char* text = ::getenv("TRANCHE_SEED");  // NOLINT(concurrency-mt-unsafe)
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace tranche::journal
