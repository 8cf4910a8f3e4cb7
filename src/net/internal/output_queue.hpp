// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bytes on their way out: small pieces share a buffer, a large body is queued as it is, without a copy.
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <sys/uio.h>
#include <vector>

namespace tranche::net {

class OutputQueue {
 public:
  static constexpr std::size_t kPieces = 8;

  // A buffer to append to.
  std::string& tail() {
    if (pieces_.empty() || pieces_.back().size() >= kSmall) pieces_.emplace_back();
    return pieces_.back();
  }
  void push(std::string piece) {
    if (piece.size() < kSmall) {
      tail() += piece;
    } else {
      pieces_.push_back(std::move(piece));
    }
  }

  [[nodiscard]] bool empty() const {
    return pieces_.empty() || (pieces_.size() == 1 && pieces_[0].size() == sent_);
  }

  [[nodiscard]] std::size_t size() const {
    std::size_t total = 0;
    for (const std::string& piece : pieces_) total += piece.size();
    return total - sent_;
  }

  std::span<const iovec> front(std::array<iovec, kPieces>& into) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < pieces_.size() && count < kPieces; ++i) {
      const std::size_t skip = i == 0 ? sent_ : 0;
      into[count++] = {pieces_[i].data() + skip, pieces_[i].size() - skip};
    }
    return {into.data(), count};
  }

  void consume(std::size_t bytes) {
    sent_ += bytes;
    std::size_t done = 0;
    while (done < pieces_.size() && sent_ >= pieces_[done].size()) {
      if (pieces_.size() - done == 1 && pieces_[done].capacity() <= kSmall)
        break;  // Kept for the next answer.
      sent_ -= pieces_[done++].size();
    }
    pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(done));
    if (pieces_.size() == 1 && sent_ == pieces_[0].size()) {
      pieces_[0].clear();
      sent_ = 0;
    }
  }

  // Gives memory back while nothing is on its way.
  void release() {
    if (empty()) {
      pieces_ = {};
      sent_ = 0;
    }
  }

 private:
  static constexpr std::size_t kSmall = 16 * 1024;
  std::vector<std::string> pieces_;
  std::size_t sent_ = 0;  // Of the first piece.
};

}  // namespace tranche::net
