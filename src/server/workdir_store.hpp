// SPDX-License-Identifier: Apache-2.0
#pragma once
// Working directories that people uploaded: archives named by their SHA-256, kept apart by tenant. One that
// is complete never changes. The oldest go when a tenant's room is full.
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.hpp"
#include "base/result.hpp"

namespace tranche::server {

struct WorkdirLimits {
  std::uint64_t one_bytes_max = 256U << 20U;
  std::uint64_t tenant_bytes_max = std::uint64_t{4} << 30U;
};

struct WorkdirHeld {
  std::uint64_t bytes = 0;
  bool complete = false;
};

class WorkdirStore {
 public:
  explicit WorkdirStore(std::filesystem::path folder, WorkdirLimits limits = {});

  // "sha256:" and 64 hexadecimal digits, in small letters.
  [[nodiscard]] static bool is_digest(std::string_view text);

  [[nodiscard]] WorkdirHeld held(PartyId tenant, std::string_view digest) const;
  // Bytes from `offset` on, of `size` in all. A piece that is there already changes nothing; after a gap the
  // sender goes on from what is held. A sentence when it cannot be taken.
  Result<WorkdirHeld, std::string> put(PartyId tenant,
                                       std::string_view digest,
                                       std::uint64_t size,
                                       std::uint64_t offset,
                                       std::string_view bytes);
  // Of a complete one; empty at its end, nothing when there is none.
  [[nodiscard]] std::optional<std::string> read(PartyId tenant,
                                                std::string_view digest,
                                                std::uint64_t offset,
                                                std::size_t most) const;
  void use(PartyId tenant, std::string_view digest) const;  // It is wanted again: others go first.
  [[nodiscard]] const WorkdirLimits& limits() const { return limits_; }

 private:
  [[nodiscard]] std::filesystem::path path_of(PartyId tenant, std::string_view digest) const;
  [[nodiscard]] bool make_room(PartyId tenant, std::uint64_t bytes) const;

  std::filesystem::path folder_;
  WorkdirLimits limits_;
  mutable std::mutex mutex_;
};

}  // namespace tranche::server
