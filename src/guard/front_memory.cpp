// SPDX-License-Identifier: Apache-2.0
// What a front calls for memory: reservations, views, refusals, and whether contents may be left behind.
#include <algorithm>
#include <cstdio>
#include <unistd.h>

#include "guard/front.hpp"
#include "guard/host_clock.hpp"
#include "guard/session.hpp"

namespace tranche::guard {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr int kBrokerAnswersWithinMs = 100;
std::atomic<std::uint64_t> last_refusal_at;  // NOLINT

}  // namespace

VramAnswer reserve(std::uint32_t device, std::uint64_t bytes) {
  if (device >= kDevicesMax || attach() != Attachment::kAttached) return {};
  LedgerRegion* ledger = ledger_region();
  const std::uint64_t limit = settings_of(device)->vram_limit.load(kRelaxed);
  VramAccount account(ledger, device);
  const std::uint32_t slot = session.slot.load(kRelaxed);
  VramAnswer answer = account.reserve(slot, bytes, limit);
  // Before saying no, give back what dead siblings still hold. Only then: it reads /proc.
  if (!answer.granted && reclaim_dead(*ledger, session.self) > 0)
    answer = account.reserve(slot, bytes, limit);
  return answer;
}

void release(std::uint32_t device, std::uint64_t bytes) {
  if (device >= kDevicesMax || !has_slot()) return;
  VramAccount(ledger_region(), device).release(session.slot.load(kRelaxed), bytes);
}

void add_unasked(std::uint32_t device, std::uint64_t bytes) {
  if (device >= kDevicesMax || !has_slot()) return;
  VramAccount(ledger_region(), device).add_unasked(session.slot.load(kRelaxed), bytes);
}

std::uint64_t visible_total(std::uint32_t device, std::uint64_t real_total) {
  const DeviceControl* limits = settings_of(device);
  return limits == nullptr ? 0 : std::min(real_total, limits->vram_limit.load(kRelaxed));
}

std::uint64_t visible_free(std::uint32_t device, std::uint64_t real_free) {
  const DeviceControl* limits = settings_of(device);
  if (limits == nullptr) return 0;
  const std::uint64_t used = VramAccount(ledger_region(), device).used();
  const std::uint64_t limit = limits->vram_limit.load(kRelaxed);
  return std::min(real_free, limit > used ? limit - used : 0);
}

void log_refusal(const char* api, std::uint32_t device, std::uint64_t bytes, const VramAnswer& answer) {
  const std::uint64_t now = monotonic_ns();
  std::uint64_t last = last_refusal_at.load(kRelaxed);
  if (now - last < 1'000'000 || !last_refusal_at.compare_exchange_strong(last, now)) return;
  char text[256];
  const int length =
      std::snprintf(text,
                    sizeof text,
                    "tranche-guard: %s: device %u: out of memory: limit %llu bytes, in use %llu, "
                    "asked for %llu\n",
                    api,
                    device,
                    static_cast<unsigned long long>(answer.limit),
                    static_cast<unsigned long long>(answer.used),
                    static_cast<unsigned long long>(bytes));
  if (length > 0 && ::write(STDERR_FILENO, text, static_cast<std::size_t>(length)) < 0) return;
}

bool must_zero_on_free(std::uint32_t device, std::uint64_t bytes) {
  const DeviceControl* limits = settings_of(device);
  if (limits == nullptr) return false;
  if ((limits->flags.load(kRelaxed) & kZeroOnFree) != 0) return true;
  if (!has_slot()) return false;
  // First noted, then looked at again: whoever joins meanwhile sees the note, or we see that it joined.
  ledger_region()->devices[device].dirty_bytes.fetch_add(bytes);
  return (limits->flags.load() & kZeroOnFree) != 0;
}

bool must_zero_on_alloc(std::uint32_t device) {
  const DeviceControl* limits = settings_of(device);
  return limits != nullptr && (limits->flags.load(kRelaxed) & kZeroOnAlloc) != 0;
}

void report_dirty(std::uint32_t device, std::uint64_t bytes) {
  if (device >= kDevicesMax || !has_slot()) return;
  ledger_region()->devices[device].dirty_bytes.fetch_add(bytes);
  ring_broker();
}

bool may_go_back_dirty(std::uint32_t device, std::uint64_t bytes) {
  if (bytes == 0 || !must_zero_on_free(device, bytes)) return true;
  if (!must_zero_on_alloc(device)) report_dirty(device, bytes);
  for (int i = 0; i < kBrokerAnswersWithinMs && !must_zero_on_alloc(device); ++i) ::usleep(1'000);
  return must_zero_on_alloc(device);
}

}  // namespace tranche::guard
