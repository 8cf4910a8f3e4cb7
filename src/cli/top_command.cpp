// SPDX-License-Identifier: Apache-2.0
// top: the fleet as it works, refreshed until q; or once, for scripts.
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include "base/text.hpp"
#include "base/wall_clock.hpp"
#include "cli/command.hpp"
#include "cli/fleet_commands.hpp"
#include "cli/human.hpp"
#include "cli/terminal.hpp"
#include "cli/top_view.hpp"

namespace tranche::cli {
namespace {

using wire::TopView;

// Single keys, unechoed, while it shows; Ctrl-C still ends the program, which puts the terminal back itself.
class Screen {
 public:
  Screen() {
    if (::tcgetattr(STDIN_FILENO, &before_) == 0) {
      termios keys = before_;
      keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      changed_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
    }
    write_stdout("\x1b[?1049h\x1b[?25l");  // A screen of its own, without a cursor.
  }
  ~Screen() {
    write_stdout("\x1b[?25h\x1b[?1049l");
    if (changed_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  static void show(const std::string& text) {
    std::string frame = "\x1b[H";
    for (const char c : text) {
      if (c == '\n') frame += "\x1b[K";
      frame += c;
    }
    write_stdout(frame + "\x1b[J");
  }
  // The key that was pressed within that time; zero: none.
  static char key(std::chrono::milliseconds wait) {
    pollfd source{STDIN_FILENO, POLLIN, 0};
    char pressed = 0;
    if (::poll(&source, 1, static_cast<int>(wait.count())) > 0 && ::read(STDIN_FILENO, &pressed, 1) == 1)
      return pressed;
    return 0;
  }

 private:
  termios before_{};
  bool changed_ = false;
};

void show_once(Session& session) {
  const auto answer = session.get<TopView>("/v1/top");
  session.print(answer.body,
                {.table = [&] { return top_table(answer.value); },
                 .text = [&] { return top_text(answer.value); },
                 .names =
                     [&] {
                       std::string names;
                       for (const wire::TopDevice& device : answer.value.devices)
                         names += text(device.id) + "\n";
                       return names;
                     }});
}

void show_live(Session& session, std::chrono::milliseconds every) {
  const Screen screen;
  bool paused = false;
  std::string body;
  for (;;) {
    if (!paused) {
      const auto answer = session.get<TopView>("/v1/top");
      body = top_text(answer.value);
    }
    Screen::show("tranche top   " + local_time_text(wall_clock()) + (paused ? "   PAUSED" : "") +
                 "   q quit, p pause\n" + body);
    const char key = Screen::key(every);
    if (key == 'q' || key == 'Q') return;
    if (key == 'p' || key == 'P') paused = !paused;
  }
}

}  // namespace

void add_top_command(const Command& root, Program& program) {
  struct Options {
    bool once = false;
    std::string every = "2s";
  };
  const auto options = std::make_shared<Options>();
  const Command& command = add_command(root,
                                       {"top",
                                        "Devices, what runs on them, and queues; live on a terminal",
                                        "tranche top\ntranche top --once\ntranche top --once -o json"});
  command.add_flag("--once", options->once, "Show it once; also when the output is no terminal");
  command.add_option("--every", options->every, "How often it is refreshed").type_name("DURATION");
  command.callback([options, &program] {
    Session& session = program.session();
    const auto every = parse_duration(options->every);
    if (!every || *every < std::chrono::milliseconds(100))
      throw usage_failure("--every takes a duration such as 2s");
    const bool live = !options->once && session.output() == Output::kTable && stdout_is_terminal() &&
                      stdin_is_terminal() && !session.flags().explain_api;
    if (!live) return show_once(session);
    show_live(session, std::chrono::duration_cast<std::chrono::milliseconds>(*every));
  });
}

}  // namespace tranche::cli
