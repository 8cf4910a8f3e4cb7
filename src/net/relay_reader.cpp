// SPDX-License-Identifier: Apache-2.0
#include "net/internal/relay_reader.hpp"

#include <array>
#include <boost/beast/http/basic_parser.hpp>

#include "net/http.hpp"

namespace tranche::net {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using Text = boost::beast::string_view;

constexpr std::uint32_t kHeaderBytesMax = 64 * 1024;
constexpr std::size_t kFieldsMax = 200;

constexpr std::array<std::string_view, 9> kOfOneHop{"Connection",
                                                    "Keep-Alive",
                                                    "Proxy-Connection",
                                                    "Transfer-Encoding",
                                                    "Content-Length",
                                                    "TE",
                                                    "Trailer",
                                                    "Upgrade",
                                                    "Expect"};

}  // namespace

bool is_of_one_hop(std::string_view name) {
  for (const std::string_view one : kOfOneHop)
    if (same_text_in_any_case(one, name)) return true;
  return false;
}

class RelayReader::Parser final : public http::basic_parser<false> {
 public:
  explicit Parser(Body expected) {
    eager(true);
    header_limit(kHeaderBytesMax);
    body_limit(boost::none);  // It is passed on piece by piece, and may be endless.
    if (expected == Body::kNone) skip(true);
  }

  int status = 0;
  std::string fields, body, content_type, length, protocol;
  bool header_complete = false;

 private:
  void on_response_impl(int code, Text, int, error_code&) override { status = code; }

  void on_field_impl(http::field field, Text name, Text value, error_code& ec) override {
    if (header_complete) return;  // A trailer must never pass for a header.
    if (++count_ > kFieldsMax) {
      ec = http::error::header_limit;
      return;
    }
    switch (field) {
      case http::field::content_length:
        length.assign(value.data(), value.size());
        return;
      case http::field::upgrade:
        protocol.assign(value.data(), value.size());
        return;
      case http::field::date:  // Ours to say.
        return;
      case http::field::content_type:
        content_type.assign(value.data(), value.size());
        break;
      default:
        if (is_of_one_hop({name.data(), name.size()})) return;
    }
    if (fields.empty()) fields.reserve(256);
    fields.append(name.data(), name.size()).append(": ").append(value.data(), value.size()).append("\r\n");
  }

  void on_header_impl(error_code&) override { header_complete = true; }
  std::size_t on_body_impl(Text text, error_code&) override {
    body.append(text.data(), text.size());
    return text.size();
  }
  std::size_t on_chunk_body_impl(std::uint64_t, Text text, error_code&) override {
    body.append(text.data(), text.size());
    return text.size();
  }
  void on_request_impl(http::verb, Text, Text, int, error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  void on_chunk_header_impl(std::uint64_t, Text, error_code&) override {}
  void on_finish_impl(error_code&) override {}

  std::size_t count_ = 0;
};

RelayReader::RelayReader() = default;
RelayReader::~RelayReader() = default;

void RelayReader::begin(Body body) {
  body_ = body;
  if (!parser_) {
    parser_ = std::make_unique<Parser>(body);
    return;
  }
  // In its place: an answer costs no memory of its own.
  std::destroy_at(parser_.get());
  std::construct_at(parser_.get(), body);
}

RelayReader::Outcome RelayReader::read(std::string_view bytes, std::size_t& used) {
  used = 0;
  error_code ec;
  while (used < bytes.size() && !parser_->is_done() && !ec) {
    used += parser_->put({bytes.data() + used, bytes.size() - used}, ec);
    // 100 Continue, 103 Early Hints: the answer itself follows.
    if (parser_->is_done() && parser_->status / 100 == 1 && parser_->status != 101) begin(body_);
  }
  if (ec && ec != http::error::need_more) return Outcome::kBroken;
  if (bytes.size() - used > kHeaderBytesMax && !parser_->is_done()) return Outcome::kBroken;
  return parser_->is_done() ? Outcome::kAnswer : Outcome::kNeedMore;
}

RelayReader::Outcome RelayReader::end_of_stream() {
  error_code ec = http::error::partial_message;
  if (parser_->got_some()) parser_->put_eof(ec);
  return ec ? Outcome::kBroken : Outcome::kAnswer;
}

bool RelayReader::header_complete() const {
  return parser_->header_complete;
}

bool RelayReader::keep_alive() const {
  return parser_->is_done() && parser_->keep_alive();
}

int RelayReader::status() const {
  return parser_->status;
}

const std::string& RelayReader::content_type() const {
  return parser_->content_type;
}

const std::string& RelayReader::length() const {
  return parser_->length;
}

const std::string& RelayReader::protocol() const {
  return parser_->protocol;
}

std::string& RelayReader::fields() {
  return parser_->fields;
}

std::string& RelayReader::body() {
  return parser_->body;
}

}  // namespace tranche::net
