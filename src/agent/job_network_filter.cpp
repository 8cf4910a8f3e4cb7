// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <array>
#include <bit>
#include <charconv>
#include <ifaddrs.h>
#include <memory>
#include <netinet/in.h>
#include <sstream>

#include "agent/job_network.hpp"

namespace tranche::agent {
namespace {

// Where no public service lives: this host, private and shared networks, link-local (a cloud's instance
// data), protocol assignments, benchmarks, multicast and what is reserved.
constexpr std::array kNotPublic = {"0.0.0.0/8",
                                   "10.0.0.0/8",
                                   "100.64.0.0/10",
                                   "127.0.0.0/8",
                                   "169.254.0.0/16",
                                   "172.16.0.0/12",
                                   "192.0.0.0/24",
                                   "192.168.0.0/16",
                                   "198.18.0.0/15",
                                   "224.0.0.0/3"};

std::string dotted(std::uint32_t address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  const in_addr network{htonl(address)};
  ::inet_ntop(AF_INET, &network, text.data(), text.size());
  return text.data();
}

std::uint32_t address_of(const sockaddr* address) {
  return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
}

std::uint32_t mask_of(int length) {
  return length == 0 ? 0 : ~std::uint32_t{0} << (32 - length);
}

// nft wants no empty set in braces.
std::string named_set(const std::string& name, const std::vector<std::string>& members) {
  std::string text = "  set " + name + " { type ipv4_addr; flags interval; auto-merge;";
  for (std::size_t i = 0; i < members.size(); ++i) text += (i == 0 ? " elements = { " : ", ") + members[i];
  return text + (members.empty() ? " }\n" : " } }\n");
}

}  // namespace

bool is_network(const std::string& text) {
  const auto slash = text.find('/');
  int length = 32;
  if (slash != std::string::npos) {
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + slash + 1, end, length);
    if (read.ec != std::errc() || read.ptr != end || length < 0 || length > 32) return false;
  }
  in_addr address{};
  return ::inet_pton(AF_INET, text.substr(0, slash).c_str(), &address) == 1 &&
         (ntohl(address.s_addr) & ~mask_of(length)) == 0;
}

OwnAddresses own_addresses() {
  OwnAddresses own;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return own;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, ::freeifaddrs);
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    const std::uint32_t address = address_of(entry->ifa_addr);
    own.addresses.push_back(dotted(address));
    if (entry->ifa_netmask == nullptr) continue;
    const int length = std::popcount(address_of(entry->ifa_netmask));
    own.networks.push_back(dotted(address & mask_of(length)) + "/" + std::to_string(length));
  }
  return own;
}

std::string network_filter(const OwnAddresses& own, const std::vector<std::string>& allowed) {
  std::vector<std::string> closed(kNotPublic.begin(), kNotPublic.end());
  closed.insert(closed.end(), own.networks.begin(), own.networks.end());
  const auto noted = [](const std::string& set) {
    return " meta l4proto { tcp, udp } add @" + set + " { ip daddr . meta l4proto . th dport }\n";
  };
  const auto open = [&](const std::string& which) { return which + noted(kPeersSet) + which + " accept\n"; };
  const auto shut = [&](const std::string& which) {
    return which + noted(kRefusedSet) + which + " reject with icmp type admin-prohibited\n";
  };
  const auto note_set = [](const std::string& name) {
    return "  set " + name + " { type ipv4_addr . inet_proto . inet_service; flags dynamic; size " +
           std::to_string(kPeersNoted) + "; }\n";
  };
  const std::string name_server = std::string("    ip daddr ") + kNameServerInside;
  return "table inet tranche {\n" + named_set("own", own.addresses) + named_set("allowed", allowed) +
         named_set("closed", closed) + note_set(kPeersSet) + note_set(kRefusedSet) +
         "  chain out {\n    type filter hook output priority 0; policy drop;\n"
         "    oifname \"lo\" accept\n" +
         name_server + " udp dport 53 accept\n" + name_server + " tcp dport 53 accept\n" +
         // The name server may be the node's own loopback: beyond its port nothing there is for jobs.
         shut(name_server) + shut("    ip daddr @own") + open("    ip daddr @allowed") +
         shut("    ip daddr @closed") + open("    meta nfproto ipv4") + "  }\n}\n";
}

// "203.0.113.7 . 6 . 443", between commas: as nft lists the elements of such a set.
std::vector<std::string> peers_in(const std::string& listing, const std::string& before) {
  std::vector<std::string> peers;
  std::istringstream words(listing.substr(std::min(listing.size(), listing.find("elements"))));
  std::string address, dot, kind, port;
  for (std::string word; words >> word;) {
    if (word.find_first_not_of("0123456789.") != std::string::npos || word == "." ||
        !(words >> dot >> kind) || dot != "." || !(words >> dot >> port) || dot != ".")
      continue;
    while (!port.empty() && (port.back() == ',' || port.back() == '}')) port.pop_back();
    peers.push_back(before + (kind == "6" || kind == "tcp" ? "tcp " : "udp ") + word + ":" + port);
  }
  return peers;
}

}  // namespace tranche::agent
