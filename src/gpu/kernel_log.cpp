// SPDX-License-Identifier: Apache-2.0
#include "gpu/kernel_log.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <fcntl.h>
#include <unistd.h>

namespace tranche::gpu {
namespace {

constexpr std::string_view kMark = "NVRM: Xid";  // "(PCI:0000:41:00):", "(0000:41:00):" of old, or nothing.
constexpr std::int64_t kXidRecommends = 154;
constexpr std::size_t kTextMost = 300;
constexpr int kRecordsMost = 4096;  // In one call: whatever floods the log does not hold up the node.

std::optional<std::int64_t> number_at(std::string_view text, int base = 10) {
  std::int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return out;
}

// "... changed from 0x0 (None) to 0x2 (Node Reboot Required)"
std::int64_t recommendation_in(std::string_view text) {
  const auto at = text.find(" to 0x");
  return at == std::string_view::npos ? -1 : number_at(text.substr(at + 6), 16).value_or(-1);
}

// "PCI:0000:3B:00.0"
std::string address_in(std::string_view text) {
  if (text.starts_with("PCI:")) text.remove_prefix(4);
  std::string out(text.substr(0, text.find('.')));
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return out;
}

// "6,1234,5678901,-;text": level and facility, a number, microseconds since the machine started, flags.
std::optional<std::int64_t> time_in(std::string_view head) {
  for (int field = 0; field < 2; ++field) {
    const auto comma = head.find(',');
    if (comma == std::string_view::npos) return std::nullopt;
    head.remove_prefix(comma + 1);
  }
  return number_at(head);
}

}  // namespace

std::optional<XidLine> parse_xid(std::string_view record) {
  const auto mark = record.find(kMark);
  if (mark == std::string_view::npos) return std::nullopt;
  const auto semicolon = record.substr(0, mark).find(';');
  XidLine out;
  if (semicolon != std::string_view::npos) out.microseconds = time_in(record.substr(0, semicolon));
  std::string_view text = record.substr(mark);
  text = text.substr(0, std::min(text.find('\n'), kTextMost));
  std::string_view code = text.substr(kMark.size());
  code.remove_prefix(std::min(code.find_first_not_of(' '), code.size()));
  if (code.starts_with('(')) {
    const auto close = code.find("):");
    if (close == std::string_view::npos) return std::nullopt;
    out.address = address_in(code.substr(1, close - 1));
    code.remove_prefix(close + 2);
  }
  code.remove_prefix(std::min(code.find_first_not_of(": "), code.size()));
  const auto number = number_at(code);
  if (!number) return std::nullopt;
  out.code = *number;
  out.value = out.code == kXidRecommends ? recommendation_in(code) : 0;
  out.text = text;
  return out;
}

KernelLog::KernelLog(const std::string& path)
    : file_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (file_ >= 0) ::lseek(file_, 0, SEEK_END);
}

KernelLog::~KernelLog() {
  if (file_ >= 0) ::close(file_);
}

std::vector<XidLine> KernelLog::read() {
  std::vector<XidLine> out;
  char record[8192];  // The kernel gives one record for each call, and no longer ones.
  for (int i = 0; file_ >= 0 && i < kRecordsMost; ++i) {
    const ssize_t got = ::read(file_, record, sizeof record);
    if (got < 0 && (errno == EPIPE || errno == EINTR)) continue;  // Overwritten before it was read.
    if (got <= 0) break;
    std::string_view rest(record, static_cast<std::size_t>(got));
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      if (auto found = parse_xid(line)) out.push_back(std::move(*found));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    }
  }
  return out;
}

Instant time_of(const XidLine& line, Instant now) {
  timespec since_start{};
  if (!line.microseconds || ::clock_gettime(CLOCK_MONOTONIC, &since_start) != 0) return now;
  const std::int64_t age = since_start.tv_sec * 1'000'000 + since_start.tv_nsec / 1000 - *line.microseconds;
  return now - std::chrono::microseconds(std::max<std::int64_t>(age, 0));
}

}  // namespace tranche::gpu
