// SPDX-License-Identifier: Apache-2.0
// exec, cp: inside a running job.
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <fcntl.h>
#include <mutex>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <thread>
#include <unistd.h>

#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/exec_session.hpp"
#include "cli/human.hpp"
#include "cli/terminal.hpp"
#include "net/websocket_client.hpp"
#include "wire/session_frame.hpp"

namespace tranche::cli {
namespace {

using wire::SessionFrame;

// Keys reach the command one by one, unechoed; the terminal is put back whatever happens.
class RawTerminal {
 public:
  RawTerminal() {
    if (::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios raw = before_;
    ::cfmakeraw(&raw);
    changed_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
  }
  ~RawTerminal() {
    if (changed_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  termios before_{};
  bool changed_ = false;
};

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

struct Pipes {  // Where the command's input comes from, and where its output goes.
  int input = STDIN_FILENO;
  int output = STDOUT_FILENO;
};

// One command in a job, from its start to its end.
class Remote {
 public:
  Remote(Session& session, const std::string& job, const wire::ExecRequest& request, Pipes pipes)
      : pipes_(pipes) {
    net::WebSocketCallbacks callbacks;
    callbacks.on_message = [this](net::WebSocket&, const std::string& message) { received(message); };
    callbacks.on_close = [this](std::uint16_t, const std::string& reason) {
      finish({.exit_code = 255, .message = reason.empty() ? "the connection broke" : reason});
    };
    auto made = net::WebSocketClient::connect(session.client_options(),
                                              "/v1/jobs/" + path_segment(job) + "/exec",
                                              session.authorization(),
                                              std::move(callbacks),
                                              {.kind = net::MessageKind::kBinary, .protocol = {}});
    if (!made) throw session.exec_failure(job, made.error());
    socket_ = std::move(*made);
    socket_->send(wire::session_frame(SessionFrame::kOpen, wire::to_json(request)));
  }

  // `idle`: without a byte either way for so long it is given up; zero: never.
  wire::ExecEnd run(Duration idle = {}) {
    std::thread feeder(
        [socket = socket_, input = pipes_.input, bytes = bytes_] { feed(*socket, input, *bytes); });
    {
      std::unique_lock lock(mutex_);
      if (idle == Duration{}) ended_.wait(lock, [&] { return over_; });
      for (std::uint64_t seen = *bytes_; !over_; seen = *bytes_) {
        if (ended_.wait_for(lock, idle, [&] { return over_; }) || *bytes_ != seen) continue;
        end_ = wire::ExecEnd{.exit_code = 255,
                             .message = "left after " + text(idle) + " without a key or any output"};
        over_ = true;
      }
    }
    feeder.detach();  // It may be waiting for a key that never comes; it holds what it uses.
    return end_;
  }

 private:
  void received(const std::string& message) {
    if (message.empty()) return;
    const std::string_view bytes = std::string_view(message).substr(1);
    switch (static_cast<SessionFrame>(message.front())) {
      case SessionFrame::kStdout:
        *bytes_ += bytes.size();
        write_all(pipes_.output, bytes);
        return;
      case SessionFrame::kStderr:
        *bytes_ += bytes.size();
        write_all(STDERR_FILENO, bytes);
        return;
      case SessionFrame::kEnd:
        if (const auto how = wire::from_json<wire::ExecEnd>(bytes)) finish(*how);
        return;
      default:
        return;
    }
  }
  void finish(const wire::ExecEnd& how) {
    const std::lock_guard lock(mutex_);
    if (!over_) end_ = how;
    over_ = true;
    ended_.notify_all();
  }
  static void feed(net::WebSocketClient& socket, int input, std::atomic<std::uint64_t>& bytes) {
    std::string buffer(32 * 1024, '\0');
    for (;;) {
      const ssize_t count = ::read(input, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      bytes += static_cast<std::uint64_t>(count);
      if (!socket.send(wire::session_frame(
              SessionFrame::kInput, std::string_view(buffer).substr(0, static_cast<std::size_t>(count)))))
        return;
    }
    socket.send(wire::session_frame(SessionFrame::kInputEnd));
  }

  Pipes pipes_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  wire::ExecEnd end_{};
  std::shared_ptr<std::atomic<std::uint64_t>> bytes_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);  // Both ways; the feeder may outlive us.
  std::shared_ptr<net::WebSocketClient> socket_;
};

void add_exec(const Command& root, Program& program) {
  struct Options {
    std::string job{};
    std::vector<std::string> command{};
    std::uint32_t rank = 0;
  };
  const auto options = std::make_shared<Options>();
  const Command& command =
      add_command(root,
                  {"exec",
                   "Run a command inside a running job",
                   "tranche exec job_00007K -- sh\ntranche exec job_00007K -- nvidia-smi"});
  command.add_option("job", options->job, "Id, as `ps` shows it").required();
  command.add_option("command", options->command, "Command and its arguments, after --").required();
  command.add_option("--rank", options->rank, "Which member of a gang").type_name("NUMBER");
  command.callback([options, &program] {
    end_with(run_in_job(program.session(), options->job, options->command, {.rank = options->rank}));
  });
}

struct Endpoint {
  std::string job{};  // Empty: here.
  std::string path{};
};
Endpoint endpoint_of(const std::string& text) {
  const auto colon = text.find(':');
  if (text.starts_with("job_") && colon != std::string::npos)
    return {text.substr(0, colon), text.substr(colon + 1)};
  return {{}, text};
}

// Takes $2 out of an archive, and nothing else that a job may have put there: into the folder $1, or as $1
// where that is none.
constexpr const char* kUnpack =
    R"(case "$1" in */) [ -d "$1" ] || { echo "there is no folder $1" >&2; exit 1; };; esac
if [ -d "$1" ]; then exec tar -xf - -C "$1" -- "$2"; fi
folder=$(dirname -- "$1")
[ -d "$folder" ] || { echo "there is no folder $folder" >&2; exit 1; }
place=$(mktemp -d "$folder/.tranche-cp-XXXXXX") || exit 1
tar -xf - -C "$place" -- "$2" && mv -- "$place/$2" "$1"
status=$?
rm -rf -- "$place"
exit $status)";

// Our end of the copy, with the other end of its pipe.
pid_t start_here(const std::vector<std::string>& words, int input, int output) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));  // NOLINT
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  ::_exit(127);
}

std::pair<std::string, std::string> folder_and_name(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

void copy(Session& session, const std::string& from_text, const std::string& to_text) {
  const Endpoint from = endpoint_of(from_text);
  const Endpoint to = endpoint_of(to_text);
  if (from.job.empty() == to.job.empty())
    throw usage_failure("one of the two is in a job: JOB:PATH", "tranche cp model.bin job_00007K:/work/");
  const auto [folder, name] = folder_and_name(from.path);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw usage_failure("no pipe could be made");
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const bool up = from.job.empty();
  const std::vector<std::string> pack{"tar", "-cf", "-", "-C", folder, "--", name};
  const std::vector<std::string> unpack{"sh", "-c", kUnpack, "cp", to.path.empty() ? "." : to.path, name};
  const pid_t tar = up ? start_here(pack, nothing, ends[1]) : start_here(unpack, ends[0], STDOUT_FILENO);
  ::close(up ? ends[1] : ends[0]);
  Remote remote(session,
                up ? to.job : from.job,
                {.command = up ? unpack : pack},
                up ? Pipes{ends[0], STDERR_FILENO} : Pipes{nothing, ends[1]});
  const wire::ExecEnd end = remote.run();
  ::close(up ? ends[0] : ends[1]);
  int status = 0;
  ::waitpid(tar, &status, 0);
  const bool copied = status == 0 && end.exit_code == 0 && end.exit_signal == 0;
  if (!copied && end.message.empty())
    write_stderr("tranche: " + from_text + " was not copied to " + to_text + "; why stands above. " +
                 "What there is: tranche exec " + (up ? to.job : from.job) + " -- ls -l\n");
  end_with(end);
  if (status != 0) throw quiet_end(kOther);
}

}  // namespace

wire::ExecEnd run_in_job(Session& session,
                         const std::string& job,
                         const std::vector<std::string>& command,
                         const ExecOptions& options) {
  wire::ExecRequest request{.command = command, .rank = options.rank};
  request.terminal = stdin_is_terminal() && stdout_is_terminal();
  winsize size{};
  if (request.terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
    request.rows = size.ws_row;
    request.columns = size.ws_col;
  }
  Remote remote(session, job, request, {});
  const auto raw = request.terminal ? std::make_unique<RawTerminal>() : nullptr;
  return remote.run(options.idle);
}

void end_with(const wire::ExecEnd& end) {
  if (!end.message.empty()) write_stderr("tranche: " + end.message + "\n");
  const int code = end.exit_signal != 0 ? 128 + end.exit_signal : end.exit_code;
  if (code != kOk) throw quiet_end(static_cast<Exit>(code));
}

void add_exec_commands(const Command& root, Program& program) {
  add_exec(root, program);
  const auto places = std::make_shared<std::pair<std::string, std::string>>();
  const Command& command =
      add_command(root,
                  {"cp",
                   "Copy files into or out of a running job",
                   "tranche cp model.bin job_00007K:/work\ntranche cp job_00007K:/work/out.png ."});
  command.add_option("from", places->first, "PATH or JOB:PATH").required();
  command.add_option("to", places->second, "PATH or JOB:PATH: a folder, or the copy's own name").required();
  command.callback([places, &program] { copy(program.session(), places->first, places->second); });
}

}  // namespace tranche::cli
