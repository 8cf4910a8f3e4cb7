// SPDX-License-Identifier: Apache-2.0
#include "cli/config.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/failure.hpp"

namespace tranche::cli {
namespace {

class Folder {
 public:
  Folder() : path_(::mkdtemp(name_)) {}
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  char name_[32] = "/tmp/tranche-config.XXXXXX";
  std::filesystem::path path_;
};

Config two_servers() {
  return {.current = "lab",
          .contexts = {{"lab", {.server = "http://127.0.0.1:7878", .subscriber = "acme/research"}},
                       {"we \"quote\"", {.server = "https://[::1]:1", .ca_file = "/tmp/ca\\x.pem"}}}};
}
const Credentials kTokens{{"lab", {.token = "trn_lab"}},
                          {"we \"quote\"", {.token = "trn_q", .token_id = "tok_1"}}};

TEST_CASE("config: what is written is read back, with names that need quoting") {
  const Folder folder;
  save_config(folder / "deep/er/config.toml", two_servers());
  CHECK(load_config(folder / "deep/er/config.toml") == two_servers());
  save_credentials(folder / "credentials.toml", kTokens);
  CHECK(load_credentials(folder / "credentials.toml") == kTokens);
}

TEST_CASE("config: secrets are for their owner alone, and are not believed otherwise") {
  const Folder folder;
  const auto file = folder / "credentials.toml";
  save_credentials(file, kTokens);
  struct stat status{};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777U) == 0600U);
  ::chmod(file.c_str(), 0644);
  CHECK_THROWS_AS(load_credentials(file), Failure);
}

TEST_CASE("config: a file that is not there is empty; one that makes no sense is named with its line") {
  const Folder folder;
  CHECK(load_config(folder / "none.toml") == Config{});
  std::ofstream(folder / "bad.toml") << "current = \"a\"\ncontexts = [\n";
  try {
    load_config(folder / "bad.toml");
    FAIL("it was taken");
  } catch (const Failure& failure) {
    CHECK(failure.code() == kUsage);
    CHECK(failure.lines().front().find("bad.toml:") != std::string::npos);
  }
}

TEST_CASE("target: flag before environment before context before the usual place") {
  const Config config = two_servers();
  const auto server = [&](const TargetWish& wish) { return choose_target(wish, config, kTokens).server; };
  CHECK(server({.server_flag = "http://flag:1", .server_environment = "http://env:1"}) == "http://flag:1");
  CHECK(server({.server_environment = "http://env:1/"}) == "http://env:1");
  CHECK(server({}) == "http://127.0.0.1:7878");
  CHECK(server({.context_flag = "we \"quote\""}) == "https://[::1]:1");
  CHECK(choose_target({}, {}, {}).server == kDefaultServer);
  CHECK_THROWS_AS(choose_target({.context_flag = "none"}, config, kTokens), Failure);
}

TEST_CASE("target: a token goes to the server it was issued by, and to no other") {
  const Config config = two_servers();
  CHECK(choose_target({}, config, kTokens).token == "trn_lab");
  CHECK(choose_target({.server_flag = "http://127.0.0.1:7878"}, config, kTokens).token == "trn_lab");
  CHECK(choose_target({.server_flag = "http://evil:1"}, config, kTokens).token.empty());
  CHECK(
      choose_target({.server_flag = "http://evil:1", .context_flag = "lab"}, config, kTokens).token.empty());
  CHECK(choose_target({.token_environment = "trn_env"}, config, kTokens).token == "trn_env");
}

TEST_CASE("target: the subscriber comes from the flag, the environment, or the context") {
  const Config config = two_servers();
  CHECK(choose_target({}, config, kTokens).subscriber == "acme/research");
  CHECK(choose_target({.subscriber_environment = "e"}, config, kTokens).subscriber == "e");
  CHECK(choose_target({.subscriber_flag = "f", .subscriber_environment = "e"}, config, kTokens).subscriber ==
        "f");
}

}  // namespace
}  // namespace tranche::cli
