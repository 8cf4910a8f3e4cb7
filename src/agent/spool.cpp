// SPDX-License-Identifier: Apache-2.0
#include "agent/spool.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>

#include "agent/files.hpp"

namespace tranche::agent {
namespace {

constexpr std::uint64_t kRewriteAt = 1024 * 1024;

// One record: mark, kind, length, number, body, check. Little-endian, as the machine has it: the file never
// leaves it.
struct Head {
  char mark = 0;  // M message, A acknowledged, R received, L last sequence
  std::uint8_t kind = 0;
  std::uint16_t check = 0;  // Of everything else: tells a torn end from a record.
  std::uint32_t length = 0;
  std::uint64_t number = 0;
};
static_assert(sizeof(Head) == 16);

std::uint16_t check_of(Head head, std::string_view body) {
  head.check = 0;
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  const auto mix = [&hash](std::string_view bytes) {
    for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3ULL;
  };
  mix({reinterpret_cast<const char*>(&head), sizeof head});
  mix(body);
  return static_cast<std::uint16_t>(hash ^ (hash >> 16U) ^ (hash >> 32U) ^ (hash >> 48U));
}

std::string record(char mark, std::uint64_t number, std::uint8_t kind, std::string_view body) {
  Head head{.mark = mark, .kind = kind, .length = static_cast<std::uint32_t>(body.size()), .number = number};
  head.check = check_of(head, body);
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  return bytes.append(body);
}

}  // namespace

Spool::Spool(std::filesystem::path file) : path_(std::move(file)) {
  load();
  rewrite();
}

void Spool::load() {
  const std::string content = read_whole(path_).value_or("");
  for (std::size_t at = 0; at + sizeof(Head) <= content.size();) {
    Head head;
    std::memcpy(&head, content.data() + at, sizeof head);
    if (content.size() - at - sizeof head < head.length) return;
    std::string body = content.substr(at + sizeof head, head.length);
    if (check_of(head, body) != head.check) return;
    at += sizeof head + head.length;
    if (head.mark == 'M') {
      waiting_.push_back({head.number, static_cast<wire::AgentMessageKind>(head.kind), std::move(body)});
      last_ = std::max(last_, head.number);
    } else if (head.mark == 'A') {
      acknowledged_ = std::max(acknowledged_, head.number);
    } else if (head.mark == 'R') {
      received_ = std::max(received_, head.number);
    } else if (head.mark == 'L') {
      last_ = std::max(last_, head.number);
    }
  }
}

void Spool::rewrite() {
  std::string content =
      record('L', last_, 0, {}) + record('A', acknowledged_, 0, {}) + record('R', received_, 0, {});
  std::erase_if(waiting_, [this](const Entry& entry) { return entry.sequence <= acknowledged_; });
  for (const Entry& entry : waiting_)
    content += record('M', entry.sequence, static_cast<std::uint8_t>(entry.kind), entry.body);
  write_whole(path_, content, 0600);
  file_.reset(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!file_.open()) throw std::runtime_error("cannot open " + path_.string() + ": " + std::strerror(errno));
  bytes_ = content.size();
  unsynced_ = true;
}

void Spool::append(char mark, std::uint64_t number, std::uint8_t kind, std::string_view body) {
  const std::string bytes = record(mark, number, kind, body);
  if (::write(file_.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    throw std::runtime_error("cannot write " + path_.string() + ": " + std::strerror(errno));
  bytes_ += bytes.size();
  unsynced_ = true;
}

std::uint64_t Spool::add(wire::AgentMessageKind kind, std::string body) {
  ++last_;
  append('M', last_, static_cast<std::uint8_t>(kind), body);
  waiting_.push_back({last_, kind, std::move(body)});
  return last_;
}

void Spool::acknowledge(std::uint64_t sequence) {
  sequence = std::min(sequence, last_);
  if (sequence <= acknowledged_) return;
  acknowledged_ = sequence;
  while (!waiting_.empty() && waiting_.front().sequence <= sequence) waiting_.pop_front();
  if (bytes_ > kRewriteAt && waiting_.size() < 64) return rewrite();
  append('A', sequence, 0, {});
}

void Spool::skip_past(std::uint64_t sequence) {
  if (sequence <= last_) return;
  last_ = sequence;
  append('L', last_, 0, {});
}

void Spool::received(std::uint64_t server_sequence) {
  if (server_sequence <= received_) return;
  received_ = server_sequence;
  append('R', server_sequence, 0, {});
}

void Spool::sync() {
  if (!unsynced_) return;
  ::fdatasync(file_.get());
  unsynced_ = false;
}

}  // namespace tranche::agent
