// SPDX-License-Identifier: Apache-2.0
#pragma once
// What drivers write into the kernel's log about their devices. NVIDIA's says there which fault it met (Xid),
// even when its library does not answer any more, and what it recommends (Xid 154), which the library's own
// events leave out.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.hpp"

namespace tranche::gpu {

struct XidLine {
  // Domain, bus and device, "0000:3b:00": as the driver writes it, in small letters. Empty: it names no
  // device.
  std::string address{};
  std::int64_t code = 0;
  std::int64_t value = 0;  // Of 154: the number of what is recommended; -1 when it cannot be read.
  std::optional<std::int64_t> microseconds{};  // Since the machine started.
  std::string text{};
};

// One record of the log, with or without what the kernel puts before the text.
[[nodiscard]] std::optional<XidLine> parse_xid(std::string_view record);

class KernelLog {
 public:
  explicit KernelLog(const std::string& path = "/dev/kmsg");  // Of what is there already nothing is told.
  ~KernelLog();
  KernelLog(const KernelLog&) = delete;
  KernelLog& operator=(const KernelLog&) = delete;

  [[nodiscard]] bool is_open() const { return file_ >= 0; }
  [[nodiscard]] std::vector<XidLine> read();  // New since the last call.

 private:
  int file_ = -1;
};

// When a line was written, by the wall's clock; never after `now`.
[[nodiscard]] Instant time_of(const XidLine& line, Instant now);

}  // namespace tranche::gpu
