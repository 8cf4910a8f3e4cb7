// SPDX-License-Identifier: Apache-2.0
#include "agent/checkpoints.hpp"

#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <functional>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/checkpoint_archive.hpp"
#include "agent/files.hpp"

namespace tranche::agent {
namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path;
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "tranche-checkpoints-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~Folder() { remove_tree(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

void write(const fs::path& path, const std::string& content) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string packed(const fs::path& folder, const std::string& name = {}, std::size_t about = 1000) {
  ArchiveWriter writer(folder, name);
  std::string all;
  for (std::string piece = writer.next(about); !piece.empty(); piece = writer.next(about)) all += piece;
  return all;
}

TEST_CASE("checkpoint archive: a folder comes back as it was, in pieces of any size") {
  Folder from, to;
  write(from.path / "model/weights.bin", std::string(300'000, '\7') + '\0' + "end");
  write(from.path / "empty", "");
  write(from.path / "step", "1200\n");
  fs::create_directory(from.path / "nothing");
  fs::create_symlink("model/weights.bin", from.path / "latest");
  REQUIRE(::chmod((from.path / "step").c_str(), 0640) == 0);
  const std::string bytes = packed(from.path);
  CHECK(bytes == packed(from.path, {}, 77));  // The same folder gives the same bytes.
  for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, bytes.size()}) {
    Folder into;
    ArchiveReader reader(into.path, 0);
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      CHECK_FALSE(reader.is_whole());
      reader.feed(std::string_view(bytes).substr(at, size));
    }
    CHECK(reader.is_whole());
    CHECK(packed(into.path) == bytes);
    CHECK(read(into.path / "latest") == read(from.path / "model/weights.bin"));
    if (size == 1) CHECK(fs::read_symlink(into.path / "latest") == "model/weights.bin");
  }
}

TEST_CASE("checkpoint archive: one that was cut is not whole, and one that leads out is refused") {
  Folder from, to;
  write(from.path / "a", "hello");
  const std::string bytes = packed(from.path);
  ArchiveReader cut(to.path, 0);
  cut.feed(std::string_view(bytes).substr(0, bytes.size() - 1));
  CHECK_FALSE(cut.is_whole());
  for (const std::string& bad : {std::string("F 420 1 4\n../ax"),
                                 std::string("F 420 1 2\n/ax"),
                                 std::string("F 420 1 5\na/../x"),
                                 std::string("X 420 1 1\nax"),
                                 std::string("F 420 x 1\nax"),
                                 bytes + "F"}) {
    Folder into;
    ArchiveReader reader(into.path, 0);
    CHECK_THROWS_AS(reader.feed(bad), std::runtime_error);
  }
  // A link that is there does not lead anybody out.
  Folder outside, into;
  fs::create_symlink(outside.path, into.path / "d");
  ArchiveReader reader(into.path, 0);
  CHECK_THROWS_AS(reader.feed("F 420 1 3\nd/ax"), std::runtime_error);
  CHECK(fs::is_empty(outside.path));
}

TEST_CASE("checkpoint archive: what a job put there instead of files is neither followed nor waited for") {
  Folder from, outside;
  write(outside.path / "secret", "secret");
  fs::create_symlink(outside.path / "secret", from.path / "link");
  REQUIRE(::mkfifo((from.path / "pipe").c_str(), 0600) == 0);
  CHECK(packed(from.path).find("secret\n") == std::string::npos);
  CHECK_FALSE(digest_in(from.path, "link"));
  CHECK_FALSE(digest_in(from.path, "pipe"));
  CHECK_FALSE(digest_in(from.path, "../" + outside.path.filename().string() + "/secret"));
  CHECK_FALSE(digest_in(from.path, "missing"));
}

TEST_CASE("checkpoints: the newest that is still what it was is gone on from") {
  Folder data;
  const Checkpoints saved(data.path, JobId{7});
  const auto keep = [&](const std::string& name) {
    wire::CheckpointNote note{.name = name};
    return saved.keep(note);
  };
  write(saved.folder() / "step-10", "ten");
  write(saved.folder() / "step-20/weights", "twenty");
  CHECK(saved.last_good().name.empty());
  CHECK(keep("step-10"));
  CHECK(keep("step-20"));
  CHECK_FALSE(keep("step-30"));
  CHECK(saved.last_good().name == "step-20");
  CHECK(saved.last_good().damaged.empty());
  write(saved.folder() / "step-20/weights", "twe");  // Cut in the middle.
  CHECK(saved.last_good().name == "step-10");
  CHECK(saved.last_good().damaged == std::vector<std::string>{"step-20"});
  fs::remove(saved.folder() / "step-10");
  CHECK(saved.last_good().name.empty());
  CHECK(saved.notes().size() == 2);
  saved.forget();
  CHECK(saved.notes().empty());
  CHECK_FALSE(fs::exists(saved.folder()));
}

// Runs `work` in a process that is killed when it comes to its `calls`-th system call; false: it came to its
// end first.
bool killed_at(int calls, const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    work();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  for (int i = 0; i < calls && WIFSTOPPED(status); ++i) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
  }
  if (!WIFSTOPPED(status)) return false;
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return true;
}

// Another attempt's folder comes in one step, and a name is kept in one step: whoever is killed in the middle
// of either leaves what was there before, or what comes after, and never nothing. Once before and after every
// call to the kernel.
TEST_CASE("checkpoints: killed at any moment, the one before can be gone on from") {
  Folder data;
  const Checkpoints saved(data.path, JobId{7});
  write(saved.folder() / "step-0", "whole");
  wire::CheckpointNote first{.name = "step-0"};
  REQUIRE(saved.keep(first));
  const int kills_wanted = std::getenv("TRANCHE_LONG") != nullptr ? 2000 : 1;
  int kills = 0;
  for (int round = 1; kills < kills_wanted; ++round) {
    const std::string name = "step-" + std::to_string(round % 3);
    for (int call = 1;; ++call) {
      const fs::path fresh = saved.new_folder();
      remove_tree(fresh);
      fs::copy(saved.folder(), fresh, fs::copy_options::recursive);
      const bool killed = killed_at(call, [&] {
        saved.replace(fresh);
        write(saved.folder() / (name + ".part"), std::string(10'000, 'x') + std::to_string(call));
        fs::rename(saved.folder() / (name + ".part"), saved.folder() / name);
        wire::CheckpointNote note{.name = name};
        saved.keep(note);
      });
      CAPTURE(call);
      REQUIRE_FALSE(saved.last_good().name.empty());
      if (!killed) break;
      ++kills;
    }
    REQUIRE(kills > 20);  // Where nobody may be traced nothing would be tried.
  }
}

TEST_CASE("checkpoints: only the last few are kept in mind, and saying a name again makes it the newest") {
  Folder data;
  const Checkpoints saved(data.path, JobId{7});
  for (const char* name : {"a", "b", "c", "a", "d"}) {
    write(saved.folder() / name, name);
    wire::CheckpointNote note{.name = name};
    CHECK(saved.keep(note));
    CHECK(note.bytes == 1);
  }
  const CheckpointNotes notes = saved.notes();
  REQUIRE(notes.size() == wire::kCheckpointsKept);
  CHECK(notes[0].name == "c");
  CHECK(notes[1].name == "a");
  CHECK(notes[2].name == "d");
  CHECK(saved.attempt() == 0);
  saved.set_attempt(3);
  CHECK(saved.attempt() == 3);
}

}  // namespace
}  // namespace tranche::agent
