// SPDX-License-Identifier: Apache-2.0
#include "server/log_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/fields.hpp"

namespace tranche::server {
namespace {

class File {
 public:
  File(const std::filesystem::path& path, int flags)
      : number_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  ~File() {
    if (number_ >= 0) ::close(number_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool open() const { return number_ >= 0; }
  [[nodiscard]] std::uint64_t size() const {
    struct stat found{};
    return ::fstat(number_, &found) == 0 ? static_cast<std::uint64_t>(found.st_size) : 0;
  }

 private:
  int number_;
};

}  // namespace

LogStore::LogStore(std::filesystem::path folder, std::uint64_t bytes_max)
    : folder_(std::move(folder)), bytes_max_(bytes_max) {
  std::filesystem::create_directories(folder_);
  std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
}

std::filesystem::path LogStore::path_of(const LogName& name) const {
  return folder_ / text(name.job) /
         (std::to_string(name.attempt) + '.' + std::to_string(name.rank) + '.' +
          std::string(wire::name_of(name.stream)));
}

std::uint64_t LogStore::append(const LogName& name, std::uint64_t offset, std::string_view bytes) {
  const std::filesystem::path path = path_of(name);
  std::uint64_t held = 0;
  {
    const std::lock_guard lock(mutex_);
    std::filesystem::create_directories(path.parent_path());
    const File file(path, O_WRONLY | O_CREAT);
    if (!file.open()) return 0;
    held = file.size();
    if (offset > held || offset + bytes.size() <= held) return held;
    bytes.remove_prefix(held - offset);
    if (held >= bytes_max_) return offset + bytes.size();  // Full: taken from the sender, and dropped.
    const ssize_t written = ::pwrite(file.number(), bytes.data(), bytes.size(), static_cast<off_t>(held));
    if (written <= 0) return held;
    held += static_cast<std::uint64_t>(written);
  }
  tell(name);
  return held;
}

std::uint64_t LogStore::size(const LogName& name) const {
  const File file(path_of(name), O_RDONLY);
  return file.open() ? file.size() : 0;
}

std::string LogStore::read(const LogName& name, std::uint64_t offset, std::size_t most) const {
  const File file(path_of(name), O_RDONLY);
  if (!file.open()) return {};
  std::string bytes(most, '\0');
  const ssize_t count = ::pread(file.number(), bytes.data(), most, static_cast<off_t>(offset));
  bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return bytes;
}

std::shared_ptr<void> LogStore::listen(JobId job, Listener listener) {
  auto handle = std::make_shared<Listener>(std::move(listener));
  const std::lock_guard lock(mutex_);
  listeners_.emplace(job, handle);
  return handle;
}

void LogStore::tell(const LogName& name) {
  std::vector<std::shared_ptr<Listener>> listeners;
  {
    const std::lock_guard lock(mutex_);
    const auto [from, to] = listeners_.equal_range(name.job);
    for (auto at = from; at != to;) {
      auto alive = at->second.lock();
      if (!alive) {
        at = listeners_.erase(at);
        continue;
      }
      listeners.push_back(std::move(alive));
      ++at;
    }
  }
  for (const auto& listener : listeners) (*listener)(name);
}

void LogStore::forget(JobId job) {
  const std::lock_guard lock(mutex_);
  std::error_code ignored;
  std::filesystem::remove_all(folder_ / text(job), ignored);
}

}  // namespace tranche::server
