// SPDX-License-Identifier: Apache-2.0
#pragma once
// The place of one lease on the node's disk: grant, page, logs, scratch. Enough for another agent process to
// go on with it.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/lease_page.hpp"
#include "wire/agent_message.hpp"

namespace tranche::agent {

class LeaseFolder {
 public:
  // Makes the folder, with scratch for the user; throws std::runtime_error. Secrets are not written.
  static LeaseFolder create(const std::filesystem::path& leases,
                            const wire::LeaseGrant& grant,
                            std::uint32_t uid);
  // Nothing: there is no usable grant in it.
  static std::optional<LeaseFolder> open(const std::filesystem::path& folder);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] LeasePage& page() const { return **page_; }
  [[nodiscard]] std::string message() const;
  void keep_grant() const;  // As it is now, for the next agent.
  void forget();            // Removes it all.

  wire::LeaseGrant grant{};

 private:
  explicit LeaseFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
  std::unique_ptr<MappedLeasePage> page_;
};

}  // namespace tranche::agent
