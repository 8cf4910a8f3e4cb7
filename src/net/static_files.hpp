// SPDX-License-Identifier: Apache-2.0
#pragma once
// Serves files of a console or of documentation: from a folder read once at the start, or from a table built
// into the program. What is not in the table cannot be asked for, so no path leads out of it.
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "net/http.hpp"

namespace tranche::net {

class StaticFiles {
 public:
  // Every regular file below `folder`; links are not followed, hidden files are left out. Throws
  // std::runtime_error when it cannot be read, or holds more than `bytes_max`.
  static StaticFiles read_folder(const std::filesystem::path& folder,
                                 std::size_t bytes_max = 64 * 1024 * 1024);

  // `path` begins with '/'. The content type comes from its ending.
  void add(std::string path, std::string content);

  // Answers GET and HEAD for `path` (percent-encoded, as in Request::path): 200, 304, 404 or 405. A path that
  // ends in '/' means its index.html.
  [[nodiscard]] Response answer(const Request& request, std::string_view path) const;
  [[nodiscard]] Response answer(const Request& request) const { return answer(request, request.path); }
  [[nodiscard]] std::size_t size() const { return files_.size(); }

 private:
  struct File {
    std::string content;
    std::string gzipped;  // Empty when it saves nothing.
    std::string etag;
    std::string_view content_type;
    std::string_view cache_control;
  };
  std::map<std::string, File, std::less<>> files_;
};

}  // namespace tranche::net
