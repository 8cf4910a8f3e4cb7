// SPDX-License-Identifier: Apache-2.0
#include "server/log_store.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <unistd.h>

namespace tranche::server {
namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::temp_directory_path() / ("tranche-log-test-" + std::to_string(::getpid()));
  Folder() { fs::remove_all(path); }
  ~Folder() { fs::remove_all(path); }
};

TEST_CASE("log store: a text is found with its line, its stream and its place") {
  const Folder folder;
  LogStore store(folder.path);
  const LogName out{.job = {5}};
  const LogName err{.job = {5}, .attempt = 2, .rank = 1, .stream = wire::LogStream::kStderr};
  store.append(out, 0, "first\nsecond needle here\nneedle\nlast");
  store.append(err, 0, "no match\nneedle needle");
  store.append({.job = {6}}, 0, "needle of another job");
  auto found = store.search({5}, "needle", 10);
  REQUIRE(found.size() == 3);
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::pair(a.name, a.offset) < std::pair(b.name, b.offset);
  });
  CHECK(found[0].line == "second needle here");
  CHECK(found[0].offset == 6);
  CHECK(found[1].line == "needle");
  CHECK(found[2].name == err);
  CHECK(found[2].line == "needle needle");
  CHECK(store.search({5}, "needle", 1).size() == 1);
  CHECK(store.search({7}, "needle", 1).empty());
}

TEST_CASE("log store: what nobody wrote to for long goes, what is written to stays") {
  const Folder folder;
  LogStore store(folder.path);
  store.append({.job = {1}}, 0, "old");
  store.append({.job = {2}}, 0, "new");
  for (const auto& file : fs::directory_iterator(folder.path / text(JobId{1})))
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(48));
  CHECK(store.forget_older(std::chrono::hours(24)) == 1);
  CHECK(store.size({.job = {1}}) == 0);
  CHECK(store.size({.job = {2}}) == 3);
  CHECK(store.forget_older(std::chrono::hours(24)) == 0);
}

}  // namespace
}  // namespace tranche::server
