// SPDX-License-Identifier: Apache-2.0
#pragma once
// Plain files whose content survives power loss. Errors become DiskFull or DiskFailed, naming the file.
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace tranche::journal {

// Owns a descriptor.
class File {
 public:
  File() = default;
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~File() { close(); }

  // Throws DiskFull or DiskFailed; `flags` and `mode` as open(2) takes them.
  [[nodiscard]] static File open(const std::filesystem::path& path, int flags, mode_t mode = 0);
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  void close() noexcept;

 private:
  int descriptor_ = -1;
};

// Throws what errno means for `doing` to `path`.
[[noreturn]] void throw_disk_error(int error, const std::string& doing, const std::filesystem::path& path);

[[nodiscard]] std::string read_file(const std::filesystem::path& path);
void write_all(int descriptor, std::string_view bytes, const std::filesystem::path& path);
void sync_folder(const std::filesystem::path& folder);
// Creates the folder and missing parents, and makes its entry durable.
void make_folder(const std::filesystem::path& folder, mode_t mode);
// Either the old file or the whole new one is there after a crash, and the new one once this returns.
void write_durably(const std::filesystem::path& path,
                   const std::vector<std::string_view>& parts,
                   mode_t mode);

}  // namespace tranche::journal
