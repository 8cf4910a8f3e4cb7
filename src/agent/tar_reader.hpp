// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is in a tar archive, entry by entry: the old form, ustar, pax and GNU's long names. Throws
// std::runtime_error on what is damaged.
#include <cstdint>
#include <ctime>
#include <string>

#include "agent/byte_source.hpp"

namespace tranche::agent {

enum class TarKind : std::uint8_t { kFile, kFolder, kSymbolicLink, kHardLink, kOther };

struct TarEntry {
  std::string path{};  // As it is written there.
  std::string target{};
  TarKind kind = TarKind::kOther;
  unsigned mode = 0;
  std::time_t written = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;  // Of the content, from the archive's start.
};

class TarReader {
 public:
  explicit TarReader(ByteSource& source) : source_(source) {}
  bool next(TarEntry& entry);                      // False: the end.
  std::size_t read(char* into, std::size_t most);  // The content of the entry; zero: all of it was read.

 private:
  bool take_header(TarEntry& entry, char& letter);
  void take(char* into, std::size_t bytes);
  void skip_rest();
  std::string text_of(const TarEntry& entry);

  ByteSource& source_;
  std::uint64_t at_ = 0;
  std::uint64_t left_ = 0;     // Of the entry's content.
  std::uint64_t padding_ = 0;  // Behind it.
};

}  // namespace tranche::agent
