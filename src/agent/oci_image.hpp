// SPDX-License-Identifier: Apache-2.0
#pragma once
// An image in the layout of the Open Container Initiative: a folder or a tar of it with oci-layout,
// index.json and blobs named by their digests. Throws std::runtime_error, which says what is wrong with it.
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/descriptor.hpp"

namespace tranche::agent {

struct ImageConfig {
  std::vector<std::string> environment{};  // "NAME=value"
  std::string directory{};
  std::vector<std::string> command{};  // The entry point and its words.
};
[[nodiscard]] ImageConfig read_image_config(std::string_view json);

class OciImage {
 public:
  explicit OciImage(const std::filesystem::path& place);
  [[nodiscard]] const std::string& digest() const { return digest_; }  // Of its manifest for this machine.
  [[nodiscard]] const std::string& config() const { return config_; }  // JSON, as it is in the image.
  // Every layer, each checked against its digest, into an empty folder.
  void unpack(const std::filesystem::path& folder) const;

 private:
  struct Blob {  // Where it is: in the archive, or a file of its own.
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::filesystem::path file{};
  };
  struct Layer {
    std::string digest{};
    bool packed = false;
  };
  void index_archive();
  void index_folder(const std::filesystem::path& folder);
  void read_manifest(const std::string& digest, int depth);
  [[nodiscard]] const Blob& blob(const std::string& name) const;
  [[nodiscard]] std::string read(const std::string& name, std::string_view digest) const;

  Descriptor archive_;
  std::map<std::string, Blob> blobs_;  // By path inside.
  std::string digest_;
  std::string config_;
  std::vector<Layer> layers_;
};

}  // namespace tranche::agent
