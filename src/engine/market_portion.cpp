// SPDX-License-Identifier: Apache-2.0
#include "engine/market_portion.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "wire/text_form.hpp"

namespace tranche::engine {
namespace {

// 0.5 of a device, as people write it.
std::string share_text(std::uint32_t quantity) {
  std::string digits = std::to_string(kWholePortion + quantity).substr(1);
  while (!digits.empty() && digits.back() == '0') digits.pop_back();
  return "0." + digits;
}

const policy::PartitionProfile* profile_on(const State& state, const Portion& portion) {
  const Capacity& capacity = *state.index.capacity;
  const wire::Ask ask{.instances = 1, .model = portion.device.facts.model, .profile = portion.shape};
  const auto shape = capacity.shape_of(ask, kSharingGroup);
  if (!shape) return nullptr;
  const policy::NodeSpec& spec = capacity.fleet().spec(capacity.group_of(portion.device.id));
  return capacity.fleet().geometry(spec).find(shape->profile);
}

}  // namespace

std::string portion_text(std::uint64_t milli) {
  std::string out = std::to_string(milli / kWholePortion);
  std::string part = std::to_string(kWholePortion + milli % kWholePortion).substr(1);
  part.erase(part.find_last_not_of('0') + 1);
  return part.empty() ? out : out + "." + part;
}

std::string price_text(std::int64_t price) {
  return text(Money{price * kPriceStep}) + "/h";
}

Slice slice_of(const State& state, const Portion& portion) {
  const std::int64_t vram = portion.device.facts.vram.count;
  if (portion.shape.empty()) {
    return {.device = portion.device.id,
            .milli = static_cast<std::uint16_t>(portion.quantity),
            .vram = portion.quantity >= kWholePortion ? vram : vram / kWholePortion * portion.quantity};
  }
  const policy::PartitionProfile* profile = profile_on(state, portion);
  if (profile == nullptr) return {.device = portion.device.id};
  return {.device = portion.device.id,
          .milli = static_cast<std::uint16_t>(profile->milli),
          .vram = profile->vram,
          .start = portion.start};
}

wire::Ask ask_of(const State& state, const Portion& portion) {
  const Slice slice = slice_of(state, portion);
  const std::string& model = portion.device.facts.model;
  const bool whole = portion.quantity >= kWholePortion;
  return {.isolation = portion.isolation,
          .instances = 1,
          .milli_each = slice.milli,
          .vram_each = slice.vram,
          .model = model,
          .gpus = !portion.shape.empty() ? model + ":" + portion.shape
                  : whole                ? model
                                         : model + ":" + share_text(portion.quantity),
          .profile = portion.shape,
          .simulated = portion.device.facts.simulated};
}

std::vector<CalendarClaim> unsold_partitions(const State& state,
                                             const Device& device,
                                             const Piece& piece,
                                             const std::vector<CalendarClaim>& sold) {
  const Instrument& traded = state.market.instruments[piece.book - 1].instrument;
  const Portion portion{device, piece.quantity, traded.isolation, traded.shape, piece.start};
  const DeviceUse use = use_of(device, ask_of(state, portion), kSharingGroup, slice_of(state, portion));
  std::vector<bool> open(piece.slots);
  for (std::uint32_t i = 0; i < piece.slots; ++i) open[i] = piece.promised[i] > 0;
  for (const CalendarClaim& claim : sold) {
    if (claim.use.mode != UseMode::kPartition || (claim.use.slots & use.slots) == 0) continue;
    const std::int64_t first = std::max(slot_of(claim.from) - piece.first_slot, std::int64_t{0});
    const std::int64_t end = std::min(slot_of(claim.to) - piece.first_slot, std::int64_t{piece.slots});
    for (std::int64_t i = first; i < end; ++i) open[static_cast<std::size_t>(i)] = false;
  }
  std::vector<CalendarClaim> unsold;
  for (std::uint32_t i = 0; i < piece.slots; ++i) {
    if (!open[i]) continue;
    const Instant from = start_of(piece.first_slot + i);
    if (unsold.empty() || unsold.back().to != from) unsold.push_back({.from = from, .use = use});
    unsold.back().to = from + kSlot;
  }
  return unsold;
}

}  // namespace tranche::engine
