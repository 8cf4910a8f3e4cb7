// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small things with files that the agent does in many places. All throw std::runtime_error with the path.
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/descriptor.hpp"

namespace tranche::agent {

[[nodiscard]] std::optional<std::string> read_whole(const std::filesystem::path& path);  // Nothing: absent.
// Replaces the file in one step: a reader sees the old or the new. `sync`: it survives a power loss, too.
void write_whole(const std::filesystem::path& path,
                 std::string_view content,
                 unsigned mode,
                 bool sync = false);
// A new file, written in place: whole only when the caller says so somewhere.
void put_file(const std::filesystem::path& path, std::string_view content, unsigned mode);
void make_folder(const std::filesystem::path& path, unsigned mode);
[[nodiscard]] Descriptor open_folder(const std::filesystem::path& path);
// A sealed-off place for bytes that only descriptors reach.
[[nodiscard]] Descriptor memory_file(const char* name, std::string_view content);
[[nodiscard]] std::string read_descriptor(int descriptor);  // From the start.

// Removes a tree without following a link out of it, whatever modes the job left; false: something stayed.
bool remove_tree(const std::filesystem::path& path);

struct TreeSize {
  std::uint64_t bytes = 0;  // On disk.
  std::uint64_t files = 0;
};
// Adds up a tree, and stops early past `enough`.
[[nodiscard]] TreeSize tree_size(int folder, const char* name, TreeSize enough);

}  // namespace tranche::agent
