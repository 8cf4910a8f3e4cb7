// SPDX-License-Identifier: Apache-2.0
#pragma once
// A network of one job's own with a way out and no way sideways. slirp4netns carries the job's packets out of
// its namespace as ordinary connections of the node, so nothing of the node's own network or firewall is
// changed. A filter inside the namespace, which the job has no right to touch, keeps it from the node itself,
// from the networks the node is on, and from private addresses, where other nodes and their services live.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "agent/descriptor.hpp"

namespace tranche::agent {

struct GangPlace;

struct NetworkTools {
  std::string slirp{}, nft{}, nsenter{};
  std::string missing{};  // Why there are no such networks here, in a sentence; empty: there are.
};
[[nodiscard]] NetworkTools find_network_tools();

// "10.1.0.0/16" with no bits beyond its length; a single address has 32.
[[nodiscard]] bool is_network(const std::string& text);

struct OwnAddresses {
  std::vector<std::string> addresses{};  // Of the node.
  std::vector<std::string> networks{};   // That the node is on.
};
[[nodiscard]] OwnAddresses own_addresses();
// The rules inside the job's namespace, as nft reads them. `allowed` are private networks that it may reach
// all the same; the node's own addresses never are.
[[nodiscard]] std::string network_filter(const OwnAddresses& own, const std::vector<std::string>& allowed);

// Whom the job spoke to, and whom it tried to and may not, are noted in sets of these names, up to so many.
inline constexpr const char* kPeersSet = "peers";
inline constexpr const char* kRefusedSet = "refused";
inline constexpr int kPeersNoted = 1024;
[[nodiscard]] std::vector<std::string> peers_in(const std::string& listing, const std::string& before);

inline constexpr const char* kNameServerInside = "10.0.2.3";  // Asks whom the node asks.

class JobNetwork {
 public:
  JobNetwork() = default;
  ~JobNetwork() { end(); }
  JobNetwork(const JobNetwork&) = delete;
  JobNetwork& operator=(const JobNetwork&) = delete;

  // For the network namespace of process `init`. Throws std::runtime_error. `enter_group`: so that carrying
  // packets counts as work of the job. Only in a process of one thread.
  void begin(const NetworkTools& tools,
             int init,
             const std::vector<std::string>& allowed,
             const std::function<bool()>& enter_group);
  // The same for a network that leads to the other members of a gang, and nowhere else.
  void begin_gang(int init, const GangPlace& place, const std::function<bool()>& enter_group);
  void end();
  [[nodiscard]] bool carried_by(int pid) const { return carrier_ > 0 && pid == carrier_; }
  void carrier_ended() { carrier_ = -1; }             // Somebody else waited for it.
  [[nodiscard]] std::uint64_t bytes_carried() const;  // In and out; zero when it cannot be told.
  // "tcp 203.0.113.7:443", "refused tcp 10.0.0.1:22": until end(), also when the job is gone.
  [[nodiscard]] std::vector<std::string> peers(const NetworkTools& tools) const;

 private:
  int carrier_ = -1;
  Descriptor lifeline_;  // The carrier ends when it closes, however that came about.
  Descriptor inside_;    // A socket of the job's namespace, to ask for its counters.
  Descriptor space_;     // The namespace itself; none: of a gang.
  const char* interface_ = "";
};

}  // namespace tranche::agent
