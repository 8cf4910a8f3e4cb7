// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bytes that come in pieces: of a part of a file, and what is packed inside. All throw std::runtime_error.
#include <cstdint>
#include <memory>
#include <string>

#include "net/digest.hpp"

namespace tranche::agent {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::size_t read(char* into, std::size_t most) = 0;  // Zero: the end.
};

class FilePart final : public ByteSource {
 public:
  FilePart(int file, std::uint64_t offset, std::uint64_t size) : file_(file), at_(offset), left_(size) {}
  std::size_t read(char* into, std::size_t most) override;
  // Of everything read so far; once, at the end.
  [[nodiscard]] std::string digest() { return "sha256:" + hash_.hex(); }

 private:
  int file_;
  std::uint64_t at_;
  std::uint64_t left_;
  net::Sha256 hash_;
};

class Gunzip final : public ByteSource {
 public:
  explicit Gunzip(ByteSource& packed);
  ~Gunzip() override;
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;
  std::size_t read(char* into, std::size_t most) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] std::string read_all(ByteSource& source, std::size_t most);

}  // namespace tranche::agent
