// SPDX-License-Identifier: Apache-2.0
// Beast's parser does the grammar; this file adds the rules that keep two readers of the same bytes from
// disagreeing (request smuggling), and the limits.
#include "net/internal/request_reader.hpp"

#include <algorithm>
#include <array>
#include <boost/beast/http/basic_parser.hpp>
#include <utility>

#include "net/forward.hpp"

namespace tranche::net {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using Text = boost::beast::string_view;

std::string_view view(Text text) {
  return {text.data(), text.size()};
}

bool known_method(std::string_view method) {
  static constexpr std::array<std::string_view, 7> kMethods = {
      "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"};
  return std::find(kMethods.begin(), kMethods.end(), method) != kMethods.end();
}

// "GET / HTTP/2.0" is another version; "GET / HTTP/1.1\n" is a broken line.
bool names_other_version(std::string_view line) {
  line = line.substr(0, line.find('\r'));
  const std::size_t mark = line.rfind(" HTTP/");
  if (mark == std::string_view::npos) return false;
  const std::string_view version = line.substr(mark + 6);
  const auto digit = [&](std::size_t i) { return version[i] >= '0' && version[i] <= '9'; };
  return version.size() == 3 && digit(0) && version[1] == '.' && digit(2) && version != "1.0" &&
         version != "1.1";
}

}  // namespace

class RequestReader::Parser final : public http::basic_parser<true> {
 public:
  explicit Parser(const ReaderLimits& limits) : limits_(limits) {
    eager(true);
    header_limit(static_cast<std::uint32_t>(limits.header_bytes));
    if (limits.stream_over == 0) {
      body_limit(limits.body_bytes);
    } else {
      body_limit(boost::none);
    }
  }

  std::string_view input;  // What is being parsed right now.
  Request request;
  int status = 0;  // Set together with an error: the answer this file chose.
  const char* reason = "";
  bool header_complete = false;
  bool expects_continue = false;
  bool http10 = false;
  bool line_complete = false;

 private:
  void refuse(int with_status, const char* because, error_code& ec) {
    status = with_status;
    reason = because;
    ec = http::error::bad_field;
  }

  void on_request_impl(http::verb, Text method, Text target, int version, error_code& ec) override {
    line_complete = true;
    http10 = version < 11;
    request.method = view(method);
    if (!known_method(request.method)) return refuse(501, "this method is not implemented", ec);
    if (target.size() > limits_.target_bytes) return refuse(414, "the request target is too long", ec);
    take_target(view(target), ec);
  }

  void take_target(std::string_view target, error_code& ec) {
    if (const std::size_t scheme = target.find("://"); !target.starts_with('/') && scheme != target.npos) {
      target.remove_prefix(scheme + 3);  // The absolute form that proxies use.
      const std::size_t slash = target.find_first_of("/?");
      target = slash == target.npos ? "/" : target.substr(slash);
    }
    const std::size_t mark = target.find('?');
    request.path = target.substr(0, mark);
    if (mark != target.npos) request.query = target.substr(mark + 1);
    if (request.path.empty()) request.path = "/";
    const bool asterisk = request.path == "*" && request.method == "OPTIONS";
    if (request.path.front() != '/' && !asterisk) return refuse(400, "the request target is not a path", ec);
    if (target.find('#') != target.npos) refuse(400, "the request target has a fragment", ec);
  }

  void on_field_impl(http::field field, Text name, Text value, error_code& ec) override {
    if (header_complete) return;  // A trailer must never pass for a header.
    Headers& headers = request.headers;
    if (headers.size() >= limits_.header_fields ||
        headers.bytes() + name.size() + value.size() > limits_.header_bytes)
      return refuse(431, "too many header fields", ec);
    if (folded(view(name), view(value))) return refuse(400, "a folded header field", ec);
    switch (field) {
      case http::field::content_length:
        if (headers.contains("Content-Length") || value.find(',') != Text::npos)
          return refuse(400, "more than one Content-Length", ec);
        break;
      case http::field::transfer_encoding:
        if (http10) return refuse(400, "Transfer-Encoding in HTTP/1.0", ec);
        if (headers.contains("Transfer-Encoding")) return refuse(400, "more than one Transfer-Encoding", ec);
        if (!same_text_in_any_case(view(value), "chunked"))
          return refuse(501, "only the chunked transfer encoding is implemented", ec);
        break;
      case http::field::host:
        if (headers.contains("Host")) return refuse(400, "more than one Host", ec);
        break;
      case http::field::expect:
        if (!same_text_in_any_case(view(value), "100-continue"))
          return refuse(417, "only 100-continue can be expected", ec);
        expects_continue = !http10;
        break;
      default:
        break;
    }
    headers.add(view(name), view(value));
  }

