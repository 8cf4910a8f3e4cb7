// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages that must reach the server: kept on disk from before the first sending until the server holds
// them for good, under sequences that go on across restarts. Whatever breaks, none is lost; because the
// server drops what it has, none counts twice.
#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>

#include "agent/descriptor.hpp"
#include "wire/agent_message.hpp"

namespace tranche::agent {

class Spool {
 public:
  struct Entry {
    std::uint64_t sequence = 0;
    wire::AgentMessageKind kind = wire::AgentMessageKind::kLeaseReport;
    std::string body{};
  };
  // Reads what an earlier agent left; a torn end is cut off. Throws std::runtime_error.
  explicit Spool(std::filesystem::path file);

  // The sequence it got. On disk (in the kernel's hands) when this returns.
  template <class Message>
  std::uint64_t add(const Message& message) {
    std::string body;
    wire::encode(body, message);
    return add(wire::kMessageKind<Message>, std::move(body));
  }
  void acknowledge(std::uint64_t sequence);  // The server holds everything up to it.
  // The server has taken in up to here: sequences start beyond, even if this disk forgot some of them.
  void skip_past(std::uint64_t sequence);
  void received(std::uint64_t server_sequence);  // Of the other direction, kept in the same place.
  void sync();                                   // To survive a power loss.

  [[nodiscard]] const std::deque<Entry>& waiting() const { return waiting_; }
  [[nodiscard]] std::uint64_t acknowledged() const { return acknowledged_; }
  [[nodiscard]] std::uint64_t received() const { return received_; }
  [[nodiscard]] std::uint64_t last() const { return last_; }

 private:
  std::uint64_t add(wire::AgentMessageKind kind, std::string body);
  void load();
  void append(char mark, std::uint64_t number, std::uint8_t kind, std::string_view body);
  void rewrite();

  std::filesystem::path path_;
  Descriptor file_;
  std::deque<Entry> waiting_;
  std::uint64_t last_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t bytes_ = 0;
  bool unsynced_ = false;
};

}  // namespace tranche::agent
