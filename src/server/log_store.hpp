// SPDX-License-Identifier: Apache-2.0
#pragma once
// What jobs wrote, kept by the server: one file a job, attempt, rank and stream. Appends say how far they
// are, so that a chunk sent twice is kept once.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "wire/agent_message.hpp"

namespace tranche::server {

struct LogName {
  JobId job{};
  std::uint32_t attempt = 1;
  std::uint32_t rank = 0;
  wire::LogStream stream = wire::LogStream::kStdout;
  auto operator<=>(const LogName&) const = default;
};

class LogStore {
 public:
  explicit LogStore(std::filesystem::path folder, std::uint64_t bytes_max = 64U << 20U);

  // How much of the stream is held afterwards. A gap is not filled: the sender goes on from what is held.
  std::uint64_t append(const LogName& name, std::uint64_t offset, std::string_view bytes);
  [[nodiscard]] std::uint64_t size(const LogName& name) const;
  [[nodiscard]] std::string read(const LogName& name, std::uint64_t offset, std::size_t most) const;

  // Told after every append, on the appending thread; must not block. Gone when the handle is.
  using Listener = std::function<void(const LogName&)>;
  [[nodiscard]] std::shared_ptr<void> listen(JobId job, Listener listener);

  void forget(JobId job);  // Deletes all of a job's logs.
  // Deletes the logs of jobs that wrote nothing for so long; how many jobs that were.
  std::size_t forget_older(std::chrono::seconds age);

  struct Found {
    LogName name{};
    std::uint64_t offset = 0;  // Of the line.
    std::string line{};
  };
  // Lines of a job with that text in them, as plain bytes, at most so many.
  [[nodiscard]] std::vector<Found> search(JobId job, std::string_view text, std::size_t most) const;

 private:
  [[nodiscard]] std::filesystem::path path_of(const LogName& name) const;
  void tell(const LogName& name);

  std::filesystem::path folder_;
  std::uint64_t bytes_max_;
  mutable std::mutex mutex_;
  std::multimap<JobId, std::weak_ptr<Listener>> listeners_;
};

}  // namespace tranche::server
