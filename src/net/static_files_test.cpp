// SPDX-License-Identifier: Apache-2.0
#include "net/static_files.hpp"

#include <array>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <zlib.h>

namespace tranche::net {
namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "tranche-static-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  void write(const std::string& name, const std::string& content) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name) << content;
  }
  fs::path path;
};

Request get(const std::string& path) {
  Request request;
  request.method = "GET";
  request.path = path;
  return request;
}

std::string gunzip(const std::string& packed) {
  std::string out(1 << 20, '\0');
  z_stream stream{};
  inflateInit2(&stream, 15 + 16);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  inflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

TEST_CASE("static files: a folder is served with types, and an index for a folder") {
  const Folder folder;
  folder.write("index.html", "<p>home</p>");
  folder.write("assets/app.0123abcd.js", "let a = 1;");
  folder.write("a b.txt", "space");
  const StaticFiles files = StaticFiles::read_folder(folder.path);
  CHECK(files.size() == 3);
  CHECK(files.answer(get("/")).body == "<p>home</p>");
  CHECK(files.answer(get("/")).content_type == "text/html; charset=utf-8");
  CHECK(files.answer(get("/")).header("Cache-Control") == "no-cache");
  CHECK(files.answer(get("/assets/app.0123abcd.js")).header("Cache-Control").find("immutable") !=
        std::string::npos);
  CHECK(files.answer(get("/a%20b.txt")).body == "space");
  CHECK(files.answer(get("/none")).status == 404);
  Request post = get("/");
  post.method = "POST";
  CHECK(files.answer(post).status == 405);
}

TEST_CASE("static files: no path leads out of the folder") {
  const Folder folder;
  folder.write("public/index.html", "home");
  folder.write("secret.txt", "secret");
  folder.write("public/.hidden", "secret");
  folder.write("public/.git/config", "secret");
  fs::create_symlink(folder.path / "secret.txt", folder.path / "public/link.txt");
  fs::create_directory_symlink(folder.path, folder.path / "public/up");
  const StaticFiles files = StaticFiles::read_folder(folder.path / "public");
  const std::array<const char*, 16> attempts = {"/../secret.txt",
                                                "/..%2fsecret.txt",
                                                "/%2e%2e/secret.txt",
                                                "/./../secret.txt",
                                                "/link.txt",
                                                "/up/secret.txt",
                                                "/.hidden",
                                                "/.git/config",
                                                "//secret.txt",
                                                "/..\\secret.txt",
                                                "/%00/../secret.txt",
                                                "/index.html/../../secret.txt",
                                                "/index.html%00.txt",
                                                "/%c0%ae%c0%ae/secret.txt",
                                                "/..;/secret.txt",
                                                "secret.txt"};
  for (const char* path : attempts) {
    CAPTURE(path);
    CHECK(files.answer(get(path)).status == 404);
  }
  CHECK(files.answer(get("/%zz")).status == 400);
}

TEST_CASE("static files: a client that has the content is not sent it again") {
  StaticFiles files;
  files.add("/a.css", "a{}");
  const std::string etag(files.answer(get("/a.css")).header("ETag"));
  REQUIRE_FALSE(etag.empty());
  Request again = get("/a.css");
  again.headers.add("If-None-Match", "\"other\", " + etag);
  CHECK(files.answer(again).status == 304);
  CHECK(files.answer(again).body.empty());
  files.add("/a.css", "b{}");
  CHECK(files.answer(again).status == 200);
}

TEST_CASE("static files: text is sent packed to those who can unpack it") {
  StaticFiles files;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "line " + std::to_string(i) + "\n";
  files.add("/big.txt", text);
  files.add("/small.txt", "x");
  Request packed = get("/big.txt");
  packed.headers.add("Accept-Encoding", "br, gzip;q=0.8");
  const Response answer = files.answer(packed);
  CHECK(answer.header("Content-Encoding") == "gzip");
  CHECK(answer.header("Vary") == "Accept-Encoding");
  CHECK(answer.body.size() < text.size() / 2);
  CHECK(gunzip(answer.body) == text);
  Request never = get("/big.txt");
  never.headers.add("Accept-Encoding", "gzip;q=0");
  CHECK(files.answer(never).body == text);
  CHECK(files.answer(get("/big.txt")).body == text);
  Request small = get("/small.txt");
  small.headers.add("Accept-Encoding", "gzip");
  CHECK(files.answer(small).body == "x");
}

}  // namespace
}  // namespace tranche::net