  // A value that goes on in the next line. Beast joins the lines; other readers may see another field.
  [[nodiscard]] bool folded(std::string_view name, std::string_view value) const {
    const char* const end = input.data() + input.size();
    const char* at = name.data() + name.size();
    if (!value.empty()) {
      if (value.data() < at || value.data() >= end) return true;  // Joined in memory of Beast's own.
      if (std::find(at, value.data(), '\n') != value.data()) return true;
      at = value.data() + value.size();
    }
    while (at != end && *at != '\n') ++at;
    return end - at >= 2 && (at[1] == ' ' || at[1] == '\t');
  }

  void on_header_impl(error_code& ec) override {
    header_complete = true;
    if (!http10 && !request.headers.contains("Host")) refuse(400, "no Host", ec);
  }

  void on_body_init_impl(const boost::optional<std::uint64_t>& length, error_code&) override {
    // Grown as it arrives: a promise of a large body must not cost memory by itself.
    if (length) request.body.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(*length, 16 * 1024)));
  }

  std::size_t on_body_impl(Text body, error_code&) override {
    request.body.append(body.data(), body.size());
    return body.size();
  }

  std::size_t on_chunk_body_impl(std::uint64_t, Text body, error_code&) override {
    request.body.append(body.data(), body.size());
    return body.size();
  }

  void on_response_impl(int, Text, int, error_code&) override {}
  void on_chunk_header_impl(std::uint64_t, Text, error_code&) override {}
  void on_finish_impl(error_code&) override {}

  ReaderLimits limits_;
};

RequestReader::RequestReader(ReaderLimits limits) : limits_(limits) {}
RequestReader::~RequestReader() = default;

RequestReader::Outcome RequestReader::refuse(int status, std::string reason) {
  refusal_status_ = status;
  refusal_reason_ = std::move(reason);
  keep_alive_ = false;
  return Outcome::kRefused;
}

RequestReader::Outcome RequestReader::read(std::string_view bytes, std::size_t& used) {
  used = 0;
  if (phase_ == Phase::kIdle) {
    // RFC 9112, 2.2: an empty line before a request is skipped.
    while (bytes.starts_with("\r\n")) {
      bytes.remove_prefix(2);
      used += 2;
    }
    if (bytes.empty() || bytes == "\r") return Outcome::kNeedMore;
    if (parser_) {  // In its place: a request costs no memory for this.
      std::destroy_at(parser_.get());
      std::construct_at(parser_.get(), limits_);
    } else {
      parser_ = std::make_unique<Parser>(limits_);
    }
    phase_ = Phase::kHeader;
    expects_continue_ = head_taken_ = false;
  }
  std::size_t parsed = 0;
  const Outcome outcome = parse(bytes, parsed);
  used += parsed;
  return outcome;
}

RequestReader::Outcome RequestReader::parse(std::string_view bytes, std::size_t& used) {
  error_code ec;
  while (!parser_->is_done() && !ec) {
    parser_->input = bytes;
    used += parser_->put({bytes.data() + used, bytes.size() - used}, ec);
    if (used == bytes.size()) break;
  }
  if (ec == http::error::need_more) ec = {};
  if (parser_->status != 0) return refuse(parser_->status, parser_->reason);
  if (ec == http::error::body_limit) return refuse(413, "the body is larger than this server takes");
  if (ec == http::error::bad_version && names_other_version(bytes))
    return refuse(505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
  const bool header_too_long = ec == http::error::header_limit || bytes.size() - used > limits_.header_bytes;
  if (header_too_long && !parser_->is_done()) {
    if (!parser_->line_complete) return refuse(414, "the request target is too long");
    if (!parser_->header_complete) return refuse(431, "the header is too large");
    return refuse(400, "a chunk's header or trailer is too large");
  }
  if (ec) return refuse(400, "malformed request: " + ec.message());
  if (parser_->header_complete) {
    phase_ = Phase::kBody;
    keep_alive_ = parser_->keep_alive();
    http10_ = parser_->http10;
    expects_continue_ = parser_->expects_continue && parser_->request.body.empty() && !parser_->is_done();
  }
  if (parser_->is_done()) return Outcome::kRequest;
  return comes_in_pieces() ? Outcome::kHead : Outcome::kNeedMore;
}

bool RequestReader::comes_in_pieces() const {
  if (limits_.stream_over == 0 || head_taken_ || !parser_->header_complete) return false;
  const auto length = body_length();
  if (!is_retry_safe(parser_->request)) return !length || *length > limits_.stream_over;
  return length ? *length > limits_.body_bytes : parser_->request.body.size() > limits_.body_bytes;
}

std::optional<std::uint64_t> RequestReader::body_length() const {
  const auto length = parser_->content_length();
  return length ? std::optional<std::uint64_t>(*length) : std::nullopt;
}

Request RequestReader::take_head() {
  head_taken_ = true;
  return std::move(parser_->request);
}

std::string RequestReader::take_body() {
  return std::exchange(parser_->request.body, {});
}

Request RequestReader::take() {
  Request request = std::move(parser_->request);
  phase_ = Phase::kIdle;
  expects_continue_ = false;
  return request;
}

}  // namespace tranche::net
