// SPDX-License-Identifier: Apache-2.0
// Against a driver made of functions: what it counts, what it says that it does not, and what it does not
// say.
#include "gpu/nvml_counters.hpp"

#include <doctest/doctest.h>
#include <limits>

using namespace tranche;
using namespace tranche::gpu::nvml;

namespace {

constexpr int kNotSupported = 3;
int samples_there = 0;

// Multiprocessors 81.25 %, memory 40 %; of tensor cores what `tensor_value` and `tensor_result` say.
double tensor_value = 0;
int tensor_result = 0;

int fill(Counters* asked) {
  for (unsigned i = 0; i < asked->count; ++i) {
    Counter& counter = asked->counters[i];
    counter.result = 0;
    if (counter.id == 2) counter.value = 81.25;
    if (counter.id == 10) counter.value = 40;
    if (counter.id == 5) {
      counter.value = tensor_value;
      counter.result = tensor_result;
    }
  }
  return 0;
}

Api driver() {
  Api api;
  api.counter_support = [](Device, CounterSupport* support) {
    support->supported = 1;
    return 0;
  };
  api.counter_allocate = [](CounterSample* sample) {
    *sample = new int(++samples_there);
    return 0;
  };
  api.counter_free = [](CounterSample sample) {
    delete static_cast<int*>(sample);
    --samples_there;
    return 0;
  };
  api.counter_sample = [](Device, CounterSample) { return 0; };
  api.counters = fill;
  return api;
}

wire::DeviceSample second_reading(double value, int result) {
  tensor_value = value;
  tensor_result = result;
  const Api api = driver();
  ActivityCounters counters(api);
  int device = 0;
  wire::DeviceSample first, second;
  counters.read(&device, first);
  CHECK_FALSE(first.sm_active_milli);  // Nothing lies between one reading and itself.
  CHECK_FALSE(first.tensor_active_milli);
  counters.read(&device, second);
  return second;
}

}  // namespace

TEST_CASE("activity counters: multiprocessors, tensor cores and memory, each as a share of the time") {
  const wire::DeviceSample sample = second_reading(12.5, 0);
  CHECK(sample.sm_active_milli == 813);
  CHECK(sample.tensor_active_milli == 125);
  CHECK(sample.dram_active_milli == 400);
  CHECK(second_reading(0, 0).tensor_active_milli == 0);  // Idle is known.
  CHECK(samples_there == 0);
}

TEST_CASE("activity counters: what the device does not count is absent, and not zero") {
  CHECK_FALSE(second_reading(12.5, kNotSupported).tensor_active_milli);
  CHECK_FALSE(second_reading(std::numeric_limits<double>::quiet_NaN(), 0).tensor_active_milli);
  CHECK(second_reading(12.5, kNotSupported).dram_active_milli == 400);
}

TEST_CASE("activity counters: a driver without counters gives none") {
  for (const bool present : {false, true}) {
    Api api = driver();
    if (present) {
      api.counter_support = [](Device, CounterSupport* support) {
        support->supported = 0;
        return 0;
      };
    } else {
      api.counters = nullptr;
    }
    ActivityCounters counters(api);
    int device = 0;
    wire::DeviceSample sample;
    for (int i = 0; i < 3; ++i) counters.read(&device, sample);
    CHECK_FALSE(sample.sm_active_milli);
    CHECK_FALSE(sample.tensor_active_milli);
  }
  CHECK(samples_there == 0);
}
