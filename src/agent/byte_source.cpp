// SPDX-License-Identifier: Apache-2.0
#include "agent/byte_source.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <unistd.h>
#include <zlib.h>

namespace tranche::agent {

std::size_t FilePart::read(char* into, std::size_t most) {
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(most, left_));
  if (wanted == 0) return 0;
  ssize_t got = -1;
  do got = ::pread(file_, into, wanted, static_cast<off_t>(at_));
  while (got < 0 && errno == EINTR);
  if (got <= 0) throw std::runtime_error("it is cut short");
  at_ += static_cast<std::uint64_t>(got);
  left_ -= static_cast<std::uint64_t>(got);
  hash_.add({into, static_cast<std::size_t>(got)});
  return static_cast<std::size_t>(got);
}

struct Gunzip::State {
  explicit State(ByteSource& source) : packed(source) {}
  ByteSource& packed;
  z_stream stream{};
  std::array<char, 64 * 1024> waiting{};
  bool ended = false;
};

Gunzip::Gunzip(ByteSource& packed) : state_(std::make_unique<State>(packed)) {
  constexpr int kGzipWindow = 15 + 16;
  if (::inflateInit2(&state_->stream, kGzipWindow) != Z_OK) throw std::runtime_error("zlib has no memory");
}

Gunzip::~Gunzip() {
  ::inflateEnd(&state_->stream);
}

std::size_t Gunzip::read(char* into, std::size_t most) {
  z_stream& stream = state_->stream;
  stream.next_out = reinterpret_cast<Bytef*>(into);
  stream.avail_out = static_cast<uInt>(std::min<std::size_t>(most, 1U << 30U));
  const uInt room = stream.avail_out;
  while (stream.avail_out == room && !state_->ended) {
    if (stream.avail_in == 0) {
      stream.avail_in =
          static_cast<uInt>(state_->packed.read(state_->waiting.data(), state_->waiting.size()));
      stream.next_in = reinterpret_cast<Bytef*>(state_->waiting.data());
      if (stream.avail_in == 0) throw std::runtime_error("a compressed layer is cut short");
    }
    const int outcome = ::inflate(&stream, Z_NO_FLUSH);
    state_->ended = outcome == Z_STREAM_END;
    if (outcome != Z_OK && outcome != Z_STREAM_END) throw std::runtime_error("a compressed layer is damaged");
  }
  return room - stream.avail_out;
}

std::string read_all(ByteSource& source, std::size_t most) {
  std::string all;
  std::array<char, 16 * 1024> piece{};
  while (const std::size_t got = source.read(piece.data(), piece.size())) {
    if (all.size() + got > most) throw std::runtime_error("a description in it is larger than any should be");
    all.append(piece.data(), got);
  }
  return all;
}

}  // namespace tranche::agent
