// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a person's terminal and the server say to each other about a command inside a job: one byte that
// says what follows, then the bytes themselves.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace tranche::wire {

enum class SessionFrame : char {
  kOpen = 'o',
  kInput = 'i',
  kInputEnd = 'e',
  kStdout = '1',
  kStderr = '2',
  kEnd = 'x'
};

struct ExecRequest {  // The body of kOpen.
  std::vector<std::string> command{};
  bool terminal = false;
  std::uint16_t rows = 24;
  std::uint16_t columns = 80;
  std::uint32_t rank = 0;
};
BOOST_DESCRIBE_STRUCT(ExecRequest, (), (command, terminal, rows, columns, rank))

struct ExecEnd {  // The body of kEnd.
  std::int32_t exit_code = 0;
  std::int32_t exit_signal = 0;
  std::string message{};
};
BOOST_DESCRIBE_STRUCT(ExecEnd, (), (exit_code, exit_signal, message))

inline std::string session_frame(SessionFrame kind, std::string_view bytes = {}) {
  std::string frame(1, static_cast<char>(kind));
  frame += bytes;
  return frame;
}

}  // namespace tranche::wire
