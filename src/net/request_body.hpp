// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rest of a request's body, handed on while it arrives: the client is read no faster than somebody takes
// it. On the thread of the request's connection only.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace tranche::net {

class RequestBody {
 public:
  enum class State { kOpen, kWhole, kBroken };  // kBroken: the client left, or took too long.

  explicit RequestBody(std::optional<std::uint64_t> length) : length_(length) {}

  // Whoever passes it on:
  [[nodiscard]] std::optional<std::uint64_t> length() const { return length_; }  // Of the whole body.
  [[nodiscard]] State state() const { return state_; }
  std::string take();  // What has arrived since.
  // Called each time that there may be something to take, or the state is another.
  void want(std::function<void()> told);
  void forget_wish() { told_ = nullptr; }

  // The connection:
  void add(std::string piece);
  void end(State state);
  [[nodiscard]] bool is_full() const;
  [[nodiscard]] bool is_wanted() const { return wanted_; }
  void on_room(std::function<void()> resume) { resume_ = std::move(resume); }

 private:
  void tell();

  const std::optional<std::uint64_t> length_;
  State state_ = State::kOpen;
  bool wanted_ = false;
  std::string arrived_;
  std::function<void()> told_, resume_;
};

}  // namespace tranche::net
