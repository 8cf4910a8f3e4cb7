// SPDX-License-Identifier: Apache-2.0
#include "gateway/directory.hpp"

#include <algorithm>

namespace tranche::gateway {
namespace {

constexpr std::size_t kLabelMost = 63;
// Between service and tenant: one label, so that one certificate for *.example.org is enough for all.
constexpr std::string_view kBetween = "--";

// "echo--acme" of "echo--acme.example.org:7880".
std::string_view label_of(std::string_view host, std::string_view domain) {
  if (const auto port = host.rfind(':'); port != std::string_view::npos && host.find(']') == host.npos)
    host = host.substr(0, port);
  if (domain.empty() || host.size() <= domain.size() + 1) return {};
  const std::string_view label = host.substr(0, host.size() - domain.size() - 1);
  const bool is_below = host[label.size()] == '.' &&
                        net::same_text_in_any_case(host.substr(label.size() + 1), domain) &&
                        label.find('.') == std::string_view::npos;
  return is_below ? label : std::string_view();
}

char small(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
}

}  // namespace

std::string host_label(std::string_view tenant, std::string_view service) {
  const auto fits = [](std::string_view name) {
    return std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    });
  };
  // The last one divides, so the tenant has none; what begins or ends with a dash is no label.
  const bool divides = tenant.find(kBetween) == std::string_view::npos && !tenant.starts_with('-') &&
                       !tenant.ends_with('-') && !service.starts_with('-') && !service.ends_with('-');
  if (!divides || !fits(tenant) || !fits(service) ||
      tenant.size() + kBetween.size() + service.size() > kLabelMost)
    return {};
  return std::string(service).append(kBetween).append(tenant);
}

Place place_of(const net::Request& request, std::string_view domain) {
  Place place;
  std::string_view path = request.path;
  if (const std::string_view label = label_of(request.header("Host"), domain); !label.empty()) {
    place.is_own_origin = true;
    place.rest = path;
    const auto between = label.rfind(kBetween);
    if (between == std::string_view::npos) return place;
    place.key.append(label.substr(between + kBetween.size())).append("/").append(label.substr(0, between));
    std::transform(place.key.begin(), place.key.end(), place.key.begin(), small);
    return place;
  }
  path.remove_prefix(path.starts_with('/') ? 1 : 0);
  const auto first = path.find('/');
  if (first == std::string_view::npos) return place;
  const auto second = std::min(path.find('/', first + 1), path.size());
  place.key = path.substr(0, second);
  place.rest = path.substr(second);
  return place;
}

}  // namespace tranche::gateway
