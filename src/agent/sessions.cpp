// SPDX-License-Identifier: Apache-2.0
#include "agent/sessions.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <utility>

#include "agent/files.hpp"

namespace tranche::agent {
namespace {

constexpr std::size_t kPiece = 64 * 1024;
constexpr std::size_t kUnsentMax = 8 * 1024 * 1024;

bool make_pipe(Descriptor& read, Descriptor& write) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  read.reset(ends[0]);
  write.reset(ends[1]);
  return true;
}

void unblock(const Descriptor& descriptor) {
  ::fcntl(descriptor.get(), F_SETFL, ::fcntl(descriptor.get(), F_GETFL) | O_NONBLOCK);
}

}  // namespace

void Sessions::open(const wire::SessionOpen& wish, const std::string& folder, int from, BootTime patience) {
  Session session{.lease = wish.lease, .terminal = wish.terminal};
  Descriptor in, out, err;
  bool ready = false;
  if (wish.terminal) {
    session.output.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    ready = session.output.open() && ::grantpt(session.output.get()) == 0 &&
            ::unlockpt(session.output.get()) == 0;
    if (ready) in.reset(::ioctl(session.output.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
    out.reset(::fcntl(in.get(), F_DUPFD_CLOEXEC, 3));
    err.reset(::fcntl(in.get(), F_DUPFD_CLOEXEC, 3));
    const winsize size{.ws_row = wish.rows, .ws_col = wish.columns, .ws_xpixel = 0, .ws_ypixel = 0};
    if (wish.rows != 0) ::ioctl(session.output.get(), TIOCSWINSZ, &size);
    ready = ready && in.open();
  } else {
    ready = make_pipe(in, session.input) && make_pipe(session.output, out) && make_pipe(session.errors, err);
    unblock(session.input);
    unblock(session.errors);
  }
  unblock(session.output);
  std::string words;
  for (const std::string& word : wish.command) words.append(word).push_back('\0');
  if (!ready) return refuse(wish.session);
  Early early{
      .order = {.kind = OrderKind::kSession, .session = wish.session, .terminal = wish.terminal ? 1U : 0U},
      .folder = folder,
      .from = from,
      .patience = patience};
  early.ends[0] = memory_file("command", words);
  early.ends[1] = std::move(in);
  early.ends[2] = std::move(out);
  early.ends[3] = std::move(err);
  sessions_[wish.session] = std::move(session);
  ask(std::move(early));
}

void Sessions::ask(Early early) {
  const std::array<int, 4> descriptors{
      early.ends[0].get(), early.ends[1].get(), early.ends[2].get(), early.ends[3].get()};
  if (send_datagram(
          early.from, early.folder, kShimSocket, &early.order, sizeof early.order, descriptors.data(), 4))
    return;
  if (boot_time() < early.patience) return early_.push_back(std::move(early));
  sessions_.erase(early.order.session);
  refuse(early.order.session);
}

void Sessions::try_again() {
  for (Early& one : std::exchange(early_, {}))
    if (sessions_.contains(one.order.session)) ask(std::move(one));
}

void Sessions::refuse(std::uint64_t session) {
  out_.end({.session = session, .exit_code = 125, .message = "the job is not running on this node"});
}

void Sessions::input(const wire::SessionData& data) {
  const auto found = sessions_.find(data.session);
  if (found == sessions_.end()) return;
  Session& session = found->second;
  if (data.bytes.empty()) session.input_ended = true;
  session.unsent += data.bytes;
  if (session.unsent.size() > kUnsentMax) return finish(data.session);  // It never reads: give up on it.
  push(session);
}

void Sessions::push(Session& session) {
  Descriptor& to = session.terminal ? session.output : session.input;
  while (to.open() && !session.unsent.empty()) {
    const ssize_t put = ::write(to.get(), session.unsent.data(), session.unsent.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno != EAGAIN) session.unsent.clear();
    if (put <= 0) return;
    session.unsent.erase(0, static_cast<std::size_t>(put));
  }
  if (session.input_ended && session.unsent.empty() && !session.terminal) session.input.reset();
}

void Sessions::close(std::uint64_t session) {
  sessions_.erase(session);  // Closed pipes, or a terminal that hung up, end the command.
}

void Sessions::ended(const ShimNote& note) {
  const auto found = sessions_.find(note.session);
  if (found == sessions_.end()) return;
  found->second.over = true;
  found->second.end = {.session = note.session, .exit_code = note.exit_code, .exit_signal = note.exit_signal};
  pump(note.session, found->second, found->second.output, wire::LogStream::kStdout, true);
  pump(note.session, found->second, found->second.errors, wire::LogStream::kStderr, true);
  finish(note.session);
}

void Sessions::finish(std::uint64_t id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  wire::SessionEnd end = found->second.end;
  end.session = id;
  sessions_.erase(found);
  out_.end(end);
}

void Sessions::pump(std::uint64_t id, Session& session, Descriptor& from, wire::LogStream stream, bool all) {
  std::array<char, kPiece> piece{};
  while (from.open()) {
    const ssize_t got = ::read(from.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      if (session.terminal) return;  // EIO: nobody has it open at the moment.
      from.reset();
      return;
    }
    out_.data(
        {.session = id, .stream = stream, .bytes = std::string(piece.data(), static_cast<std::size_t>(got))});
    if (!all) return;  // Others get their turn.
  }
}

void Sessions::add_sources(std::vector<pollfd>& sources) const {
  for (const auto& [id, session] : sessions_) {
    const short writing = session.unsent.empty() ? short{0} : short{POLLOUT};
    if (session.output.open())
      sources.push_back(
          {session.output.get(), static_cast<short>(POLLIN | (session.terminal ? writing : 0)), 0});
    if (session.errors.open()) sources.push_back({session.errors.get(), POLLIN, 0});
    if (session.input.open() && writing != 0) sources.push_back({session.input.get(), POLLOUT, 0});
  }
}

void Sessions::serve(const pollfd& source) {
  for (auto& [id, session] : sessions_) {
    if (session.output.get() == source.fd) {
      if ((source.revents & (POLLIN | POLLHUP)) != 0)
        pump(id, session, session.output, wire::LogStream::kStdout, false);
      if ((source.revents & POLLOUT) != 0) push(session);
      return;
    }
    if (session.errors.get() == source.fd)
      return pump(id, session, session.errors, wire::LogStream::kStderr, false);
    if (session.input.get() == source.fd) return push(session);
  }
}

}  // namespace tranche::agent
