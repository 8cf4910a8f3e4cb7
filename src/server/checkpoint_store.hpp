// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checkpoints on their way from the node that saved them to the node that goes on: kept until the attempt
// that wanted them is over, and never longer than the server runs. Thread-safe.
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.hpp"

namespace tranche::server {

class CheckpointStore {
 public:
  // Empties the folder: whoever still wants one asks again.
  CheckpointStore(std::filesystem::path folder, std::uint64_t bytes_max);

  // Bytes from `offset` on; those that are there already change nothing. Empty, or a sentence why not.
  std::string put(JobId job, LeaseId lease, std::uint64_t offset, std::string_view bytes);
  void finish(JobId job, LeaseId lease, std::string digest);
  void give_up(JobId job, LeaseId lease, std::string why);  // Its node could not send it.
  void forget(JobId job);

  struct State {
    bool is_whole = false;
    std::string digest{};
    std::string problem{};
  };
  [[nodiscard]] State state(JobId job, LeaseId lease) const;
  // Of a whole one; empty at its end.
  [[nodiscard]] std::optional<std::string> read(JobId job,
                                                LeaseId lease,
                                                std::uint64_t offset,
                                                std::size_t most) const;

 private:
  struct Held {
    std::uint64_t bytes = 0;
    State state{};
  };
  [[nodiscard]] std::filesystem::path path_of(JobId job, LeaseId lease) const;

  const std::filesystem::path folder_;
  const std::uint64_t bytes_max_;
  mutable std::mutex mutex_;
  std::map<JobId, std::map<LeaseId, Held>> held_;
};

}  // namespace tranche::server
