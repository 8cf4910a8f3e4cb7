// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who stands in front at the terminal? A command that runs in a process group of its own is stopped as soon
// as it reads from the terminal, unless the group stands in front there.
#include <sys/types.h>

namespace tranche::app {

class TerminalTurn {
 public:
  TerminalTurn();   // Is there a terminal, and are we in front of it?
  ~TerminalTurn();  // Takes it back.
  TerminalTurn(const TerminalTurn&) = delete;
  TerminalTurn& operator=(const TerminalTurn&) = delete;

  // In the process that becomes the command, and in ours: whoever comes first. From then on the terminal's
  // keys (Ctrl-C, Ctrl-Z) reach the command alone.
  void give_to(pid_t group) const;
  // The command was stopped, by Ctrl-Z perhaps: stops us too, so that the shell is back, and when the shell
  // lets us go on, so does the command.
  void stopped(pid_t group);

 private:
  [[nodiscard]] bool stands_in_front() const;
  int terminal_ = -1;
  bool in_front_ = false;  // We, or the command in our place.
};

}  // namespace tranche::app
