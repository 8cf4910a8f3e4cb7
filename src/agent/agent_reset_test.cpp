// SPDX-License-Identifier: Apache-2.0
// A reset on a living agent: behind what is being wiped on the device, and with nothing of ours open there.
#include <atomic>
#include <doctest/doctest.h>
#include <future>
#include <mutex>

#include "agent/opencl_scrubber.hpp"
#include "agent/test_node.hpp"
#include "gpu/opencl_api.hpp"
#include "gpu/unpartitioned_port.hpp"

namespace tranche::agent {
namespace {

using wire::DeviceTask;

// What happened on the device, in order.
struct Story {
  std::mutex mutex{};
  std::vector<std::string> words{};
  void add(const std::string& word) {
    const std::lock_guard lock(mutex);
    words.push_back(word);
  }
};

class TellingDevice final : public gpu::UnpartitionedPort {
 public:
  explicit TellingDevice(Story& story) : story_(story) {}
  [[nodiscard]] std::string name() const override { return "test"; }
  [[nodiscard]] std::vector<wire::DeviceFacts> discover() override {
    return {{.uuid = "GPU-test", .name = "a device that tells", .vram = gibibytes(4)}};
  }
  [[nodiscard]] std::vector<wire::DeviceSample> sample() override { return {}; }
  Result<void, std::string> reset(const std::string&) override {
    story_.add("reset");
    return {};
  }

 private:
  Story& story_;
};

// Keeps the device open from its first wipe on.
class KeepingScrubber final : public Scrubber {
 public:
  KeepingScrubber(Story& story, std::shared_future<void> go, std::atomic<bool>& begun)
      : story_(story), go_(std::move(go)), begun_(begun) {}
  void scrub(const wire::DeviceFacts&, Bytes slice, wire::ScrubReceipt& receipt) override {
    begun_ = true;
    go_.wait();
    receipt.zeroed = receipt.verified = slice;
    receipt.method = "test";
    story_.add("wiped");
  }
  void release(const std::string& uuid) override { story_.add("released " + uuid); }

 private:
  Story& story_;
  std::shared_future<void> go_;
  std::atomic<bool>& begun_;
};

wire::DeviceOrder order(std::uint64_t number, DeviceTask task) {
  return {.order = number, .device = {3}, .uuid = "GPU-test", .task = task, .lease = {1}};
}

TEST_CASE("agent: a device is reset behind its wipe, and nothing is held open there") {
  Story story;
  std::promise<void> go;
  std::atomic<bool> begun = false;
  Node node;
  node.port = [&] { return std::make_unique<TellingDevice>(story); };
  node.scrubber = [&, future = go.get_future().share()] {
    return std::make_unique<KeepingScrubber>(story, future, begun);
  };
  node.start();
  node.server.send(order(1, DeviceTask::kWipe));
  while (!begun) std::this_thread::yield();
  node.server.send(order(2, DeviceTask::kReset));
  wire::DeviceOrder elsewhere = order(3, DeviceTask::kTest);
  elsewhere.uuid = "GPU-none";  // Answered at once: the order before it has come as well.
  node.server.send(elsewhere);
  node.server.wait_for<wire::Receipts>([](const wire::Receipts& receipts) {
    return !receipts.outcomes.empty() && receipts.outcomes.front().order == 3;
  });
  go.set_value();
  const auto answer = node.server.wait_for<wire::Receipts>([](const wire::Receipts& receipts) {
    return !receipts.outcomes.empty() && receipts.outcomes.front().order == 2;
  });
  CHECK(answer.outcomes.front().done);
  const std::lock_guard lock(story.mutex);
  CHECK(story.words == std::vector<std::string>{"wiped", "released GPU-test", "reset"});
}

TEST_CASE("agent: a device that was released is opened anew, and wiped as before") {
  const auto devices = gpu::opencl_devices();
  if (devices.empty()) return;
  const wire::DeviceFacts& device = devices.front().facts;
  OpenClScrubber scrubber;
  for (int i = 0; i < 2; ++i) {
    wire::ScrubReceipt receipt;
    scrubber.scrub(device, Bytes{1 << 20}, receipt);
    CHECK(wire::is_clean(receipt));
    CHECK(scrubber.open_devices() == 1);
    scrubber.release(device.uuid);
    CHECK(scrubber.open_devices() == 0);
  }
  wire::ScrubReceipt last;
  scrubber.scrub(device, Bytes{1 << 20}, last);
  REQUIRE(scrubber.open_devices() == 1);
  scrubber.stop();  // What it is at fails from now on, as after a fault of the device.
  wire::ScrubReceipt broken;
  scrubber.scrub(device, Bytes{1 << 20}, broken);
  CHECK_FALSE(wire::is_clean(broken));
  CHECK(scrubber.open_devices() == 0);
}

}  // namespace
}  // namespace tranche::agent
