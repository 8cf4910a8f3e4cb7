// SPDX-License-Identifier: Apache-2.0
#include "server/log_store.hpp"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/fields.hpp"

namespace tranche::server {
namespace {

// "1.0.stdout"
std::optional<LogName> name_of(JobId job, const std::string& file) {
  LogName name{.job = job};
  char* end = nullptr;
  name.attempt = static_cast<std::uint32_t>(std::strtoul(file.c_str(), &end, 10));
  if (*end != '.') return std::nullopt;
  name.rank = static_cast<std::uint32_t>(std::strtoul(end + 1, &end, 10));
  if (*end != '.') return std::nullopt;
  const auto stream = wire::from_name<wire::LogStream>(std::string_view(end + 1));
  if (!stream) return std::nullopt;
  name.stream = *stream;
  return name;
}
constexpr std::uint64_t kResultsMax = std::uint64_t{4} << 30U;  // Of one lease: what its units made.

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
    const bool is_full = held >= (name.stream == wire::LogStream::kResults ? kResultsMax : bytes_max_);
    if (is_full) return offset + bytes.size();  // Full: taken from the sender, and dropped.
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

std::size_t LogStore::forget_older(std::chrono::seconds age) {
  namespace fs = std::filesystem;
  const auto oldest = fs::file_time_type::clock::now() - age;
  std::error_code ignored;
  std::vector<fs::path> old;
  for (const auto& job : fs::directory_iterator(folder_, ignored)) {
    bool fresh = false;
    for (const auto& file : fs::directory_iterator(job.path(), ignored))
      fresh = fresh || file.last_write_time(ignored) > oldest;
    if (!fresh) old.push_back(job.path());
  }
  const std::lock_guard lock(mutex_);
  for (const fs::path& path : old) fs::remove_all(path, ignored);
  return old.size();
}

std::vector<LogStore::Found> LogStore::search(JobId job, std::string_view text, std::size_t most) const {
  constexpr std::size_t kLineMax = 4096;  // Of what is shown; a line may be as long as it likes.
  std::vector<Found> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / tranche::text(job), ignored)) {
    const std::optional<LogName> name = name_of(job, entry.path().filename().string());
    if (!name) continue;
    const std::string content = read(*name, 0, size(*name));
    for (std::size_t at = content.find(text); at != std::string::npos && found.size() < most;) {
      const std::size_t before = at == 0 ? std::string::npos : content.rfind('\n', at - 1);
      const std::size_t begin = before == std::string::npos ? 0 : before + 1;
      const std::size_t end = std::min(content.find('\n', at), content.size());
      found.push_back({*name, begin, content.substr(begin, std::min(end - begin, kLineMax))});
      at = content.find(text, end);
    }
  }
  return found;
}

void LogStore::forget(JobId job) {
  const std::lock_guard lock(mutex_);
  std::error_code ignored;
  std::filesystem::remove_all(folder_ / text(job), ignored);
}

}  // namespace tranche::server
