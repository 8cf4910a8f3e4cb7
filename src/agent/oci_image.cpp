// SPDX-License-Identifier: Apache-2.0
#include "agent/oci_image.hpp"

#include <array>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <stdexcept>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "agent/files.hpp"
#include "agent/image_layer.hpp"
#include "wire/document.hpp"

namespace tranche::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDescriptionMost = 4 * 1024 * 1024;

// A JSON value with its text; absent keys are empty values, so that a chain of them ends in nothing.
class Json {
 public:
  explicit Json(std::string text) : text_(std::make_shared<std::string>(std::move(text))) {
    auto parsed = wire::parse_json_document(*text_, {});
    if (!parsed) throw std::runtime_error("a description in it is no JSON");
    document_ = std::make_shared<wire::Document>(std::move(*parsed));
    node_ = &document_->root();
  }
  [[nodiscard]] Json operator[](std::string_view key) const {
    for (const Json& child : children())
      if (child.node_->key == key) return child;
    return {*this, nullptr};
  }
  [[nodiscard]] std::vector<Json> children() const {
    std::vector<Json> all;
    if (node_ == nullptr) return all;
    for (std::uint32_t i = node_->first_child; i != wire::Node::kNone; i = document_->at(i).next)
      all.push_back({*this, &document_->at(i)});
    return all;
  }
  [[nodiscard]] std::string text() const {
    return node_ != nullptr && node_->kind == wire::NodeKind::kString ? std::string(node_->text)
                                                                      : std::string();
  }
  [[nodiscard]] std::vector<std::string> texts() const {
    std::vector<std::string> all;
    for (const Json& child : children()) all.push_back(child.text());
    return all;
  }

 private:
  Json(const Json& from, const wire::Node* node)
      : text_(from.text_), document_(from.document_), node_(node) {}
  std::shared_ptr<std::string> text_;
  std::shared_ptr<wire::Document> document_;
  const wire::Node* node_ = nullptr;
};

// As images name it.
std::string architecture() {
  utsname machine{};
  ::uname(&machine);
  const std::string name = machine.machine;
  return name == "x86_64" ? "amd64" : name == "aarch64" ? "arm64" : name;
}

bool well_formed(const std::string& digest) {
  return digest.starts_with("sha256:") && digest.size() == 71 &&
         digest.find_first_not_of("0123456789abcdef", 7) == std::string::npos;
}

std::string blob_name(const std::string& digest) {
  if (!well_formed(digest))
    throw std::runtime_error("it names a part by '" + digest + "', which is no SHA-256");
  return "blobs/sha256/" + digest.substr(7);
}

std::string chosen_manifest(const Json& index) {
  const std::vector<Json> manifests = index["manifests"].children();
  const std::string here = architecture();
  std::string others;
  for (const Json& manifest : manifests) {
    const std::string wanted = manifest["platform"]["architecture"].text();
    if (wanted.empty() || (wanted == here && manifest["platform"]["os"].text() == "linux"))
      return manifest["digest"].text();
    others += (others.empty() ? "" : ", ") + wanted;
  }
  throw std::runtime_error("it has nothing for a " + here + " machine" +
                           (others.empty() ? "" : ", only for " + others));
}

}  // namespace

ImageConfig read_image_config(std::string_view json) {
  const Json config = Json(std::string(json))["config"];
  ImageConfig read{.environment = config["Env"].texts(), .directory = config["WorkingDir"].text()};
  read.command = config["Entrypoint"].texts();
  for (std::string& word : config["Cmd"].texts()) read.command.push_back(std::move(word));
  return read;
}

OciImage::OciImage(const fs::path& place) {
  if (fs::is_directory(place)) {
    index_folder(place);
  } else {
    archive_.reset(::open(place.c_str(), O_RDONLY | O_CLOEXEC));
    if (!archive_.open()) throw std::runtime_error("it cannot be read");
    index_archive();
  }
  if (!blobs_.contains("oci-layout"))
    throw std::runtime_error(
        "it is no OCI archive: it has no oci-layout (skopeo copy … oci-archive:FILE makes one)");
  read_manifest(chosen_manifest(Json(read("index.json", ""))), 0);
}

void OciImage::index_archive() {
  struct stat info{};
  if (::fstat(archive_.get(), &info) != 0) throw std::runtime_error("it cannot be read");
  // The layers in it are jumped over: only headers are read.
  for (std::uint64_t at = 0; at < static_cast<std::uint64_t>(info.st_size);) {
    FilePart rest(archive_.get(), at, static_cast<std::uint64_t>(info.st_size) - at);
    TarReader reader(rest);
    TarEntry entry;
    if (!reader.next(entry)) return;
    const std::string name = entry.path.starts_with("./") ? entry.path.substr(2) : entry.path;
    if (entry.kind == TarKind::kFile) blobs_[name] = {.offset = at + entry.offset, .size = entry.size};
    constexpr std::uint64_t kBlock = 512;
    at += entry.offset + (entry.size + kBlock - 1) / kBlock * kBlock;
  }
}

void OciImage::index_folder(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && !entry.is_symlink())
      blobs_[entry.path().lexically_relative(folder).string()] = {.size = entry.file_size(),
                                                                  .file = entry.path()};
}

const OciImage::Blob& OciImage::blob(const std::string& name) const {
  const auto found = blobs_.find(name);
  if (found == blobs_.end()) throw std::runtime_error("a part is missing: " + name);
  return found->second;
}

std::string OciImage::read(const std::string& name, std::string_view digest) const {
  const Blob& part = blob(name);
  const Descriptor own(part.file.empty() ? -1 : ::open(part.file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  FilePart bytes(own.open() ? own.get() : archive_.get(), part.offset, part.size);
  std::string content = read_all(bytes, kDescriptionMost);
  if (!digest.empty() && bytes.digest() != digest) throw std::runtime_error("it is damaged: " + name);
  return content;
}

void OciImage::read_manifest(const std::string& digest, int depth) {
  const Json manifest(read(blob_name(digest), digest));
  if (!manifest["manifests"].children().empty() && depth < 2)  // One more list, for several machines.
    return read_manifest(chosen_manifest(manifest), depth + 1);
  digest_ = digest;
  const std::string config = manifest["config"]["digest"].text();
  config_ = read(blob_name(config), config);
  for (const Json& layer : manifest["layers"].children()) {
    const std::string kind = layer["mediaType"].text();
    const bool packed = kind.ends_with("gzip");
    if (!packed && !kind.ends_with("tar"))
      throw std::runtime_error("a layer is packed as " + kind + "; tar and tar+gzip can be unpacked");
    layers_.push_back({layer["digest"].text(), packed});
    (void)blob(blob_name(layers_.back().digest));
  }
}

void OciImage::unpack(const fs::path& folder) const {
  const Descriptor root = open_folder(folder);
  LayerLimits limits;
  for (const Layer& layer : layers_) {
    const Blob& part = blob(blob_name(layer.digest));
    const Descriptor own(part.file.empty() ? -1
                                           : ::open(part.file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    FilePart bytes(own.open() ? own.get() : archive_.get(), part.offset, part.size);
    std::optional<Gunzip> gunzip;
    if (layer.packed) gunzip.emplace(bytes);
    TarReader reader(gunzip ? static_cast<ByteSource&>(*gunzip) : bytes);
    apply_layer(root.get(), reader, limits);
    std::array<char, 16 * 1024> unused{};
    while (bytes.read(unused.data(), unused.size()) != 0) {}  // What stands behind the tar counts, too.
    if (bytes.digest() != layer.digest) throw std::runtime_error("it is damaged: " + layer.digest);
  }
}

}  // namespace tranche::agent
