// SPDX-License-Identifier: Apache-2.0
#include "net/static_files.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <openssl/evp.h>
#include <stdexcept>
#include <zlib.h>

namespace tranche::net {
namespace {

std::string_view content_type_of(std::string_view path) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 17> kTypes = {{
      {".html", "text/html; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".mjs", "text/javascript; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".json", "application/json"},
      {".map", "application/json"},
      {".svg", "image/svg+xml"},
      {".png", "image/png"},
      {".jpg", "image/jpeg"},
      {".webp", "image/webp"},
      {".ico", "image/x-icon"},
      {".woff2", "font/woff2"},
      {".wasm", "application/wasm"},
      {".txt", "text/plain; charset=utf-8"},
      {".md", "text/markdown; charset=utf-8"},
      {".xml", "application/xml"},
      {".yaml", "application/yaml"},
  }};
  for (const auto& [ending, type] : kTypes)
    if (path.ends_with(ending)) return type;
  return "application/octet-stream";
}

bool already_compressed(std::string_view type) {
  return type.starts_with("image/") ? type != "image/svg+xml" : type == "font/woff2";
}

std::string gzip(const std::string& content) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return {};
  std::string out(deflateBound(&stream, content.size()), '\0');
  stream.next_in =
      reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));  // NOLINT: zlib only reads it.
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int done = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return done == Z_STREAM_END ? out : std::string();
}

std::string digest(const std::string& content) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int size = 0;
  if (EVP_Digest(content.data(), content.size(), bytes.data(), &size, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("static files: no SHA-256");
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < 16; ++i) {
    out += kHex[bytes[i] >> 4U];
    out += kHex[bytes[i] & 15U];
  }
  return out;
}

// "app.3f9a1c2b.js": a bundler named it by its content, so it never changes.
bool named_by_content(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const std::size_t last = name.rfind('.');
  if (last == std::string_view::npos || last == 0) return false;
  const std::size_t before = name.find_last_of(".-", last - 1);
  if (before == std::string_view::npos || last - before - 1 < 8) return false;
  const std::string_view hash = name.substr(before + 1, last - before - 1);
  return std::all_of(
      hash.begin(), hash.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// Whether the list holds `wanted` without "q=0".
bool accepts_gzip(std::string_view list) {
  while (!list.empty()) {
    std::string_view one = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), one.size() + 1));
    while (one.starts_with(' ')) one.remove_prefix(1);
    if (!one.starts_with("gzip")) continue;
    const std::size_t weight = one.find("q=0");
    return weight == std::string_view::npos ||
           one.substr(weight).find_first_of("123456789") != std::string_view::npos;
  }
  return false;
}

bool names_etag(std::string_view list, std::string_view etag) {
  return list == "*" || list.find(etag) != std::string_view::npos;
}

Response refusal(int status) {
  Response response;
  response.status = status;
  response.content_type = "text/plain; charset=utf-8";
  response.body = std::string(reason_phrase(status)) + "\n";
  return response;
}

}  // namespace

StaticFiles StaticFiles::read_folder(const std::filesystem::path& folder, std::size_t bytes_max) {
  namespace fs = std::filesystem;
  StaticFiles files;
  std::size_t total = 0;
  std::error_code error;
  fs::recursive_directory_iterator each(folder, error);
  if (error)
    throw std::runtime_error("static files: cannot read " + folder.string() + ": " + error.message());
  for (; each != fs::recursive_directory_iterator(); each.increment(error)) {
    if (error)
      throw std::runtime_error("static files: cannot read " + folder.string() + ": " + error.message());
    const bool hidden = each->path().filename().string().starts_with('.');
    const fs::file_status status = each->symlink_status();
    if (hidden && fs::is_directory(status)) each.disable_recursion_pending();
    if (hidden || !fs::is_regular_file(status)) continue;
    std::ifstream in(each->path(), std::ios::binary);
    std::string content((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (!in) throw std::runtime_error("static files: cannot read " + each->path().string());
    total += content.size();
    if (total > bytes_max) throw std::runtime_error("static files: " + folder.string() + " is too large");
    files.add("/" + each->path().lexically_relative(folder).generic_string(), std::move(content));
  }
  return files;
}

void StaticFiles::add(std::string path, std::string content) {
  File file;
  file.content_type = content_type_of(path);
  file.cache_control = named_by_content(path) ? "public, max-age=31536000, immutable" : "no-cache";
  file.etag = "\"" + digest(content) + "\"";
  if (content.size() >= 512 && !already_compressed(file.content_type)) {
    file.gzipped = gzip(content);
    if (file.gzipped.size() + 64 > content.size()) file.gzipped = {};
  }
  file.content = std::move(content);
  files_.insert_or_assign(std::move(path), std::move(file));
}

Response StaticFiles::answer(const Request& request, std::string_view path) const {
  if (request.method != "GET" && request.method != "HEAD") {
    Response response = refusal(405);
    response.headers.emplace_back("Allow", "GET, HEAD");
    return response;
  }
  std::optional<std::string> plain = percent_decode(path);
  if (!plain) return refusal(400);
  if (plain->ends_with('/')) *plain += "index.html";
  const auto found = files_.find(*plain);
  if (found == files_.end()) return refusal(404);
  const File& file = found->second;
  Response response;
  response.content_type = file.content_type;
  response.headers.emplace_back("ETag", file.etag);
  response.headers.emplace_back("Cache-Control", std::string(file.cache_control));
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  if (!file.gzipped.empty()) response.headers.emplace_back("Vary", "Accept-Encoding");
  if (names_etag(request.header("If-None-Match"), file.etag)) {
    response.status = 304;
    return response;
  }
  if (!file.gzipped.empty() && accepts_gzip(request.header("Accept-Encoding"))) {
    response.headers.emplace_back("Content-Encoding", "gzip");
    response.body = file.gzipped;
  } else {
    response.body = file.content;
  }
  return response;
}

}  // namespace tranche::net
