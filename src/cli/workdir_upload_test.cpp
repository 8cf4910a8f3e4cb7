// SPDX-License-Identifier: Apache-2.0
#include "cli/workdir_upload.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <unistd.h>

#include "cli/failure.hpp"

namespace tranche::cli {
namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::temp_directory_path() / ("tranche-workdir-test-" + std::to_string(::getpid()));
  Folder() {
    fs::remove_all(path);
    fs::create_directories(path / "in");
  }
  ~Folder() { fs::remove_all(path); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((path / "in" / name).parent_path());
    std::ofstream(path / "in" / name, std::ios::binary) << text;
  }
};

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("workdir: what is packed is what the system's tar unpacks") {
  const Folder folder;
  const std::string deep = std::string(90, 'a') + "/" + std::string(90, 'b') + "/c.txt";
  folder.write("run.sh", "#!/bin/sh\n");
  folder.write("empty", "");
  folder.write("odd name\n with a line", std::string(1000, 'x'));
  folder.write(deep, "deep");
  fs::permissions(folder.path / "in/run.sh", fs::perms(0755));
  fs::create_symlink("run.sh", folder.path / "in/link");
  fs::create_symlink(std::string(150, 'z'), folder.path / "in/long-link");
  const std::string archive = pack_folder(folder.path / "in");
  CHECK(archive.size() % 512 == 0);
  std::ofstream(folder.path / "a.tar", std::ios::binary) << archive;
  fs::create_directories(folder.path / "out");
  const std::string command =
      "tar -xf '" + (folder.path / "a.tar").string() + "' -C '" + (folder.path / "out").string() + "'";
  REQUIRE(std::system(command.c_str()) == 0);
  CHECK(read(folder.path / "out" / deep) == "deep");
  CHECK(read(folder.path / "out/odd name\n with a line") == std::string(1000, 'x'));
  CHECK(fs::file_size(folder.path / "out/empty") == 0);
  CHECK((fs::status(folder.path / "out/run.sh").permissions() & fs::perms::owner_exec) != fs::perms::none);
  CHECK(fs::read_symlink(folder.path / "out/link") == "run.sh");
  CHECK(fs::read_symlink(folder.path / "out/long-link") == std::string(150, 'z'));
}

TEST_CASE("workdir: the same content has the same bytes, other content has not") {
  const Folder folder;
  folder.write("a", "1");
  folder.write("b", "2");
  const std::string before = pack_folder(folder.path / "in");
  CHECK(pack_folder(folder.path / "in") == before);
  folder.write("b", "3");
  CHECK(pack_folder(folder.path / "in") != before);
}

TEST_CASE("workdir: too much, or no directory at all, is said before anything is sent") {
  const Folder folder;
  folder.write("large", std::string(4096, 'x'));
  CHECK_THROWS_AS(static_cast<void>(pack_folder(folder.path / "in", {.bytes_max = 2048})), Failure);
  CHECK_THROWS_AS(static_cast<void>(pack_folder(folder.path / "nowhere")), Failure);
}

}  // namespace
}  // namespace tranche::cli
