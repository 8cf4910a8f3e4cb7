// SPDX-License-Identifier: Apache-2.0
#include "agent/job_network.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <grp.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "agent/files.hpp"
#include "agent/gang_carrier.hpp"
#include "agent/sandbox_plan.hpp"
#include "agent/sandbox_rights.hpp"
#include "agent/system_failure.hpp"
#include "gpu/child_program.hpp"

namespace tranche::agent {
namespace {

constexpr const char* kInterface = "tap0";
constexpr const char* kGangInterface = "gang0";
constexpr unsigned kNobody = 65'534;
constexpr int kPatienceMilliseconds = 10'000;   // Of a machine that is very busy; it takes about ten.
constexpr int kReadyEnd = 3, kLifelineEnd = 4;  // As the carrier counts them.

std::string find_tool(const std::string& name) {
  for (const char* folder : {"/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/", "/usr/local/bin/"})
    if (::access((folder + name).c_str(), X_OK) == 0) return folder + name;
  return {};
}

std::string namespace_of(int init) {
  return "/proc/" + std::to_string(init) + "/ns/net";
}

void put_filter(const NetworkTools& tools, int init, const std::string& filter) {
  const gpu::ProgramEnd end = gpu::run_program(
      {.command = {tools.nsenter, "--net=" + namespace_of(init), tools.nft, "-f", "-"}, .input = filter});
  if (!end.started || end.exit_code != 0)
    throw std::runtime_error("the job's network could not be closed towards the node: " + end.output);
}

// Asks for counters later, when the job's processes and with them every name of the namespace are gone.
Descriptor socket_inside(int init) {
  const Descriptor own(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  const Descriptor there(::open(namespace_of(init).c_str(), O_RDONLY | O_CLOEXEC));
  if (!own.open() || !there.open() || ::setns(there.get(), CLONE_NEWNET) != 0)
    fail("cannot enter the job's network");
  Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (::setns(own.get(), CLONE_NEWNET) != 0) fail("cannot leave the job's network");
  return socket;
}

std::pair<Descriptor, Descriptor> make_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("cannot make a pipe");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

struct CarrierEnds {
  int ready, lifeline, words;
};

[[noreturn]] void become_carrier(const NetworkTools& tools,
                                 int init,
                                 CarrierEnds ends,
                                 const std::function<bool()>& enter_group) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  unblock_signals();
  for (int* end : {&ends.ready, &ends.lifeline, &ends.words}) *end = ::fcntl(*end, F_DUPFD_CLOEXEC, 16);
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::dup2(null.get(), 0);
  ::dup2(null.get(), 1);
  ::dup2(ends.words, 2);
  ::dup2(ends.ready, kReadyEnd);
  ::dup2(ends.lifeline, kLifelineEnd);
  close_others({kReadyEnd, kLifelineEnd});
  if (!enter_group()) ::_exit(125);
  std::vector<std::string> words{tools.slirp,
                                 "--configure",
                                 "--mtu=65520",
                                 "--disable-host-loopback",
                                 "--enable-sandbox",
                                 "--enable-seccomp",
                                 "--ready-fd=" + std::to_string(kReadyEnd),
                                 "--exit-fd=" + std::to_string(kLifelineEnd),
                                 "--netns-type=path",  // By number it would enter the job's users, too.
                                 namespace_of(init),
                                 kInterface};
  std::vector<char*> argv = exec_words(words);
  char* const no_environment[] = {nullptr};
  ::execve(argv[0], argv.data(), no_environment);
  ::_exit(127);
}

bool says_ready(int end) {
  pollfd source{end, POLLIN, 0};
  int got = -1;
  do got = ::poll(&source, 1, kPatienceMilliseconds);
  while (got < 0 && errno == EINTR);
  char byte = 0;
  return got > 0 && ::read(end, &byte, 1) == 1;
}

}  // namespace

NetworkTools find_network_tools() {
  NetworkTools tools{
      .slirp = find_tool("slirp4netns"), .nft = find_tool("nft"), .nsenter = find_tool("nsenter")};
  if (::geteuid() != 0)
    tools.missing = "only an agent that is root gives jobs networks of their own";
  else if (tools.slirp.empty() || tools.nft.empty() || tools.nsenter.empty())
    tools.missing = "networks of jobs need slirp4netns and nft (apt install slirp4netns nftables)";
  else if (::access("/dev/net/tun", R_OK | W_OK) != 0)
    tools.missing = "networks of jobs need /dev/net/tun (modprobe tun)";
  return tools;
}

void JobNetwork::begin(const NetworkTools& tools,
                       int init,
                       const std::vector<std::string>& allowed,
                       const std::function<bool()>& enter_group) {
  end();
  interface_ = kInterface;
  // Before there is a way out.
  put_filter(tools, init, network_filter(own_addresses(), allowed));
  inside_ = socket_inside(init);
  space_.reset(::open(namespace_of(init).c_str(), O_RDONLY | O_CLOEXEC));
  auto [ready_read, ready_write] = make_pipe();
  auto [life_read, life_write] = make_pipe();
  const Descriptor words = memory_file("network", "");
  carrier_ = ::fork();
  if (carrier_ == 0)
    become_carrier(tools, init, {ready_write.get(), life_read.get(), words.get()}, enter_group);
  if (carrier_ < 0) fail("cannot start the carrier of the job's network");
  lifeline_ = std::move(life_write);
  ready_write.reset();
  if (says_ready(ready_read.get())) return;
  end();
  throw std::runtime_error("the job's network could not be set up: " + read_descriptor(words.get()));
}

void JobNetwork::begin_gang(int init, const GangPlace& place, const std::function<bool()>& enter_group) {
  end();
  interface_ = kGangInterface;
  if (place.rank >= place.members.size() || place.members.size() > kGangMembersMax)
    throw std::runtime_error("this is no member of a gang");
  const GangSeal checked(place.key, place.rank, 0);
  const Descriptor tunnel = open_gang_tunnel(init, kGangInterface, place.rank);
  const Descriptor socket = open_gang_socket(place.members[place.rank].port);
  inside_ = socket_inside(init);
  auto [life_read, life_write] = make_pipe();
  carrier_ = ::fork();
  if (carrier_ < 0) fail("cannot start the carrier of the gang's network");
  if (carrier_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    unblock_signals();
    const bool alone = enter_group() && ::setgroups(0, nullptr) == 0 &&
                       ::setresgid(kNobody, kNobody, kNobody) == 0 &&
                       ::setresuid(kNobody, kNobody, kNobody) == 0 && drop_capabilities();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);  // Forgotten with the user.
    if (!alone) ::_exit(125);
    close_others({tunnel.get(), socket.get(), life_read.get()});
    carry_gang(place, tunnel.get(), socket.get(), life_read.get());
  }
  lifeline_ = std::move(life_write);
}

