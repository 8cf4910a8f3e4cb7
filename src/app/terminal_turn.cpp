// SPDX-License-Identifier: Apache-2.0
#include "app/terminal_turn.hpp"

#include <csignal>
#include <unistd.h>

namespace tranche::app {
namespace {

// Whoever is not in front is stopped for asking, unless it holds the signal off.
void put_in_front(int terminal, pid_t group) {
  sigset_t asking;
  sigset_t before;
  ::sigemptyset(&asking);
  ::sigaddset(&asking, SIGTTOU);
  ::pthread_sigmask(SIG_BLOCK, &asking, &before);
  ::tcsetpgrp(terminal, group);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

TerminalTurn::TerminalTurn()
    : terminal_(::isatty(STDIN_FILENO) != 0 ? STDIN_FILENO : -1), in_front_(stands_in_front()) {}

TerminalTurn::~TerminalTurn() {
  if (in_front_) put_in_front(terminal_, ::getpgrp());
}

bool TerminalTurn::stands_in_front() const {
  return terminal_ >= 0 && ::tcgetpgrp(terminal_) == ::getpgrp();
}

void TerminalTurn::give_to(pid_t group) const {
  if (in_front_) put_in_front(terminal_, group);
}

void TerminalTurn::stopped(pid_t group) {
  if (terminal_ < 0) return;  // Whoever stopped it lets it go on.
  if (in_front_) put_in_front(terminal_, ::getpgrp());
  const bool brought_to_the_front =
      !in_front_ && stands_in_front();          // It was stopped for reading before that.
  if (!brought_to_the_front) ::raise(SIGTSTP);  // Here the shell has its turn, if there is one.
  in_front_ = stands_in_front();
  give_to(group);
  ::kill(-group, SIGCONT);
}

}  // namespace tranche::app
