// SPDX-License-Identifier: Apache-2.0
#pragma once
// One output stream of a job: from a pipe into a file, up to a quota. Past it the job goes on, and what it
// writes is counted and dropped: a flood costs neither disk nor the job.
#include <cstdint>
#include <string>

#include "agent/descriptor.hpp"
#include "agent/lease_page.hpp"

namespace tranche::agent {

class ShimOutput {
 public:
  ShimOutput(const std::string& file, std::uint64_t quota, LeasePage& page, std::uint32_t stream);

  // The job's end of a new pipe; the old one is given up.
  [[nodiscard]] Descriptor open_pipe();
  [[nodiscard]] int readable() const { return pipe_.get(); }
  // Takes what is there now, at most `bytes_max`; true when something was written.
  bool take(std::size_t bytes_max);
  void close_pipe() { pipe_.reset(); }
  void note(const std::string& line);  // Of our own, into the same file.

 private:
  void keep(const char* bytes, std::size_t count);
  std::string path_;
  Descriptor file_;  // Made at the first byte.
  Descriptor pipe_;
  std::uint64_t quota_;
  LeasePage& page_;
  std::uint32_t stream_;
};

}  // namespace tranche::agent
