// SPDX-License-Identifier: Apache-2.0
#pragma once
// Commands beside a running job, for exec and cp: their pipes or terminal, between the link and the sandbox.
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <poll.h>
#include <string>
#include <vector>

#include "agent/descriptor.hpp"
#include "agent/host_time.hpp"
#include "agent/shim_messages.hpp"
#include "wire/agent_message.hpp"

namespace tranche::agent {

class Sessions {
 public:
  struct Out {
    std::function<void(const wire::SessionData&)> data{};
    std::function<void(const wire::SessionEnd&)> end{};
  };
  explicit Sessions(Out out) : out_(std::move(out)) {}

  // Asks the supervisor whose socket is in `folder`; `from` is any datagram socket.
  // A supervisor that has just begun may not be listening yet: it is tried until `patience` is over.
  void open(const wire::SessionOpen& wish, const std::string& folder, int from, BootTime patience);
  void try_again();
  [[nodiscard]] bool waits() const { return !early_.empty(); }
  void input(const wire::SessionData& data);
  void close(std::uint64_t session);  // The server's side is gone: hang up.
  void ended(const ShimNote& note);   // The command ended; its output is drained first.
  void add_sources(std::vector<pollfd>& sources) const;
  void serve(const pollfd& source);

 private:
  struct Session {
    LeaseId lease{};
    Descriptor input{}, output{}, errors{};  // With a terminal: one for all, in `output`.
    bool terminal = false;
    std::string unsent{};  // Input that the command has not taken yet.
    bool input_ended = false;
    bool over = false;
    wire::SessionEnd end{};
  };
  struct Early {  // An order that nobody may be listening for yet.
    ShimOrder order{};
    std::array<Descriptor, 4> ends{};  // The command's words and its three ends.
    std::string folder{};
    int from = -1;
    BootTime patience = 0;
  };
  void ask(Early early);
  void refuse(std::uint64_t session);
  void pump(std::uint64_t id, Session& session, Descriptor& from, wire::LogStream stream, bool all);
  void push(Session& session);
  void finish(std::uint64_t id);
  Out out_;
  std::map<std::uint64_t, Session> sessions_;
  std::vector<Early> early_;
};

}  // namespace tranche::agent
