// SPDX-License-Identifier: Apache-2.0
#pragma once
// A folder as one stream of bytes and back: files, folders and links, by name, and nothing else. The same
// folder gives the same bytes, so their digest is the folder's. What a tenant left there is never followed
// out of it.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/descriptor.hpp"

namespace tranche::agent {

class ArchiveWriter {
 public:
  // All of the folder, or what is named in it: a file, or a folder with all below. Throws std::runtime_error
  // when it cannot be read, or is no file and no folder.
  explicit ArchiveWriter(const std::filesystem::path& folder, const std::string& name = {});

  // The next bytes, about so many; empty: that was all. Throws std::runtime_error.
  std::string next(std::size_t about);
  [[nodiscard]] std::uint64_t content_bytes() const { return content_; }  // Of all files.

 private:
  enum class Kind : char { kFile = 'F', kFolder = 'D', kLink = 'L' };
  struct Entry {
    Kind kind = Kind::kFile;
    unsigned mode = 0;
    std::uint64_t size = 0;
    std::string path{};
    std::string target{};
  };
  void list(int folder, const std::string& prefix, const std::string& name, int depth);
  void list_below(int folder, const std::string& path, int depth);

  Descriptor root_;
  std::vector<Entry> entries_;
  std::size_t at_ = 0;
  std::uint64_t left_ = 0;  // Of the file that is being read.
  Descriptor file_;
  std::uint64_t content_ = 0;
  bool ended_ = false;
};

class ArchiveReader {
 public:
  // Into a folder that is there; what it makes belongs to `owner` (zero: to whoever runs this).
  ArchiveReader(const std::filesystem::path& folder, unsigned owner);

  void feed(std::string_view bytes);  // Throws std::runtime_error when it is no such stream.
  [[nodiscard]] bool is_whole() const { return ended_; }

 private:
  bool take_header();
  void begin_entry(char kind, unsigned mode, std::uint64_t size, std::string path);
  [[nodiscard]] Descriptor parent_of(const std::string& path, std::string& name) const;

  Descriptor root_;
  const unsigned owner_;
  std::string pending_;
  Descriptor file_;
  std::uint64_t left_ = 0;
  bool ended_ = false;
};

struct Digested {
  std::string digest{};
  std::int64_t bytes = 0;
};
// Nothing when there is no such file or folder.
[[nodiscard]] std::optional<Digested> digest_in(const std::filesystem::path& folder, const std::string& name);

}  // namespace tranche::agent
