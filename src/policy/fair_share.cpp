// SPDX-License-Identifier: Apache-2.0
#include "policy/fair_share.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/money.hpp"

namespace tranche::policy {
namespace {

constexpr std::uint64_t kOneQ32 = std::uint64_t{1} << 32;
constexpr Int128 kLog2OfE_e9 = 1'442'695'041;  // 1 / ln 2, in billionths.

// 2^-x for x in [0, 1) in units of 2^-32: repeated square roots of one half, one for each bit of x.
constexpr std::uint64_t kRootsOfHalf[] = {
    3037000500,
    3611622603,
    3938502376,
    4112874773,
    4202935003,
    4248701965,
    4271771996,
    4283353945,
    4289156690,
    4292061010,
    4293513907,
    4294240540,
    4294603903,
    4294785595,
    4294876445,
    4294921870,
};

}  // namespace

std::uint64_t fade_q32(Seconds elapsed, Seconds half_life) {
  if (elapsed <= 0) return kOneQ32;
  const Seconds whole = elapsed / half_life;
  if (whole >= 32) return 0;
  std::uint64_t factor = kOneQ32;
  Seconds rest = elapsed % half_life;
  for (const std::uint64_t root : kRootsOfHalf) {
    rest *= 2;
    if (rest >= half_life) {
      rest -= half_life;
      factor = static_cast<std::uint64_t>((static_cast<Int128>(factor) * static_cast<Int128>(root)) >> 32);
    }
  }
  return factor >> whole;
}

std::int64_t FadingUse::at(Seconds now, Seconds half_life) const {
  const std::uint64_t factor = fade_q32(now - since_, half_life);
  const Int128 faded = (static_cast<Int128>(amount_) * static_cast<Int128>(factor)) >> 32;
  // The integral of a constant rate that fades: rate * half_life / ln 2 * (1 - factor).
  const Int128 grown = (static_cast<Int128>(rate_) * half_life * static_cast<Int128>(kOneQ32 - factor) /
                        1'000'000'000 * kLog2OfE_e9) >>
                       32;
  return static_cast<std::int64_t>(faded + grown);
}

void FadingUse::set_rate(std::int64_t rate, Seconds now, Seconds half_life) {
  amount_ = at(now, half_life);
  since_ = now;
  rate_ = rate;
}

void FadingUse::charge(std::int64_t amount, Seconds now, Seconds half_life) {
  amount_ = at(now, half_life) + amount;
  since_ = now;
}

FairShareTree::FairShareTree(Seconds half_life) : half_life_(half_life), nodes_(1) {
  TRANCHE_CHECK(half_life > 0);
}

ShareNode FairShareTree::add(ShareNode parent, std::int64_t shares) {
  const auto number = static_cast<ShareNode>(nodes_.size());
  nodes_.push_back({parent, std::max<std::int64_t>(shares, 1), {}, {}});
  nodes_[static_cast<std::size_t>(parent)].children.push_back(number);
  return number;
}

void FairShareTree::change_rate(ShareNode leaf, std::int64_t by, Seconds now) {
  for (ShareNode node = leaf; node != kRoot; node = nodes_[static_cast<std::size_t>(node)].parent) {
    FadingUse& use = nodes_[static_cast<std::size_t>(node)].use;
    use.set_rate(use.rate() + by, now, half_life_);
  }
}

void FairShareTree::charge(ShareNode leaf, std::int64_t amount, Seconds now) {
  for (ShareNode node = leaf; node != kRoot; node = nodes_[static_cast<std::size_t>(node)].parent) {
    nodes_[static_cast<std::size_t>(node)].use.charge(amount, now, half_life_);
  }
}

std::int64_t FairShareTree::use(ShareNode node, Seconds now) const {
  return nodes_[static_cast<std::size_t>(node)].use.at(now, half_life_);
}

void FairShareTree::rank_below(ShareNode node,
                               const std::vector<std::int64_t>& uses,
                               std::int32_t& next,
                               std::vector<std::int32_t>& ranks) const {
  std::vector<ShareNode> children = nodes_[static_cast<std::size_t>(node)].children;
  if (children.empty()) {
    if (node != kRoot) ranks[static_cast<std::size_t>(node)] = next++;
    return;
  }
  std::sort(children.begin(), children.end(), [&](ShareNode a, ShareNode b) {
    const Int128 left =
        static_cast<Int128>(uses[static_cast<std::size_t>(a)]) * nodes_[static_cast<std::size_t>(b)].shares;
    const Int128 right =
        static_cast<Int128>(uses[static_cast<std::size_t>(b)]) * nodes_[static_cast<std::size_t>(a)].shares;
    return left != right ? left < right : a < b;
  });
  for (const ShareNode child : children) rank_below(child, uses, next, ranks);
}

std::vector<std::int32_t> FairShareTree::ranks(Seconds now) const {
  std::vector<std::int64_t> uses(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) uses[i] = nodes_[i].use.at(now, half_life_);
  std::vector<std::int32_t> ranks(nodes_.size(), -1);
  std::int32_t next = 0;
  rank_below(kRoot, uses, next, ranks);
  return ranks;
}

}  // namespace tranche::policy
