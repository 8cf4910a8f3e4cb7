// SPDX-License-Identifier: Apache-2.0
#pragma once
// The images that jobs on this node may name: what its operator put into one folder, and nothing else of the
// node. Archives are unpacked once for each digest, into a cache that jobs see read-only.
#include <filesystem>
#include <string>

#include "agent/oci_image.hpp"
#include "base/result.hpp"

namespace tranche::agent {

struct Image {
  std::string rootfs{};
  ImageConfig config{};
};

class ImageStore {
 public:
  ImageStore(std::filesystem::path allowed, std::filesystem::path cache)
      : allowed_(std::move(allowed)), cache_(std::move(cache)) {}
  // May take as long as unpacking takes. The reason says what is wrong, and what would help.
  [[nodiscard]] Result<Image, std::string> find(const std::string& name) const;

 private:
  [[nodiscard]] Image unpacked(const std::filesystem::path& place) const;
  std::filesystem::path allowed_;
  std::filesystem::path cache_;
};

}  // namespace tranche::agent
