// SPDX-License-Identifier: Apache-2.0
// Frames as the reference program writes them, and what it says to frames that somebody damaged.
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "guard/zstd_frame.hpp"

namespace tranche::guard {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/tranche-zstd-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] fs::path operator/(const std::string& name) const { return path_ / name; }
  [[nodiscard]] std::string name() const { return path_; }

 private:
  fs::path path_;
};

std::string read(const fs::path& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

int run(const std::string& command) {
  return std::system((command + " 2>/dev/null").c_str());  // NOLINT(concurrency-mt-unsafe): one thread.
}

std::string unpack(const std::string& frame, std::uint64_t room) {
  std::string out(room, '\0');
  const auto* from = reinterpret_cast<const unsigned char*>(frame.data());
  out.resize(unpack_zstd(from, frame.size(), reinterpret_cast<unsigned char*>(out.data()), room));
  return out;
}

std::uint32_t next(std::uint32_t& seed) {
  seed = seed * 1664525U + 1013904223U;
  return seed >> 8;
}

// Bytes that differ in how often they come, and repeat nothing: literals, four streams of codes.
std::string uneven(std::size_t bytes) {
  std::string out;
  for (std::uint32_t seed = 3; out.size() < bytes;) {
    const std::uint32_t draw = next(seed);
    out += static_cast<char>(draw % 64 & draw / 64 % 64 & draw / 4096 % 256);
  }
  return out;
}

std::string random_bytes(std::size_t bytes) {
  std::string out;
  for (std::uint32_t seed = 9; out.size() < bytes;) out += static_cast<char>(next(seed));
  return out;
}

// Lines that come back from near and far, with something new in each.
std::string lines(std::size_t bytes) {
  std::string out;
  for (std::uint32_t seed = 21; out.size() < bytes;) {
    const std::uint32_t draw = next(seed);
    if (draw % 3 != 0 && out.size() > 100) {
      const std::size_t back = 1 + draw / 3 % out.size();
      out += out.substr(out.size() - back, 3 + draw % 90);
    } else {
      out += "ld.global.u" + std::to_string(8 << draw % 4) + " %r" + std::to_string(draw % 300) + ";\n";
    }
  }
  return out;
}

}  // namespace

TEST_CASE("zstd: what the reference program packs, at every strength, comes out as it went in") {
  REQUIRE_MESSAGE(run("zstd --version >/dev/null") == 0, "tools/bootstrap installs zstd");
  const Folder folder;
  const std::string program = read("/proc/self/exe").substr(0, 3U << 20);
  for (const std::string& content : {program,
                                     lines(700'000),
                                     uneven(400'000),
                                     random_bytes(200'000),
                                     std::string(500'000, 'z'),
                                     lines(900),
                                     uneven(300),
                                     std::string("seven b")}) {
    write(folder / "content", content);
    for (const char* way : {"-1",
                            "-3 --no-check",
                            "-6 --long=24",
                            "-12",
                            "-19 --no-check",
                            "--ultra -22",
                            "--fast=8",
                            "-5 --no-compress-literals",
                            "-3 --no-content-size"}) {
      CAPTURE(way);
      CAPTURE(content.size());
      REQUIRE(run("zstd -q -f " + std::string(way) + " -o " + (folder / "frame").string() + " " +
                  (folder / "content").string()) == 0);
      const std::string frame = read(folder / "frame");
      CHECK((unpack(frame, content.size()) == content));
      CHECK(unpack(frame, content.size() - 1).empty());
    }
  }
}

// The reference program does not look whether the four streams of a block were read to their ends; RFC 8878
// asks for it, and who refuses is safe: an entry that does not unpack counts as one that nobody can bound.
TEST_CASE("zstd: a damaged frame that the reference program still takes means the same here, or is refused") {
  REQUIRE_MESSAGE(run("zstd --version >/dev/null") == 0, "tools/bootstrap installs zstd");
  int taken = 0;
  std::uint32_t seed = 77;
  for (const std::string& content : {lines(1200), uneven(900)}) {
    for (const char* strength : {"-1", "-19"}) {
      const Folder folder;
      write(folder / "content", content);
      const std::string pack = std::string("zstd -q --no-check ") + strength + " -o ";
      REQUIRE(run(pack + (folder / "frame").string() + " " + (folder / "content").string()) == 0);
      const std::string whole = read(folder / "frame");
      const int changes = 500;
      for (int i = 0; i < changes; ++i) {
        std::string frame = whole;
        frame[6 + next(seed) % (frame.size() - 6)] ^= static_cast<char>(1U << next(seed) % 8);
        write(folder / (std::to_string(i) + ".zst"), frame);
      }
      run("zstd -q -d " + (folder / "").string() + "*.zst");  // Those it does not take stay packed.
      for (int i = 0; i < changes; ++i) {
        if (!fs::exists(folder / std::to_string(i))) continue;
        const std::string meant = read(folder / std::to_string(i));
        const std::string here = unpack(read(folder / (std::to_string(i) + ".zst")), 1U << 20);
        CHECK((here.empty() || here == meant));
        taken += here == meant ? 1 : 0;
      }
    }
  }
  CHECK(taken > 100);
}

}  // namespace tranche::guard