void JobNetwork::end() {
  lifeline_.reset();
  inside_.reset();
  space_.reset();
  if (carrier_ <= 0) return;
  ::kill(carrier_, SIGKILL);  // It keeps nothing that would have to be put away.
  ::waitpid(carrier_, nullptr, 0);
  carrier_ = -1;
}

std::vector<std::string> JobNetwork::peers(const NetworkTools& tools) const {
  std::vector<std::string> all;
  if (!space_.open()) return all;
  const std::string space = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(space_.get());
  for (const char* set : {kPeersSet, kRefusedSet}) {
    const gpu::ProgramEnd end = gpu::run_program(
        {.command = {
             tools.nsenter, "--net=" + space, tools.nft, "-n", "list", "set", "inet", "tranche", set}});
    if (!end.started || end.exit_code != 0) continue;
    for (std::string& peer : peers_in(end.output, set == kRefusedSet ? "refused " : ""))
      all.push_back(std::move(peer));
  }
  return all;
}

std::uint64_t JobNetwork::bytes_carried() const {
  struct {
    nlmsghdr header{};
    ifinfomsg link{};
    rtattr name{};
    char text[8]{};
  } ask;
  ask.header.nlmsg_len = sizeof ask;
  ask.header.nlmsg_type = RTM_GETLINK;
  ask.header.nlmsg_flags = NLM_F_REQUEST;
  ask.name.rta_type = IFLA_IFNAME;
  ask.name.rta_len = static_cast<unsigned short>(RTA_LENGTH(std::strlen(interface_) + 1));
  std::strncpy(ask.text, interface_, sizeof ask.text - 1);
  alignas(nlmsghdr) std::array<char, 16'384> answer{};
  if (!inside_.open() || ::send(inside_.get(), &ask, sizeof ask, 0) != sizeof ask) return 0;
  const ssize_t got = ::recv(inside_.get(), answer.data(), answer.size(), 0);
  const auto* header = reinterpret_cast<const nlmsghdr*>(answer.data());
  if (got < static_cast<ssize_t>(sizeof *header) || header->nlmsg_type != RTM_NEWLINK) return 0;
  // Attributes, each padded to four bytes, behind the two headers.
  const auto size = static_cast<std::size_t>(got);
  for (std::size_t at = NLMSG_SPACE(sizeof(ifinfomsg)); at + sizeof(rtattr) <= size;) {
    rtattr attribute{};
    std::memcpy(&attribute, &answer[at], sizeof attribute);
    if (attribute.rta_len < sizeof attribute || at + attribute.rta_len > size) return 0;
    if (attribute.rta_type == IFLA_STATS64) {
      rtnl_link_stats64 counts{};
      std::memcpy(&counts,
                  &answer[at + sizeof attribute],
                  std::min<std::size_t>(sizeof counts, attribute.rta_len - sizeof attribute));
      return counts.rx_bytes + counts.tx_bytes;
    }
    at += RTA_ALIGN(attribute.rta_len);
  }
  return 0;
}

}  // namespace tranche::agent
