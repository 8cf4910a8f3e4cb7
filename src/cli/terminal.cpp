// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <optional>
#include <termios.h>
#include <unistd.h>

#include "cli/failure.hpp"

namespace tranche::cli {
namespace {

// What the interrupt handler must put back before it ends the process.
termios saved_terminal{};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
volatile std::sig_atomic_t terminal_is_changed =
    0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void on_interrupt(int) {
  if (terminal_is_changed != 0) ::tcsetattr(STDIN_FILENO, TCSANOW, &saved_terminal);
  ::_exit(kInterrupted);
}

class EchoOff {
 public:
  EchoOff() {
    if (::tcgetattr(STDIN_FILENO, &saved_terminal) != 0) return;
    termios quiet = saved_terminal;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    terminal_is_changed = 1;
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
  }
  ~EchoOff() {
    if (terminal_is_changed == 0) return;
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved_terminal);
    terminal_is_changed = 0;
  }
  EchoOff(const EchoOff&) = delete;
  EchoOff& operator=(const EchoOff&) = delete;
};

std::optional<std::string> read_line() {
  std::string line;
  char c = 0;
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, &c, 1);  // One at a time: what follows the line is not ours.
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return line.empty() ? std::nullopt : std::optional(line);
    if (c == '\n') return line;
    if (line.size() < 4096) line += c;
  }
}

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      if (descriptor == STDOUT_FILENO)
        ::_exit(kOther);  // A full disk behind a redirection must not look like success.
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

bool stdin_is_terminal() {
  return ::isatty(STDIN_FILENO) == 1;
}
bool stdout_is_terminal() {
  return ::isatty(STDOUT_FILENO) == 1;
}
bool stderr_is_terminal() {
  return ::isatty(STDERR_FILENO) == 1;
}

bool confirmed_at_terminal(std::string_view question) {
  write_stderr(std::string(question) + " [y/N] ");
  const auto line = read_line();
  return line && (*line == "y" || *line == "Y" || *line == "yes");
}

std::string read_secret(std::string_view prompt) {
  std::optional<std::string> line;
  if (stdin_is_terminal()) {
    const EchoOff quiet;  // Before the prompt: whoever waits for it may type at once.
    write_stderr(prompt);
    line = read_line();
    write_stderr("\n");
  } else {
    line = read_line();
  }
  if (!line || line->empty())
    throw usage_failure(std::string(prompt) + "nothing was given", "type it, or pipe it in on stdin");
  if (line->ends_with('\r')) line->pop_back();
  return *line;
}

std::string read_file_or_stdin(const std::string& path) {
  const int descriptor = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    throw Failure(kUsage, {"cannot read " + path + ": " + std::generic_category().message(errno)});
  std::string text;
  std::array<char, 65536> piece{};
  for (;;) {
    const ssize_t got = ::read(descriptor, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw Failure(kUsage, {"cannot read " + path + ": " + std::generic_category().message(errno)});
    if (got == 0) break;
    text.append(piece.data(), static_cast<std::size_t>(got));
    if (text.size() > (std::size_t{64} << 20)) throw usage_failure(path + " is larger than 64 MiB");
  }
  if (descriptor != STDIN_FILENO) ::close(descriptor);
  return text;
}

void write_stdout(std::string_view text) {
  write_all(STDOUT_FILENO, text);
}
void write_stderr(std::string_view text) {
  write_all(STDERR_FILENO, text);
}

void end_on_interrupt() {
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
}

std::string coloured(std::string_view text, Colour colour) {
  static constexpr std::array<std::string_view, 4> kCodes{"31", "32", "33", "1"};
  return "\033[" + std::string(kCodes.at(static_cast<std::size_t>(colour))) + "m" + std::string(text) +
         "\033[0m";
}

}  // namespace tranche::cli
