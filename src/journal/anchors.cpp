// SPDX-License-Identifier: Apache-2.0
#include "journal/anchors.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include "journal/error.hpp"
#include "journal/json_line.hpp"
#include "journal/signing_key.hpp"

namespace tranche::journal {
namespace {

constexpr off_t kTailBytes = 64 << 10;

}  // namespace

std::string checkpoint_line(const Checkpoint& checkpoint) {
  return R"({"checkpoint":)" + std::to_string(checkpoint.sequence) + R"(,"hash":")" +
         to_hex(checkpoint.head) + R"(","at":)" + std::to_string(checkpoint.at.time_since_epoch().count()) +
         R"(,"signature":")" + to_hex(checkpoint.signature) + "\"}";
}

std::optional<Checkpoint> parse_checkpoint_line(std::string_view line) {
  Checkpoint checkpoint{};
  std::int64_t at = 0;
  if (take(line, R"({"checkpoint":)") && take_number(line, checkpoint.sequence) &&
      take(line, R"(,"hash":")") && take_hex(line, checkpoint.head) && take(line, R"(","at":)") &&
      take_number(line, at) && take(line, R"(,"signature":")") && take_hex(line, checkpoint.signature) &&
      line == "\"}") {
    checkpoint.at = Instant(Duration(at));
    return checkpoint;
  }
  return std::nullopt;
}

AnchorFile::AnchorFile(const std::filesystem::path& path)
    : path_(path), file_(File::open(path, O_RDWR | O_CREAT | O_APPEND, 0644)) {
  struct stat about{};
  if (::fstat(file_.descriptor(), &about) != 0) throw_disk_error(errno, "read", path);
  const auto tail_size = std::min<off_t>(about.st_size, kTailBytes);
  std::string tail(static_cast<std::size_t>(tail_size), '\0');
  if (::pread(file_.descriptor(), tail.data(), tail.size(), about.st_size - tail_size) != tail_size)
    throw_disk_error(errno, "read", path);
  std::size_t whole = tail.size();
  while (whole != 0 && !last_) {
    const auto line_end = tail.rfind('\n', whole - 1);
    if (line_end == std::string::npos) break;
    const auto before = line_end == 0 ? std::string::npos : tail.rfind('\n', line_end - 1);
    const std::size_t start = before == std::string::npos ? 0 : before + 1;
    last_ = parse_checkpoint_line(std::string_view(tail).substr(start, line_end - start));
    whole = last_ ? line_end + 1 : start;
  }
  if (!last_ && about.st_size > tail_size)
    throw Corrupt(0, "the end of " + path.string() + " holds no signed checkpoints");
  if (!last_) whole = 0;
  if (whole != tail.size() &&
      ::ftruncate(file_.descriptor(), about.st_size - tail_size + static_cast<off_t>(whole)) != 0)
    throw_disk_error(errno, "repair", path);
}

bool AnchorFile::append(const Checkpoint& checkpoint) {
  const std::string line = checkpoint_line(checkpoint) + "\n";
  const off_t before = ::lseek(file_.descriptor(), 0, SEEK_END);
  const ssize_t written = ::write(file_.descriptor(), line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) {
    last_ = checkpoint;
    return true;
  }
  // Half a line would be taken for damage later.
  if (written > 0 && ::ftruncate(file_.descriptor(), before) != 0) throw_disk_error(errno, "repair", path_);
  return false;
}

void read_anchors(const std::filesystem::path& path, const std::function<bool(const Checkpoint&)>& visit) {
  std::ifstream in(path);
  std::string line;
  std::uint64_t number = 0;
  while (std::getline(in, line)) {
    ++number;
    if (in.eof()) return;  // No line end: being written, or cut by power loss.
    const auto anchor = parse_checkpoint_line(line);
    if (!anchor) {
      throw Corrupt(
          0, "line " + std::to_string(number) + " of " + path.string() + " is not a signed checkpoint");
    }
    if (!visit(*anchor)) return;
  }
}

namespace {

struct MarkBytes {
  std::array<unsigned char, 8> sequence{};
  Hash head{};
  Hash check{};  // Over the two above.
};
static_assert(sizeof(MarkBytes) == 72);

Hash check_of(const MarkBytes& bytes) {
  return hash_of({reinterpret_cast<const char*>(&bytes), sizeof bytes.sequence + sizeof bytes.head});
}

std::filesystem::path mark_path(const std::filesystem::path& folder) {
  return folder / "acknowledged";
}

}  // namespace

MarkFile::MarkFile(const std::filesystem::path& folder)
    : file_(File::open(mark_path(folder), O_WRONLY | O_CREAT, 0600)) {}

void MarkFile::write(const Mark& mark) noexcept {
  MarkBytes bytes{.sequence = little_endian(mark.sequence), .head = mark.head};
  bytes.check = check_of(bytes);
  // A failure leaves the mark behind the truth, which is harmless.
  const bool written = ::pwrite(file_.descriptor(), &bytes, sizeof bytes, 0) == sizeof bytes;
  static_cast<void>(written);
}

std::optional<Mark> read_mark(const std::filesystem::path& folder) {
  const auto path = mark_path(folder);
  if (!std::filesystem::exists(path)) return std::nullopt;
  const std::string content = read_file(path);
  MarkBytes bytes{};
  if (content.size() != sizeof bytes) return std::nullopt;
  std::memcpy(&bytes, content.data(), sizeof bytes);
  if (check_of(bytes) != bytes.check) return std::nullopt;
  return Mark{.sequence = from_little_endian(bytes.sequence.data()), .head = bytes.head};
}

}  // namespace tranche::journal
