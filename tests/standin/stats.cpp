// SPDX-License-Identifier: Apache-2.0
// standin_stats [SECONDS]: one JSON line about the simulated device: busy share over the window just passed
// (per process too), VRAM, and the number of every driver call so far. The agent sees less, through NVML.
#include <cstdio>
#include <cstdlib>

#include "device_state.hpp"

int main(int argc, char** argv) {
  using namespace standin;
  SharedState* state = attach_state();
  if (state == nullptr) return 1;
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
  const std::uint64_t until = now_ns();
  const auto window = static_cast<std::uint64_t>(seconds * 1e9);
  const std::uint64_t from = until - window;
  {
    const StateLock lock(*state);
    reclaim_dead(*state);
  }
  const auto share = [&](std::uint32_t slot) {
    return static_cast<double>(busy_between(*state, 0, slot, from, until)) / static_cast<double>(window);
  };
  std::printf("{\"busy\": %.5f, \"free\": %llu, \"asked_most\": %llu, \"processes\": [",
              share(kNone),
              static_cast<unsigned long long>(state->devices[0].free_bytes),
              static_cast<unsigned long long>(state->devices[0].asked_most));
  const char* separator = "";
  for (std::uint32_t index = 0; index < kSlotsMax; ++index) {
    const Slot& slot = state->slots[index];
    if (slot.attach_ns == 0) continue;
    std::printf(
        "%s{\"pid\": %d, \"name\": \"%s\", \"alive\": %s, \"busy\": %.5f, \"kernels\": %llu, \"vram\": %llu, "
        "\"calls\": {",
        separator,
        slot.pid.load(),
        slot.command,
        slot.used.load() != 0 ? "true" : "false",
        share(index),
        static_cast<unsigned long long>(slot.kernels[0].load()),
        static_cast<unsigned long long>(slot.vram_bytes[0].load()));
    separator = ", ";
    const char* comma = "";
    for (unsigned call = 0; call < kCallCount; ++call) {
      if (slot.calls[call].load() == 0) continue;
      std::printf("%s\"%s\": %llu",
                  comma,
                  kCallNames[call],
                  static_cast<unsigned long long>(slot.calls[call].load()));
      comma = ", ";
    }
    std::printf("}}");
  }
  std::printf("]}\n");
  return 0;
}
