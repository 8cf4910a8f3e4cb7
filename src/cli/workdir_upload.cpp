// SPDX-License-Identifier: Apache-2.0
#include "cli/workdir_upload.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <sys/stat.h>
#include <vector>

#include "base/text.hpp"
#include "cli/failure.hpp"
#include "cli/human.hpp"
#include "net/digest.hpp"
#include "wire/api_volume.hpp"

namespace tranche::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 512;
constexpr std::size_t kPiece = 768 * 1024;

// A header of the ustar format; POSIX.1-1988, read by every tar.
struct Header {
  char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6],
      version[2], user[32], group[32], major[8], minor[8], prefix[155], padding[12];
};
static_assert(sizeof(Header) == kBlock);

template <std::size_t N>
void put_octal(char (&field)[N], std::uint64_t value) {
  for (std::size_t i = N - 1; i-- > 0; value >>= 3U) field[i] = static_cast<char>('0' + (value & 7U));
  field[N - 1] = '\0';
}

template <std::size_t N>
void put_text(char (&field)[N], const std::string& text) {
  std::memcpy(field, text.data(), std::min(N, text.size()));
}

void pad(std::string& out) {
  out.resize((out.size() + kBlock - 1) / kBlock * kBlock, '\0');
}

class Archive {
 public:
  Archive(fs::path folder, ArchiveLimits limits) : folder_(std::move(folder)), limits_(limits) {}

  std::string take() {
    add_folder({});
    out_.resize(out_.size() + 2 * kBlock, '\0');
    return std::move(out_);
  }

 private:
  struct Entry {
    char type = '0';
    std::string name{};
    std::string link{};
    std::uint64_t size = 0;
    const struct stat* info = nullptr;
  };

  [[noreturn]] void too_large() const {
    throw usage_failure(
        "the working directory has more than " + std::to_string(limits_.bytes_max >> 20U) + " MiB",
        "name a smaller one, or keep data in a volume: tranche volume create");
  }

  void add_header(const Entry& entry) {
    constexpr std::size_t kShort = 100;
    if (entry.name.size() > kShort) add_long('L', entry.name);
    if (entry.link.size() > kShort) add_long('K', entry.link);
    Header header{};
    put_text(header.name, entry.name);
    put_text(header.link, entry.link);
    const bool plain = entry.info == nullptr;
    put_octal(header.mode, plain ? 0644U : entry.info->st_mode & 0777U);
    put_octal(header.uid, 0);
    put_octal(header.gid, 0);
    put_octal(header.size, entry.size);
    put_octal(header.mtime,
              plain ? 0 : static_cast<std::uint64_t>(std::max<time_t>(0, entry.info->st_mtime)));
    header.type = entry.type;
    put_text(header.magic, "ustar");
    header.version[0] = header.version[1] = '0';
    std::memset(header.checksum, ' ', sizeof header.checksum);
    std::array<unsigned char, kBlock> bytes{};
    std::memcpy(bytes.data(), &header, kBlock);
    unsigned sum = 0;
    for (const unsigned char byte : bytes) sum += byte;
    put_octal(header.checksum, sum);
    out_.append(reinterpret_cast<const char*>(&header), kBlock);
    if (out_.size() > limits_.bytes_max) too_large();
  }

  void add_long(char type, const std::string& text) {
    add_header({.type = type, .name = "././@LongLink", .size = text.size() + 1});
    out_ += text;
    out_ += '\0';
    pad(out_);
  }

  void add_file(const fs::path& path, const std::string& name, const struct stat& info) {
    const auto size = static_cast<std::uint64_t>(info.st_size);
    if (out_.size() + size > limits_.bytes_max) too_large();
    std::ifstream in(path, std::ios::binary);
    std::string content(size, '\0');
    in.read(content.data(), static_cast<std::streamsize>(size));
    if (!in || in.gcount() != static_cast<std::streamsize>(size))
      throw usage_failure(path.string() + " cannot be read, or changed while it was",
                          "nothing was submitted");
    add_header({.type = '0', .name = name, .size = size, .info = &info});
    out_ += content;
    pad(out_);
  }

  // Sorted, so that the same content is the same archive.
  void add_folder(const std::string& below) {
    std::vector<std::string> names;
    std::error_code problem;
    for (const auto& entry : fs::directory_iterator(folder_ / below, problem))
      names.push_back(entry.path().filename().string());
    if (problem)
      throw usage_failure("'" + (folder_ / below).string() + "' cannot be read: " + problem.message(),
                          "--workdir takes a directory");
    std::sort(names.begin(), names.end());
    for (const std::string& one : names) {
      const std::string name = below.empty() ? one : below + "/" + one;
      const fs::path path = folder_ / name;
      struct stat info{};
      if (::lstat(path.c_str(), &info) != 0) continue;
      if (S_ISDIR(info.st_mode)) {
        add_header({.type = '5', .name = name + "/", .info = &info});
        add_folder(name);
      } else if (S_ISLNK(info.st_mode)) {
        add_header({.type = '2', .name = name, .link = fs::read_symlink(path).string(), .info = &info});
      } else if (S_ISREG(info.st_mode)) {
        add_file(path, name, info);
      }
    }
  }

  fs::path folder_;
  ArchiveLimits limits_;
  std::string out_;
};

}  // namespace

std::string pack_folder(const fs::path& folder, ArchiveLimits limits) {
  return Archive(folder, limits).take();
}

std::string upload_workdir(Session& session, const std::string& folder, const std::string& owner) {
  if (folder.starts_with("sha256:")) return folder;
  const std::string archive = pack_folder(folder);
  net::Sha256 hash;
  hash.add(archive);
  const std::string digest = "sha256:" + hash.hex();
  const std::string whose = owner.empty() ? "" : "owner=" + path_segment(owner);
  const std::string path = "/v1/workdirs/" + path_segment(digest);
  auto held =
      session.get<wire::WorkdirView>(path + (whose.empty() ? "" : "?" + whose), Explain::kPreparation);
  if (held.value.complete) return digest;
  session.say("uploading " + folder + ": " + text(Bytes{static_cast<std::int64_t>(archive.size())}));
  auto at = static_cast<std::size_t>(held.value.held.count);
  if (at > archive.size()) at = 0;
  while (!held.value.complete) {
    const std::string piece = archive.substr(at, kPiece);
    held = session.ask<wire::WorkdirView>({.method = "PUT",
                                           .path = path + "?size=" + std::to_string(archive.size()) +
                                                   "&offset=" + std::to_string(at) +
                                                   (whose.empty() ? "" : "&" + whose),
                                           .body = piece,
                                           .explain = Explain::kPreparation,
                                           .content_type = "application/x-tar"});
    at = static_cast<std::size_t>(held.value.held.count);
    if (!held.value.complete && at >= archive.size())
      throw Failure(kOther, {"the server has other bytes under this name", "try again"});
  }
  return digest;
}

}  // namespace tranche::cli
