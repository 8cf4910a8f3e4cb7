// SPDX-License-Identifier: Apache-2.0
#pragma once
// The person at the other end: is there one, what does he say, may his screen be coloured?
#include <string>
#include <string_view>

namespace tranche::cli {

bool stdin_is_terminal();
bool stdout_is_terminal();
bool stderr_is_terminal();

// Asks on stderr and reads a line; true for y or yes.
bool confirmed_at_terminal(std::string_view question);
// Reads a line without echo on a terminal, plainly from a pipe. Throws Failure at the end of input.
std::string read_secret(std::string_view prompt);
std::string read_file_or_stdin(const std::string& path);  // "-" is stdin. Throws Failure.

void write_stdout(std::string_view text);  // All of it, in few calls. Ends the program when nobody reads.
void write_stderr(std::string_view text);

// From now on Ctrl-C ends the program with exit code 130, with the terminal as it was.
void end_on_interrupt();

enum class Colour { kRed, kGreen, kYellow, kBold };
std::string coloured(std::string_view text, Colour colour);

}  // namespace tranche::cli
