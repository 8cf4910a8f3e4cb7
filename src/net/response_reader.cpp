// SPDX-License-Identifier: Apache-2.0
#include "net/internal/response_reader.hpp"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>

namespace tranche::net {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using Text = boost::beast::string_view;

constexpr std::uint32_t kHeaderBytesMax = 64 * 1024;

}  // namespace

class ResponseReader::Parser final : public http::basic_parser<false> {
 public:
  Parser(Body body, std::size_t body_bytes_max) : body_bytes_max_(body_bytes_max) {
    eager(true);
    header_limit(kHeaderBytesMax);
    body_limit(boost::none);  // Counted here: a body that is taken piece by piece may be endless.
    if (body == Body::kNone) skip(true);
  }

  Response response;
  bool header_complete = false;

 private:
  void on_response_impl(int code, Text, int, error_code&) override {
    response.status = code;
    response.content_type.clear();
  }

  void on_field_impl(http::field field, Text name, Text value, error_code& ec) override {
    if (header_complete) return;
    if (response.headers.size() >= 200) {
      ec = http::error::header_limit;
      return;
    }
    if (field == http::field::content_type) response.content_type.assign(value.data(), value.size());
    response.headers.emplace_back(std::string(name.data(), name.size()),
                                  std::string(value.data(), value.size()));
  }

  std::size_t take(Text body, error_code& ec) {
    if (response.body.size() + body.size() > body_bytes_max_) {
      ec = http::error::body_limit;
      return 0;
    }
    response.body.append(body.data(), body.size());
    return body.size();
  }

  void on_header_impl(error_code&) override { header_complete = true; }
  std::size_t on_body_impl(Text body, error_code& ec) override { return take(body, ec); }
  std::size_t on_chunk_body_impl(std::uint64_t, Text body, error_code& ec) override { return take(body, ec); }
  void on_request_impl(http::verb, Text, Text, int, error_code&) override {}
  // Long answers are read into one piece of memory; what a header promises is believed only so far.
  void on_body_init_impl(const boost::optional<std::uint64_t>& length, error_code&) override {
    constexpr std::uint64_t kBelieved = 16 * 1024 * 1024;
    if (length) response.body.reserve(static_cast<std::size_t>(std::min(*length, kBelieved)));
  }
  void on_chunk_header_impl(std::uint64_t, Text, error_code&) override {}
  void on_finish_impl(error_code&) override {}

  std::size_t body_bytes_max_;
};

ResponseReader::ResponseReader(Body body, std::size_t body_bytes_max)
    : body_(body), body_bytes_max_(body_bytes_max), parser_(std::make_unique<Parser>(body, body_bytes_max)) {}
ResponseReader::~ResponseReader() = default;

ResponseReader::Outcome ResponseReader::read(std::string_view bytes, std::size_t& used) {
  used = 0;
  error_code ec;
  while (used < bytes.size() && !parser_->is_done() && !ec) {
    used += parser_->put({bytes.data() + used, bytes.size() - used}, ec);
    skip_interim();
  }
  if (ec && ec != http::error::need_more) {
    error_ = ec.message();
    return Outcome::kBroken;
  }
  if (bytes.size() - used > kHeaderBytesMax && !parser_->is_done()) {
    error_ = "the header is too large";
    return Outcome::kBroken;
  }
  return parser_->is_done() ? Outcome::kResponse : Outcome::kNeedMore;
}

// 100 Continue, 103 Early Hints: the answer itself follows.
void ResponseReader::skip_interim() {
  const int status = parser_->response.status;
  if (parser_->is_done() && status / 100 == 1 && status != 101)
    parser_ = std::make_unique<Parser>(body_, body_bytes_max_);
}

ResponseReader::Outcome ResponseReader::end_of_stream() {
  error_code ec = http::error::partial_message;
  if (parser_->got_some()) parser_->put_eof(ec);
  if (!ec) return Outcome::kResponse;
  error_ = parser_->got_some() ? "the connection ended inside the answer"
                               : "the connection ended before an answer";
  return Outcome::kBroken;
}

bool ResponseReader::header_complete() const {
  return parser_->header_complete;
}

bool ResponseReader::keep_alive() const {
  return parser_->is_done() && parser_->keep_alive();
}

Response& ResponseReader::response() {
  return parser_->response;
}

}  // namespace tranche::net
