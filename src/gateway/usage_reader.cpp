// SPDX-License-Identifier: Apache-2.0
#include "gateway/usage_reader.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace tranche::gateway {
namespace {

constexpr std::size_t kTail = 4096;

std::uint64_t number_after(std::string_view text, std::string_view name) {
  const std::size_t at = text.find(name);
  if (at == std::string_view::npos) return 0;
  const std::size_t digits = text.find_first_not_of(" \t:", at + name.size());
  if (digits == std::string_view::npos) return 0;
  std::uint64_t value = 0;
  std::from_chars(text.data() + digits, text.data() + text.size(), value);
  return value;
}

}  // namespace

void ask_unpacked(net::Request& request) {
  if (request.method != "POST" || !request.headers.contains("Accept-Encoding")) return;
  net::Headers kept;
  for (std::size_t i = 0; i < request.headers.size(); ++i)
    if (const auto [name, value] = request.headers.at(i);
        !net::same_text_in_any_case(name, "Accept-Encoding"))
      kept.add(name, value);
  kept.add("Accept-Encoding", "identity");
  request.headers = std::move(kept);
}

void UsageReader::watch(std::string_view content_type) {
  watches_ = content_type.starts_with("application/json") || content_type.starts_with("text/event-stream");
}

void UsageReader::read(std::string_view piece) {
  if (!watches_) return;
  if (piece.size() >= kTail) {
    tail_.assign(piece.substr(piece.size() - kTail));
    return;
  }
  tail_.append(piece);
  if (tail_.size() > 2 * kTail) tail_.erase(0, tail_.size() - kTail);
}

void UsageReader::finish() {
  const std::size_t at = tail_.rfind("\"usage\"");
  if (!watches_ || at == std::string::npos) return;
  const std::string_view usage = std::string_view(tail_).substr(at);
  tokens_in_ = std::max(number_after(usage, "\"prompt_tokens\""), number_after(usage, "\"input_tokens\""));
  tokens_out_ =
      std::max(number_after(usage, "\"completion_tokens\""), number_after(usage, "\"output_tokens\""));
}

}  // namespace tranche::gateway
