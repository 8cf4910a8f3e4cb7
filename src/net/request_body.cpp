// SPDX-License-Identifier: Apache-2.0
#include "net/request_body.hpp"

namespace tranche::net {
namespace {

constexpr std::size_t kArrivedMost = 256 * 1024;

}  // namespace

std::string RequestBody::take() {
  std::string piece = std::exchange(arrived_, {});
  if (!piece.empty() && resume_) resume_();
  return piece;
}

void RequestBody::want(std::function<void()> told) {
  told_ = std::move(told);
  const bool is_first = !std::exchange(wanted_, true);
  if (is_first && resume_) resume_();  // Now it is worth sending.
}

void RequestBody::add(std::string piece) {
  if (piece.empty() || state_ != State::kOpen) return;
  arrived_.append(piece);
  tell();
}

void RequestBody::end(State state) {
  if (state_ != State::kOpen) return;
  state_ = state;
  resume_ = nullptr;
  tell();
}

bool RequestBody::is_full() const {
  return arrived_.size() >= kArrivedMost;
}

// What is told may let go of itself, and of this.
void RequestBody::tell() {
  if (const auto told = told_) told();
}

}  // namespace tranche::net
