// SPDX-License-Identifier: Apache-2.0
#include "agent/workdir_fetch.hpp"

#include <algorithm>
#include <fcntl.h>
#include <sys/stat.h>
#include <vector>

#include "agent/files.hpp"
#include "net/digest.hpp"

namespace tranche::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKept = 32;  // Archives of one tenant; the oldest go first.

void forget_old_ones(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> all;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    all.emplace_back(entry.last_write_time(ignored), entry.path());
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i + kKept < all.size(); ++i) fs::remove(all[i].second, ignored);
}

std::string download(net::Client& client, const WorkdirWish& wish, const fs::path& part) {
  const Descriptor file(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file.open()) return "the node has no place for the working directory";
  net::Sha256 hash;
  for (std::uint64_t offset = 0;;) {
    const auto answer =
        client.get("/v1/agent/workdir?lease=" + text(wish.lease) + "&offset=" + std::to_string(offset));
    if (!answer) return "the working directory could not be fetched: " + answer.error().message;
    if (answer->status != 200) return "the server gives no working directory: " + answer->body;
    if (answer->body.empty()) break;
    hash.add(answer->body);
    for (std::string_view left = answer->body; !left.empty();) {
      const ssize_t put = ::write(file.get(), left.data(), left.size());
      if (put <= 0) return "the node has no room for the working directory";
      left.remove_prefix(static_cast<std::size_t>(put));
    }
    offset += answer->body.size();
  }
  if ("sha256:" + hash.hex() != wish.digest) return "the working directory came damaged";
  return {};
}

}  // namespace

fs::path archive_path(const WorkdirWish& wish) {
  std::string name = wish.digest;
  std::replace(name.begin(), name.end(), ':', '-');
  return wish.folder / (name + ".tar");
}

std::string fetch_workdir(const net::ClientOptions& server, const WorkdirWish& wish) {
  const bool well_formed = wish.digest.starts_with("sha256:") && wish.digest.size() == 71 &&
                           wish.digest.find_first_not_of("0123456789abcdef", 7) == std::string::npos;
  if (!well_formed) return "'" + wish.digest + "' is a folder of another machine: tranche run uploads it";
  try {
    const fs::path archive = archive_path(wish);
    make_folder(wish.folder, 0711);
    if (::utimensat(AT_FDCWD, archive.c_str(), nullptr, 0) == 0) return {};  // Used again: not the oldest.
    const fs::path part = wish.folder / (text(wish.lease) + ".part");
    net::Client client(server);
    const std::string problem = download(client, wish, part);
    if (problem.empty()) fs::rename(part, archive);
    std::error_code ignored;
    fs::remove(part, ignored);
    if (problem.empty()) forget_old_ones(wish.folder);
    return problem;
  } catch (const std::exception& error) {
    return std::string("the working directory could not be fetched: ") + error.what();
  }
}

}  // namespace tranche::agent
