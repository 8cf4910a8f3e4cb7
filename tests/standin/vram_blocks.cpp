// SPDX-License-Identifier: Apache-2.0
// Which bytes of VRAM belong to whom? Two-level size classes, constant time; the used blocks alone are the
// truth, so that everything else can be rebuilt when a process dies in the middle of a change.
#include <algorithm>
#include <bit>
#include <vector>

#include "device_state.hpp"

namespace standin {
namespace {

unsigned class_of(std::uint64_t size) {
  const unsigned log = 63U - static_cast<unsigned>(std::countl_zero(size));
  return log * 8 + static_cast<unsigned>((size >> (log - 3)) & 7);
}

void list_free(DeviceState& device, std::uint32_t index) {
  Block& block = device.blocks[index];
  std::uint32_t& head = device.class_head[class_of(block.size)];
  block.free_previous = kNone;
  block.free_next = head;
  if (head != kNone) device.blocks[head].free_previous = index;
  head = index;
}

void unlist_free(DeviceState& device, std::uint32_t index) {
  const Block& block = device.blocks[index];
  if (block.free_previous == kNone) {
    device.class_head[class_of(block.size)] = block.free_next;
  } else {
    device.blocks[block.free_previous].free_next = block.free_next;
  }
  if (block.free_next != kNone) device.blocks[block.free_next].free_previous = block.free_previous;
}

std::uint32_t unused_block(DeviceState& device) {
  if (device.unused_head != kNone) {
    const std::uint32_t index = device.unused_head;
    device.unused_head = device.blocks[index].free_next;
    return index;
  }
  return device.blocks_touched < kBlocksMax ? device.blocks_touched++ : kNone;
}

void retire(DeviceState& device, std::uint32_t index) {
  device.blocks[index].state.store(BlockState::kUnused);
  device.blocks[index].free_next = device.unused_head;
  device.unused_head = index;
}

std::uint32_t find_free(const DeviceState& device, std::uint64_t size) {
  const unsigned own = class_of(size);
  for (std::uint32_t index = device.class_head[own]; index != kNone; index = device.blocks[index].free_next)
    if (device.blocks[index].size >= size) return index;
  for (unsigned larger = own + 1; larger < 64 * 8; ++larger)
    if (device.class_head[larger] != kNone) return device.class_head[larger];
  return kNone;
}

void split(DeviceState& device, std::uint32_t index, std::uint64_t size) {
  Block& block = device.blocks[index];
  if (block.size == size) return;
  const std::uint32_t rest = unused_block(device);
  if (rest == kNone) return;  // The table is full: the block stays larger than asked for.
  Block& tail = device.blocks[rest];
  tail.offset = block.offset + size;
  tail.size = block.size - size;
  tail.previous = index;
  tail.next = block.next;
  tail.holders = 0;
  tail.asked = 0;
  if (block.next != kNone) device.blocks[block.next].previous = rest;
  block.next = rest;
  block.size = size;
  tail.state.store(BlockState::kFree);
  list_free(device, rest);
}

void release(DeviceState& device, std::uint32_t index) {
  Block& block = device.blocks[index];
  block.state.store(BlockState::kFree);
  device.free_bytes += block.size;
  device.asked_bytes -= block.asked;
  block.asked = 0;
  if (const std::uint32_t after = block.next;
      after != kNone && device.blocks[after].state.load() == BlockState::kFree) {
    unlist_free(device, after);
    block.size += device.blocks[after].size;
    block.next = device.blocks[after].next;
    if (block.next != kNone) device.blocks[block.next].previous = index;
    retire(device, after);
  }
  if (const std::uint32_t before = block.previous;
      before != kNone && device.blocks[before].state.load() == BlockState::kFree) {
    unlist_free(device, before);
    device.blocks[before].size += block.size;
    device.blocks[before].next = block.next;
    if (block.next != kNone) device.blocks[block.next].previous = before;
    retire(device, index);
    index = before;
  }
  list_free(device, index);
}

// `replacement` takes the place of `index` in VRAM.
void stand_in_for(DeviceState& device, std::uint32_t index, std::uint32_t replacement) {
  const Block& from = device.blocks[index];
  Block& to = device.blocks[replacement];
  to.offset = from.offset;
  to.size = from.size;
  to.asked = from.asked;
  to.previous = from.previous;
  to.next = from.next;
  if (to.previous == kNone) {
    device.first_block = replacement;
  } else {
    device.blocks[to.previous].next = replacement;
  }
  if (to.next != kNone) device.blocks[to.next].previous = replacement;
}

// The dead may have been between letting go and counting it: whoever is named holds, and nobody else does.
void recount_holders(SharedState& state, unsigned number) {
  DeviceState& device = state.devices[number];
  for (std::uint32_t index = 0; index < device.blocks_touched; ++index)
    device.blocks[index].holders = device.blocks[index].owner == kNone ? 0 : 1;
  for (const Reference& reference : state.references)
    if (reference.used != 0 && reference.device == number) ++device.blocks[reference.block].holders;
  for (std::uint32_t index = 0; index < device.blocks_touched; ++index) {
    Block& block = device.blocks[index];
    if (block.state.load() == BlockState::kUsed && block.holders == 0) block.state.store(BlockState::kUnused);
  }
}

}  // namespace

void format_device(SharedState& state, unsigned number) {
  DeviceState& device = state.devices[number];
  std::fill(std::begin(device.class_head), std::end(device.class_head), kNone);
  device.unused_head = kNone;
  device.blocks_touched = 1;
  device.first_block = 0;
  device.free_bytes = state.config.vram_bytes;
  Block& all = device.blocks[0];
  all.offset = 0;
  all.size = state.config.vram_bytes;
  all.previous = all.next = kNone;
  all.state.store(BlockState::kFree);
  list_free(device, 0);
}

void rebuild_blocks(SharedState& state, unsigned number) {
  DeviceState& device = state.devices[number];
  recount_holders(state, number);
  std::vector<std::uint32_t> used;
  for (std::uint32_t index = 0; index < device.blocks_touched; ++index)
    if (device.blocks[index].state.load() == BlockState::kUsed) used.push_back(index);
  std::sort(used.begin(), used.end(), [&](std::uint32_t a, std::uint32_t b) {
    return device.blocks[a].offset < device.blocks[b].offset;
  });
  std::fill(std::begin(device.class_head), std::end(device.class_head), kNone);
  device.unused_head = kNone;
  for (std::uint32_t index = 0; index < device.blocks_touched; ++index)
    if (device.blocks[index].state.load() != BlockState::kUsed &&
        device.blocks[index].state.load() != BlockState::kAway)
      retire(device, index);
  device.free_bytes = 0;
  device.first_block = kNone;
  std::uint32_t previous = kNone;
  std::uint64_t position = 0;
  const auto append = [&](std::uint32_t index) {
    device.blocks[index].previous = previous;
    device.blocks[index].next = kNone;
    (previous == kNone ? device.first_block : device.blocks[previous].next) = index;
    previous = index;
  };
  const auto fill_until = [&](std::uint64_t offset) {
    if (offset == position) return;
    const std::uint32_t index = unused_block(device);
    if (index == kNone) return;
    device.blocks[index].offset = position;
    device.blocks[index].size = offset - position;
    device.blocks[index].state.store(BlockState::kFree);
    device.free_bytes += offset - position;
    append(index);
    list_free(device, index);
  };
  for (const std::uint32_t index : used) {
    fill_until(device.blocks[index].offset);
    append(index);
    position = device.blocks[index].offset + device.blocks[index].size;
  }
  fill_until(state.config.vram_bytes);
  device.asked_bytes = 0;
  for (const std::uint32_t index : used) device.asked_bytes += device.blocks[index].asked;
  for (std::uint32_t slot = 0; slot < kSlotsMax; ++slot) {
    if (state.slots[slot].used.load() == 0) continue;
    std::uint64_t held = 0;
    for (const std::uint32_t index : used)
      if (device.blocks[index].owner == slot) held += device.blocks[index].size;
    state.slots[slot].vram_bytes[number].store(held);
  }
}

std::uint32_t take_block(SharedState& state, unsigned number, std::uint64_t bytes, std::uint32_t slot) {
  DeviceState& device = state.devices[number];
  if (bytes == 0 || bytes > state.config.vram_bytes) return kNone;
  const std::uint64_t size = (bytes + kBlockAlign - 1) / kBlockAlign * kBlockAlign;
  std::uint32_t index = find_free(device, size);
  if (index == kNone) {
    reclaim_dead(state);
    index = find_free(device, size);
    if (index == kNone) return kNone;
  }
  unlist_free(device, index);
  split(device, index, size);
  Block& block = device.blocks[index];
  block.owner = slot;
  block.holders = 1;
  ++block.generation;
  block.state.store(BlockState::kUsed);
  device.free_bytes -= block.size;
  block.asked = bytes;
  device.asked_bytes += bytes;
  if (device.asked_bytes > device.asked_most) {
    reclaim_dead(state);  // A device takes the memory of the dead back at once.
    device.asked_most = std::max(device.asked_most, device.asked_bytes);
  }
  state.slots[slot].vram_bytes[number].fetch_add(block.size);
  return index;
}

void hold_block(SharedState& state, unsigned number, std::uint32_t index, std::uint32_t slot) {
  for (Reference& reference : state.references) {
    if (reference.used != 0) continue;
    reference = {number, index, slot, 1};
    ++state.devices[number].blocks[index].holders;
    return;
  }
}

void drop_block(SharedState& state, unsigned number, std::uint32_t index, std::uint32_t slot) {
  Block& block = state.devices[number].blocks[index];
  if (block.owner == slot) {
    block.owner = kNone;
    state.slots[slot].vram_bytes[number].fetch_sub(block.size);
  } else {
    for (Reference& reference : state.references) {
      if (reference.used == 0 || reference.slot != slot || reference.device != number ||
          reference.block != index)
        continue;
      reference.used = 0;
      break;
    }
  }
  if (--block.holders == 0) release(state.devices[number], index);
}

bool park_block(SharedState& state, unsigned number, std::uint32_t index) {
  DeviceState& device = state.devices[number];
  const std::uint32_t hole = unused_block(device);
  if (hole == kNone) return false;
  Block& block = device.blocks[index];
  stand_in_for(device, index, hole);
  block.state.store(BlockState::kAway);
  state.slots[block.owner].vram_bytes[number].fetch_sub(block.size);
  release(device, hole);
  return true;
}

bool unpark_block(SharedState& state, unsigned number, std::uint32_t index) {
  DeviceState& device = state.devices[number];
  Block& block = device.blocks[index];
  const std::uint32_t found = take_block(state, number, block.asked, block.owner);
  if (found == kNone) return false;
  stand_in_for(device, found, index);
  block.state.store(BlockState::kUsed);
  retire(device, found);
  return true;
}

void reclaim_dead(SharedState& state) {
  for (std::uint32_t slot = 0; slot < kSlotsMax; ++slot) {
    if (state.slots[slot].used.load() == 0 || slot_alive(state, slot)) continue;
    for (const Reference& reference : state.references)
      if (reference.used != 0 && reference.slot == slot)
        drop_block(state, reference.device, reference.block, slot);
    for (unsigned number = 0; number < state.config.device_count; ++number) {
      DeviceState& device = state.devices[number];
      for (std::uint32_t index = 0; index < device.blocks_touched; ++index)
        if (device.blocks[index].state.load() == BlockState::kUsed && device.blocks[index].owner == slot)
          drop_block(state, number, index, slot);
      for (std::uint32_t index = 0; index < device.blocks_touched; ++index)
        if (device.blocks[index].state.load() == BlockState::kAway && device.blocks[index].owner == slot)
          retire(device, index);
    }
    state.slots[slot].used.store(0);
  }
}

}  // namespace standin
