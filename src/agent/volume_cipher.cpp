// SPDX-License-Identifier: Apache-2.0
#include "agent/volume_cipher.hpp"

#include <cerrno>
#include <stdexcept>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "agent/files.hpp"
#include "agent/system_failure.hpp"
#include "gpu/child_program.hpp"

namespace tranche::agent {

namespace fs = std::filesystem;

VolumeCipher VolumeCipher::find() {
  VolumeCipher cipher;
  cipher.program_ = gpu::find_program("gocryptfs");
  cipher.missing_.clear();
  if (::geteuid() != 0)
    cipher.missing_ = "only an agent that is root encrypts volumes";
  else if (cipher.program_.empty() || ::access("/bin/fusermount", X_OK) != 0)
    cipher.missing_ = "encryption of volumes needs gocryptfs and fuse (apt install gocryptfs fuse3)";
  else if (::access("/dev/fuse", R_OK | W_OK) != 0)
    cipher.missing_ = "encryption of volumes needs /dev/fuse (modprobe fuse)";
  return cipher;
}

// Its words go to a file: what stays in the background would hold a pipe open.
void VolumeCipher::run(const std::vector<std::string>& arguments, const std::string& key) const {
  const Descriptor words = memory_file("gocryptfs", "");
  const std::string place = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(words.get());
  std::vector<std::string> command{
      "/bin/sh", "-c", "words=$1; shift; exec \"$@\" >\"$words\" 2>&1", "sh", place, program_, "-q"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const gpu::ProgramEnd end = gpu::run_program({.command = std::move(command), .input = key + "\n"});
  if (end.started && end.exit_code == 0) return;
  throw std::runtime_error("a volume could not be opened with its key: " + read_descriptor(words.get()));
}

void VolumeCipher::create(const fs::path& hidden, const std::string& key) const {
  // The key has all the randomness there can be: stretching it, as for words that people choose, adds
  // nothing.
  run({"-init", "-scryptn", "10", hidden.string()}, key);
}

void VolumeCipher::attach(const fs::path& hidden,
                          const fs::path& shown,
                          const std::string& key,
                          Users users) const {
  std::vector<std::string> words{"-allow_other", "-nosyslog"};
  if (users == Users::kManyNodes) words.emplace_back("-sharedstorage");
  words.insert(words.end(), {hidden.string(), shown.string()});
  run(words, key);
}

bool VolumeCipher::attached(const fs::path& shown) {
  struct stat own{}, parent{};
  if (::stat(shown.parent_path().c_str(), &parent) != 0) return false;
  // A mount whose process was killed is there, and answers nothing.
  if (::stat(shown.c_str(), &own) != 0) return errno == ENOTCONN;
  return own.st_dev != parent.st_dev;
}

void VolumeCipher::detach(const fs::path& shown) {
  if (!attached(shown) || ::umount2(shown.c_str(), UMOUNT_NOFOLLOW) == 0) return;
  if (::umount2(shown.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0) fail("cannot lock " + shown.string());
}

}  // namespace tranche::agent
