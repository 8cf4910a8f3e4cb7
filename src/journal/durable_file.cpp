// SPDX-License-Identifier: Apache-2.0
#include "journal/durable_file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "journal/error.hpp"
#include "journal/failpoint.hpp"

namespace tranche::journal {

File File::open(const std::filesystem::path& path, int flags, mode_t mode) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  if (descriptor < 0) throw_disk_error(errno, "open", path);
  return File(descriptor);
}

void File::close() noexcept {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

void throw_disk_error(int error, const std::string& doing, const std::filesystem::path& path) {
  const std::string text =
      "cannot " + doing + " " + path.string() + ": " + std::generic_category().message(error);
  if (error == ENOSPC || error == EDQUOT) throw DiskFull(text);
  throw DiskFailed(text);
}

std::string read_file(const std::filesystem::path& path) {
  const File file = File::open(path, O_RDONLY);
  struct stat about{};
  if (::fstat(file.descriptor(), &about) != 0) throw_disk_error(errno, "read", path);
  std::string content(static_cast<std::size_t>(about.st_size), '\0');
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t got = ::read(file.descriptor(), content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_disk_error(errno, "read", path);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  content.resize(done);
  return content;
}

void write_all(int descriptor, std::string_view bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_disk_error(errno, "write", path);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void sync_folder(const std::filesystem::path& folder) {
  const File file = File::open(folder, O_RDONLY | O_DIRECTORY);
  if (::fsync(file.descriptor()) != 0) throw_disk_error(errno, "sync", folder);
}

void make_folder(const std::filesystem::path& folder, mode_t mode) {
  if (std::filesystem::is_directory(folder)) return;
  const auto parent = std::filesystem::absolute(folder).parent_path();
  if (!std::filesystem::is_directory(parent)) make_folder(parent, 0755);
  if (::mkdir(folder.c_str(), mode) != 0 && errno != EEXIST) throw_disk_error(errno, "create", folder);
  sync_folder(parent);
}

void write_durably(const std::filesystem::path& path,
                   const std::vector<std::string_view>& parts,
                   mode_t mode) {
  auto temporary = path;
  temporary += ".tmp";
  try {
    ::unlink(temporary.c_str());
    const File file = File::open(temporary, O_WRONLY | O_CREAT | O_EXCL, mode);
    for (const auto part : parts) write_all(file.descriptor(), part, temporary);
    failpoint("file.written");
    if (::fsync(file.descriptor()) != 0) throw_disk_error(errno, "sync", temporary);
    failpoint("file.synced");
    if (::rename(temporary.c_str(), path.c_str()) != 0) throw_disk_error(errno, "rename", temporary);
    failpoint("file.renamed");
  } catch (...) {
    ::unlink(temporary.c_str());  // Half a file takes space that a full disk needs.
    throw;
  }
  sync_folder(path.parent_path());
}

}  // namespace tranche::journal
