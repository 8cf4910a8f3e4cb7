// SPDX-License-Identifier: Apache-2.0
#include "server/workdir_store.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include "net/digest.hpp"

namespace tranche::server {
namespace {

namespace fs = std::filesystem;

constexpr PartyId kAcme = PartyId::make(PartyKind::kTenant, 2);
constexpr PartyId kBlue = PartyId::make(PartyKind::kTenant, 3);

struct Folder {
  fs::path path = fs::temp_directory_path() / ("tranche-workdirs-test-" + std::to_string(::getpid()));
  Folder() { fs::remove_all(path); }
  ~Folder() { fs::remove_all(path); }
};

std::string digest(const std::string& content) {
  net::Sha256 hash;
  hash.add(content);
  return "sha256:" + hash.hex();
}

TEST_CASE("workdirs: pieces make a whole, a repeated or early piece changes nothing") {
  const Folder folder;
  WorkdirStore store(folder.path);
  const std::string content = std::string(1000, 'a') + std::string(1000, 'b');
  const std::string name = digest(content);
  CHECK(store.put(kAcme, name, 2000, 0, content.substr(0, 700))->bytes == 700);
  CHECK(store.put(kAcme, name, 2000, 0, content.substr(0, 700))->bytes == 700);
  CHECK(store.put(kAcme, name, 2000, 1500, content.substr(1500))->bytes == 700);
  CHECK_FALSE(store.read(kAcme, name, 0, 10));
  CHECK(store.put(kAcme, name, 2000, 700, content.substr(700))->complete);
  CHECK(*store.read(kAcme, name, 0, 4000) == content);
  CHECK(*store.read(kAcme, name, 1990, 4000) == content.substr(1990));
  CHECK(store.read(kAcme, name, 2000, 4000)->empty());
}

TEST_CASE("workdirs: what one tenant has is nothing to another") {
  const Folder folder;
  WorkdirStore store(folder.path);
  const std::string name = digest("content");
  REQUIRE(store.put(kAcme, name, 7, 0, "content")->complete);
  CHECK_FALSE(store.held(kBlue, name).complete);
  CHECK_FALSE(store.read(kBlue, name, 0, 10));
}

TEST_CASE("workdirs: bytes that are not what the name says are refused, and may be sent again") {
  const Folder folder;
  WorkdirStore store(folder.path);
  const std::string name = digest("content");
  CHECK_FALSE(store.put(kAcme, name, 7, 0, "CONTENT"));
  CHECK(store.held(kAcme, name).bytes == 0);
  CHECK(store.put(kAcme, name, 7, 0, "content")->complete);
}

TEST_CASE("workdirs: too large is refused; when the room is full the longest unused goes") {
  const Folder folder;
  WorkdirStore store(folder.path, {.one_bytes_max = 100, .tenant_bytes_max = 250});
  CHECK_FALSE(store.put(kAcme, digest("x"), 101, 0, "x"));
  CHECK_FALSE(store.put(kAcme, digest("x"), 1, 0, "xx"));
  std::vector<std::string> names;
  for (const char letter : std::string("abc")) {
    const std::string content(100, letter);
    names.push_back(digest(content));
    REQUIRE(store.put(kAcme, names.back(), 100, 0, content)->complete);
    const auto age = std::chrono::minutes(static_cast<int>('d' - letter));
    fs::last_write_time(folder.path / text(kAcme) / names.back().substr(7),
                        fs::file_time_type::clock::now() - age);
    if (letter == 'b') store.use(kAcme, names[0]);
  }
  CHECK(store.held(kAcme, names[0]).complete);
  CHECK_FALSE(store.held(kAcme, names[1]).complete);
  CHECK(store.held(kAcme, names[2]).complete);
}

TEST_CASE("workdirs: only a digest is a name, so that none leads out of the folder") {
  CHECK(WorkdirStore::is_digest(digest("x")));
  CHECK_FALSE(WorkdirStore::is_digest("sha256:../../../../etc/passwd"));
  CHECK_FALSE(WorkdirStore::is_digest("sha256:" + std::string(63, 'a')));
  CHECK_FALSE(WorkdirStore::is_digest("sha256:" + std::string(64, 'A')));
  CHECK_FALSE(WorkdirStore::is_digest("./code"));
}

}  // namespace
}  // namespace tranche::server
