// SPDX-License-Identifier: Apache-2.0
#include "gpu/nvml_counters.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

namespace tranche::gpu::nvml {
namespace {

// What the driver does not tell stays absent; between two samples of the same moment it tells no number.
void take(std::optional<std::uint16_t>& milli, const Counter& counter) {
  if (counter.result != 0 || !std::isfinite(counter.value)) return;
  milli = static_cast<std::uint16_t>(std::clamp(counter.value, 0.0, 100.0) * 10 + 0.5);
}

}  // namespace

ActivityCounters::~ActivityCounters() {
  for (auto& [device, samples] : devices_)
    for (CounterSample* sample : {&samples.before, &samples.after})
      if (*sample != nullptr) api_.counter_free(*sample);
}

ActivityCounters::Samples& ActivityCounters::samples_of(Device device) {
  const auto [at, fresh] = devices_.try_emplace(device);
  Samples& samples = at->second;
  const bool whole = api_.counter_support != nullptr && api_.counter_sample != nullptr &&
                     api_.counter_allocate != nullptr && api_.counter_free != nullptr &&
                     api_.counters != nullptr;
  if (!fresh || !whole) return samples;
  CounterSupport support{.version = 1, .supported = 0};
  samples.supported = api_.counter_support(device, &support) == 0 && support.supported != 0 &&
                      api_.counter_allocate(&samples.before) == 0 &&
                      api_.counter_allocate(&samples.after) == 0;
  return samples;
}

void ActivityCounters::read(Device device, wire::DeviceSample& sample) {
  Samples& samples = samples_of(device);
  if (!samples.supported || api_.counter_sample(device, samples.after) != 0) return;
  if (samples.begun) {
    const auto asked = std::make_unique<Counters>();
    asked->version = 1;
    asked->count = 3;
    asked->before = samples.before;
    asked->after = samples.after;
    asked->counters[0].id = kCounterSm;
    asked->counters[1].id = kCounterDram;
    asked->counters[2].id = kCounterTensor;
    if (api_.counters(asked.get()) == 0) {
      take(sample.sm_active_milli, asked->counters[0]);
      take(sample.dram_active_milli, asked->counters[1]);
      take(sample.tensor_active_milli, asked->counters[2]);
    }
  }
  std::swap(samples.before, samples.after);
  samples.begun = true;
}

}  // namespace tranche::gpu::nvml
