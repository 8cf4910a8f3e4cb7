// SPDX-License-Identifier: Apache-2.0
// What a link on a shared volume can do to a sandbox that bubblewrap makes, when it was put there after the
// last look for such links.
#include "agent/bubblewrap.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace tranche::agent {
namespace {

namespace fs = std::filesystem;

struct Place {
  std::string folder = (fs::temp_directory_path() / "tranche-bwrap-XXXXXX").string();
  Place() { REQUIRE(::mkdtemp(folder.data()) != nullptr); }
  ~Place() { fs::remove_all(folder); }
  std::string sub(const std::string& name) const {
    fs::create_directories(folder + "/" + name);
    return folder + "/" + name;
  }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder + "/" + name) << text;
    return folder + "/" + name;
  }
};

// What the command says inside of exactly these options; nothing: bubblewrap may not make a sandbox here.
std::optional<std::string> said_inside(std::vector<std::string> options, const std::string& command) {
  const std::string program = find_bubblewrap();
  if (program.empty()) return std::nullopt;
  for (const char* passed : {"--seccomp", "--info-fd"}) {  // Descriptors that we do not have.
    const auto at = std::find(options.begin(), options.end(), passed);
    if (at != options.end()) options.erase(at, at + 2);
  }
  options.insert(options.begin(), program);
  for (const char* word : {"/bin/sh", "-c", command.c_str()}) options.emplace_back(word);
  std::vector<char*> words;
  for (std::string& option : options) words.push_back(option.data());
  words.push_back(nullptr);
  int ends[2] = {-1, -1};
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], 1);
    ::close(ends[0]);
    ::execv(words.front(), words.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  std::string out;
  char piece[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], piece, sizeof piece)) > 0;)
    out.append(piece, static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? std::optional(out) : std::nullopt;
}

std::vector<std::string> options_for(const std::vector<Bind>& binds) {
  SandboxPlan plan;
  plan.directory = "/";
  plan.environment = {{"PATH", "/usr/bin:/bin"}};
  return bubblewrap_options(plan, binds, {});
}

TEST_CASE("bubblewrap: a link that won the race leads a volume under what is the platform's, never over it") {
  const Place place;
  const std::string shared = place.sub("shared"), own = place.sub("own");
  std::ofstream(own + "/ld.so.preload") << "nothing";
  const std::string guard = place.file("preload", "the guard");
  fs::create_symlink("../etc", shared + "/in");
  const auto said = said_inside(options_for({{guard, "/etc/ld.so.preload", BindKind::kReadOnly},
                                             {shared, "/data", BindKind::kWritable},
                                             {own, "/data/in", BindKind::kWritable}}),
                                "cat /etc/ld.so.preload");
  if (!said)
    return;  // No user namespaces here; storage_test.py goes the same way on machines that have them.
  CHECK(*said == "the guard");
}

TEST_CASE("bubblewrap: volumes lie in /work, beside each other and in each other, as the job asked") {
  const Place place;
  const std::string work = place.sub("work"), data = place.sub("data"), inner = place.sub("inner");
  std::ofstream(data + "/a") << "outer";
  std::ofstream(inner + "/b") << "inner";
  fs::create_directories(data + "/in");
  const auto said = said_inside(options_for({{work, "/work", BindKind::kWritable},
                                             {data, "/work/data", BindKind::kReadOnly},
                                             {data, "/data", BindKind::kWritable},
                                             {inner, "/data/in", BindKind::kWritable}}),
                                "cat /work/data/a /data/a /data/in/b; ls /proc/self/status /dev/null");
  if (!said) return;
  CHECK(*said == "outerouterinner/dev/null\n/proc/self/status\n");
}

}  // namespace
}  // namespace tranche::agent
