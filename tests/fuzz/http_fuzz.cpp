// SPDX-License-Identifier: Apache-2.0
// HTTP: any bytes give requests, the wish for more, or one refusal with a status; and which requests they are
// does not depend on how the network cut them. (Garbage may be refused at once or only when its line ends.)
#include <algorithm>
#include <string>

#include "base/check.hpp"
#include "net/internal/request_reader.hpp"
#include "target.hpp"

namespace tranche::fuzz {
namespace {

constexpr net::ReaderLimits kLimits{
    .header_bytes = 512, .target_bytes = 128, .header_fields = 8, .body_bytes = 256};

// Everything a handler could tell apart, of all requests in `input`, fed `step` bytes at a time.
std::string understood(std::string_view input, std::size_t step) {
  net::RequestReader reader(kLimits);
  std::string pending;
  std::string seen;
  while (!input.empty()) {
    pending += input.substr(0, step);
    input.remove_prefix(std::min(step, input.size()));
    while (true) {
      std::size_t used = 0;
      const auto outcome = reader.read(pending, used);
      TRANCHE_CHECK(used <= pending.size());
      pending.erase(0, used);
      if (outcome == net::RequestReader::Outcome::kRefused) {
        TRANCHE_CHECK(reader.refusal_status() >= 400 && reader.refusal_status() < 600);
        TRANCHE_CHECK(!reader.refusal_reason().empty());
        return seen;
      }
      if (outcome == net::RequestReader::Outcome::kNeedMore) break;
      const net::Request request = reader.take();
      TRANCHE_CHECK(request.body.size() <= kLimits.body_bytes);
      TRANCHE_CHECK(request.headers.size() <= kLimits.header_fields);
      seen += request.path + '\n' + request.query + '\n' + request.body + '\n';
    }
  }
  return seen;
}

}  // namespace

void fuzz_http(std::string_view input) {
  const std::string whole = understood(input, input.size() + 1);
  TRANCHE_CHECK(understood(input, 1) == whole);
  TRANCHE_CHECK(understood(input, 7) == whole);
}

}  // namespace tranche::fuzz

TRANCHE_FUZZ_ENTRY(fuzz_http);
