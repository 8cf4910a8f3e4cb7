// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shared memory between a job, the broker and the agent: the only contract between them.
//
// Two regions for each tenant. The CONTROL region is written by the broker alone and mapped read-only into
// the job (the memory is sealed against any later writable mapping). The LEDGER region is written by the
// tenant's own processes and read by broker and agent. No tenant ever maps a region of another. Everything is
// plain atomics at fixed offsets: all-zero bytes are the valid empty state, nothing ever moves.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "guard/atomic_pair.hpp"

namespace tranche::guard {

inline constexpr std::uint64_t kControlMagic = 0x314c525443525454;  // "TTRCTRL1"
inline constexpr std::uint64_t kLedgerMagic = 0x3152444c43525454;   // "TTRCLDR1"
inline constexpr std::uint32_t kLayoutVersion = 5;
inline constexpr std::uint32_t kDevicesMax = 16;
inline constexpr std::uint32_t kProcessesMax = 1024;
inline constexpr std::uint32_t kImagesMax = 256;
inline constexpr std::uint32_t kEndsKept = 8;    // Of the latest work of a lane.
inline constexpr std::uint32_t kSavedKept = 64;  // Looks of the last second at what is saved under a ceiling.
inline constexpr std::size_t kTenantNameMax = 64;
inline constexpr std::uint32_t kShareWhole = 10'000;  // Shares are in hundredths of a percent.

using Word32 = std::atomic<std::uint32_t>;
using Word64 = std::atomic<std::uint64_t>;
static_assert(Word64::is_always_lock_free && sizeof(Word64) == 8);

enum class ShareMode : std::uint32_t {
  kUnlimited = 0,  // No compute limit was asked for.
  kCap = 1,        // A ceiling, also on an idle device.
  kFair = 2,       // A guaranteed minimum; the idle part goes to whoever can use it.
};

enum class Gate : std::uint32_t {
  kOwnCap = 0,      // Zeroed memory, or no word from a broker: the share is a ceiling. Never "unlimited".
  kAlone = 1,       // Nobody else on the device: launches are only counted (and held to a cap, if any).
  kArbitrated = 2,  // Launches spend `granted_ns`; whoever runs out waits for the broker.
};

// Kernels and copies are separate engines of a device, so each has its own shares.
enum class Lane : std::uint32_t { kCompute = 0, kCopy = 1 };
inline constexpr std::uint32_t kLanes = 2;

enum StopState : std::uint32_t { kKeepRunning = 0, kWarned = 1, kMustEnd = 2 };

enum DeviceFlag : std::uint32_t {
  kZeroOnFree = 1U << 0,   // Another tenant shares the device: hand nothing back dirty.
  kZeroOnAlloc = 1U << 1,  // Somebody died on this device and left it dirty.
  kPaused = 1U << 2,       // Launches wait; memory is to be given back.
};

struct RegionHeader {
  std::uint64_t magic = 0;
  std::uint32_t version = 0;
  std::uint32_t bytes = 0;
};

// What one lane of one device may do now. Written by the broker.
struct alignas(64) LaneControl {
  Word64 granted_ns;     // Cumulative device time this tenant may have submitted (gate kArbitrated).
  Word32 gate;           // Gate.
  Word32 wake;           // Futex word: changes whenever anything in this struct or the limits changes.
  Word64 allowance_ns;   // Ceiling: allowance_ns + (now - allowance_at) * share, on CLOCK_MONOTONIC.
  Word64 allowance_at;   //
  Word32 allowance_seq;  // Odd while the two words above are being written.
  Word32 share;          // Of kShareWhole.
  Word64 clear_at;       // CLOCK_MONOTONIC ns when other tenants' work now on the device will be done.
  // Of work that ended: low: when that of others before it had ended, as they measured it; high:
  // `submitted_ns` up to the end of it.
  AtomicPair began[kEndsKept];
};

struct alignas(64) DeviceControl {
  Word64 vram_limit;  // Bytes. Zero: this device is not part of the slice.
  Word32 mode;        // ShareMode.
  Word32 flags;       // DeviceFlag.
  Word32 priority;    // Higher goes first.
  Word32 co_tenants;  // Other tenants attached to the device now.
  char uuid[40];      // As the vendor's tools print it; empty: the device is found by its position.
  LaneControl lanes[kLanes];
};

struct alignas(64) ControlRegion {
  RegionHeader header;
  Word64 generation;    // Grows with every change of a limit.
  Word64 heartbeat_at;  // CLOCK_MONOTONIC ns of the broker's last sign of life.
  Word64 warn_at;       // CLOCK_MONOTONIC ns; zero: no time limit.
  Word64 end_at;        //
  Word32 stop;          // StopState.
  Word32 device_count;
  char tenant[kTenantNameMax];
  DeviceControl devices[kDevicesMax];
};

// What one lane of one device has used. Written by the tenant's processes.
struct LaneLedger {
  alignas(64) Word64 submitted_ns;  // Cumulative, as predicted when it passed the gate. Never goes back.
  Word64 submitted_at;              // CLOCK_MONOTONIC ns of the last passage.
  Word64 corrected_ns;              // Two's complement: what measures say beyond the predictions.
  Word64 ends_told;
  AtomicPair
      ends[kEndsKept];  // low: when the device finished a measured launch; high: `submitted_ns` up to it.
  alignas(64) Word64 wait_seq;     // Grows each time a thread begins, or goes on, to wait at the gate.
  Word64 wanted_ns;                // Device time the waiting launch is expected to need.
  Word64 forfeited_ns;             // Ceiling time that was not used and is gone.
  Word64 kept_off_ns;              // Ceiling time that the host kept it from using, and that is still there.
  alignas(64) Word64 measured_ns;  // Device time confirmed by the device itself.
  Word64 operations;               // Launches or copies.
  Word64 throttled_ns;             // Wall time threads spent at the gate.
  Word64 bytes;                    // Copy lane only.
  alignas(64) AtomicPair saved[kSavedKept];  // low: when; high: ceiling time not used then. See ceiling.cpp.
};

// Programs for the device come in forms that tell more or less about the memory they will need.
enum class ImageForm : std::uint32_t { kText = 0, kBinary = 1 };
inline constexpr std::uint32_t kImageForms = 2;

// The account of one device. head.low = total bytes (44 bits) | sequence (20 bits);
// head.high = slot (10 bits) | signed delta (46 bits, scaled to bytes) | spare. See vram_account.cpp.
struct DeviceLedger {
  alignas(64) AtomicPair head;
  alignas(64) Word64 peak_bytes;
  Word64 refusals;
  Word64 dirty_bytes;                   // Bytes that went back to the device as they were. Only ever grows.
  Word64 context_bytes;                 // What a context took at most: reserved before the next one is made.
  Word64 image_bytes[kImageForms];      // The same of modules, by the form of their images.
  AtomicPair known_images[kImagesMax];  // low = key of an image, high = bytes it took. See cuda/images.cpp.
  LaneLedger lanes[kLanes];
};

// A slot belongs to one process until it is reclaimed; slots never move.
struct alignas(64) ProcessSlot {
  AtomicPair identity;           // ProcessIdentity; zero: free.
  AtomicPair used[kDevicesMax];  // low = operations applied to the slot, high = bytes.
  Word64 own[kDevicesMax];  // Of these, what the driver took by itself: contexts, modules. Holds no secrets.
  Word64 parked_bytes[kDevicesMax];  // Checkpointed out of the device, to be charged again. Broker's.
  Word32 parked;                     //
};

struct alignas(64) LedgerRegion {
  RegionHeader header;
  DeviceLedger devices[kDevicesMax];
  ProcessSlot processes[kProcessesMax];
};

// Device time used so far: predictions, put right by measures.
inline std::uint64_t charged_ns(const LaneLedger& lane) {
  return lane.submitted_ns.load(std::memory_order_acquire) +
         lane.corrected_ns.load(std::memory_order_relaxed);
}

inline std::uint64_t pack_share(double percent) {
  return static_cast<std::uint64_t>(percent * (kShareWhole / 100.0) + 0.5);
}

}  // namespace tranche::guard
