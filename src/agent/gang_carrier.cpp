// SPDX-License-Identifier: Apache-2.0
#include "agent/gang_carrier.hpp"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sodium.h>
#include <stdexcept>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/sandbox_plan.hpp"
#include "agent/system_failure.hpp"

namespace tranche::agent {
namespace {

constexpr std::uint32_t kNetwork = 0x0A75'0000;  // 10.117.0.0/16
constexpr std::uint32_t kMask = 0xFFFF'0000;
constexpr std::uint16_t kPortFirst = 42'000;
constexpr std::uint16_t kPorts = 20'000;
constexpr int kPacketMost = 1380;  // So that a sealed one fits into a frame of Ethernet.
constexpr std::size_t kRankBytes = 4;
constexpr std::size_t kNonce = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr std::size_t kBegunBytes = 8, kSaltBytes = 8;  // Of a nonce; then comes the count.
constexpr std::size_t kTag = crypto_aead_xchacha20poly1305_ietf_ABYTES;
static_assert(kGangKeyBytes == crypto_aead_xchacha20poly1305_ietf_KEYBYTES);

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* bytes_of(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}

void append_number(std::string& out, std::uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8)
    out.push_back(static_cast<char>(value >> static_cast<unsigned>(shift)));
}

std::uint64_t read_long(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) value = value << 8U | static_cast<unsigned char>(bytes[i]);
  return value;
}

void append_rank(std::string& out, std::uint32_t rank) {
  const std::uint32_t network = htonl(rank);
  out.append(reinterpret_cast<const char*>(&network), sizeof network);
}

std::uint32_t read_number(std::string_view bytes) {
  std::uint32_t network = 0;
  std::memcpy(&network, bytes.data(), sizeof network);
  return ntohl(network);
}

// Who says it, and to whom: neither can be exchanged for another.
std::string said_between(std::uint32_t from, std::uint32_t to) {
  std::string words;
  append_rank(words, from);
  append_rank(words, to);
  return words;
}

struct Place {
  sockaddr_in6 address{};
};

Place resolved(const std::string& host, std::uint16_t port) {
  Place place;
  place.address.sin6_family = AF_INET6;
  place.address.sin6_port = htons(port);
  const bool six = host.find(':') != std::string::npos;
  const std::string mapped = six ? host : "::ffff:" + host;
  if (::inet_pton(AF_INET6, mapped.c_str(), &place.address.sin6_addr) != 1)
    throw std::runtime_error("not an address of a node: " + host);
  return place;
}

void set_up_interface(const char* interface, std::size_t rank) {
  const Descriptor control(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
  const auto set_address = [&](unsigned long what, std::uint32_t value) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(value);
    std::memcpy(&request.ifr_addr, &address, sizeof address);
    return ::ioctl(control.get(), what, &request) == 0;
  };
  if (!set_address(SIOCSIFADDR, kNetwork + static_cast<std::uint32_t>(rank) + 1) ||
      !set_address(SIOCSIFNETMASK, kMask))
    fail("cannot give the gang's network an address");
  request.ifr_mtu = kPacketMost;
  if (::ioctl(control.get(), SIOCSIFMTU, &request) != 0) fail("cannot size the gang's network");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (::ioctl(control.get(), SIOCSIFFLAGS, &request) != 0) fail("cannot bring the gang's network up");
}

}  // namespace

std::string gang_address(std::size_t rank) {
  const in_addr address{htonl(kNetwork + static_cast<std::uint32_t>(rank) + 1)};
  std::array<char, INET_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET, &address, text.data(), text.size());
  return text.data();
}

std::uint16_t gang_port(std::uint64_t lease) {
  return static_cast<std::uint16_t>(kPortFirst + lease % kPorts);
}

// The newest of a sender that were seen, and what is older than all of them counts as seen, too.
bool ReplayWindow::take(std::uint64_t begun, std::uint64_t salt, std::uint64_t count) {
  if (begun < begun_ || (begun == begun_ && salt != salt_)) return false;
  if (begun > begun_) *this = ReplayWindow(begun, salt);
  if (count > newest_) {
    for (std::uint64_t i = newest_ + 1; i <= count && i - newest_ <= kSize; ++i) seen_.reset(i % kSize);
    newest_ = count;
  } else if (newest_ - count >= kSize || seen_.test(count % kSize)) {
    return false;
  }
  seen_.set(count % kSize);
  return true;
}

GangSeal::GangSeal(const std::string& key, std::uint32_t rank, BootTime begun)
    : key_(kGangKeyBytes, '\0'), rank_(rank) {
  if (::sodium_init() < 0 || key.size() < kGangKeyBytes)
    throw std::runtime_error("the server gave no key for the gang's network");
  ::crypto_generichash(bytes_of(key_), key_.size(), bytes_of(std::string_view(key)), key.size(), nullptr, 0);
  append_number(beginning_, begun);  // Later carriers of this member are told from earlier ones.
  std::string salt(kSaltBytes, '\0');
  ::randombytes_buf(salt.data(), salt.size());
  beginning_ += salt;
}

std::string GangSeal::seal(std::string_view packet, std::uint32_t to) {
  std::string nonce = beginning_;
  append_number(nonce, ++count_);
  std::string out;
  append_rank(out, rank_);
  out += nonce;
  const std::size_t start = out.size();
  out.resize(start + packet.size() + kTag);
  const std::string between = said_between(rank_, to);
  ::crypto_aead_xchacha20poly1305_ietf_encrypt(bytes_of(out) + start,
                                               nullptr,
                                               bytes_of(packet),
                                               packet.size(),
                                               bytes_of(std::string_view(between)),
                                               between.size(),
                                               nullptr,
                                               bytes_of(std::string_view(nonce)),
                                               bytes_of(std::string_view(key_)));
  return out;
}

std::optional<GangSeal::Opened> GangSeal::open(std::string_view datagram) {
  if (datagram.size() < kRankBytes + kNonce + kTag) return std::nullopt;
  Opened opened{.from = read_number(datagram)};
  const std::string_view nonce = datagram.substr(kRankBytes, kNonce);
  const std::string_view sealed = datagram.substr(kRankBytes + kNonce);
  opened.packet.resize(sealed.size() - kTag);
  const std::string between = said_between(opened.from, rank_);
  if (::crypto_aead_xchacha20poly1305_ietf_decrypt(bytes_of(opened.packet),
                                                   nullptr,
                                                   nullptr,
                                                   bytes_of(sealed),
                                                   sealed.size(),
                                                   bytes_of(std::string_view(between)),
                                                   between.size(),
                                                   bytes_of(nonce),
                                                   bytes_of(std::string_view(key_))) != 0)
    return std::nullopt;
  const bool fresh = heard_[opened.from].take(read_long(nonce),
                                              read_long(nonce.substr(kBegunBytes)),
                                              read_long(nonce.substr(kBegunBytes + kSaltBytes)));
  if (!fresh) return std::nullopt;
  return opened;
}

std::optional<std::uint32_t> gang_rank(std::string_view packet, PacketEnd end) {
  constexpr std::size_t kHeader = 20, kSender = 12, kReceiver = 16;
  if (packet.size() < kHeader || (static_cast<unsigned char>(packet[0]) >> 4U) != 4) return std::nullopt;
  const std::uint32_t address =
      read_number(packet.substr(end == PacketEnd::kSender ? kSender : kReceiver, 4));
  if ((address & kMask) != kNetwork || address == kNetwork) return std::nullopt;
  return address - kNetwork - 1;
}

Descriptor open_gang_tunnel(int init, const char* interface, std::size_t rank) {
  const std::string there_path = "/proc/" + std::to_string(init) + "/ns/net";
  const Descriptor own(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  const Descriptor there(::open(there_path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!own.open() || !there.open() || ::setns(there.get(), CLONE_NEWNET) != 0)
    fail("cannot enter the job's network");
  Descriptor tunnel;  // Belongs to the network in which it is opened.
  std::string problem;
  try {
    tunnel.reset(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
    if (!tunnel.open()) fail("networks of gangs need /dev/net/tun");
    ifreq request{};
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    std::strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
    if (::ioctl(tunnel.get(), TUNSETIFF, &request) != 0) fail("cannot make the gang's network");
    set_up_interface(interface, rank);
  } catch (const std::exception& error) { problem = error.what(); }
  if (::setns(own.get(), CLONE_NEWNET) != 0) fail("cannot leave the job's network");
  if (!problem.empty()) throw std::runtime_error(problem);
  return tunnel;
}

Descriptor open_gang_socket(std::uint16_t port) {
  Descriptor socket(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int both = 0, room = 4 << 20;
  ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  sockaddr_in6 here{};
  here.sin6_family = AF_INET6;
  here.sin6_port = htons(port);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&here), sizeof here) != 0)
    fail("port " + std::to_string(port) + " of the node, for the gang's network, cannot be had");
  return socket;
}

void carry_gang(const GangPlace& place, int tunnel, int socket, int lifeline) {
  try {
    GangSeal seal(place.key, place.rank, boot_time());
    std::vector<Place> members;
    for (const GangMember& member : place.members) members.push_back(resolved(member.host, member.port));
    std::array<char, 65'536> piece{};
    std::array<pollfd, 3> sources{{{tunnel, POLLIN, 0}, {socket, POLLIN, 0}, {lifeline, POLLIN, 0}}};
    for (;;) {
      if (::poll(sources.data(), sources.size(), -1) < 0 && errno != EINTR) ::_exit(1);
      if (sources[2].revents != 0) ::_exit(0);
      for (ssize_t got = 0; (got = ::read(tunnel, piece.data(), piece.size())) > 0;) {
        const std::string_view packet(piece.data(), static_cast<std::size_t>(got));
        const auto to = gang_rank(packet, PacketEnd::kReceiver);
        if (!to || *to >= members.size()) continue;
        const std::string out = seal.seal(packet, *to);
        ::sendto(socket,
                 out.data(),
                 out.size(),
                 0,
                 reinterpret_cast<const sockaddr*>(&members[*to].address),
                 sizeof(sockaddr_in6));  // What is lost is sent again by those who care, as on any network.
      }
      for (ssize_t got = 0; (got = ::recv(socket, piece.data(), piece.size(), 0)) > 0;) {
        const auto in = seal.open({piece.data(), static_cast<std::size_t>(got)});
        const bool honest = in && gang_rank(in->packet, PacketEnd::kSender) == in->from &&
                            gang_rank(in->packet, PacketEnd::kReceiver) == place.rank;
        if (honest && ::write(tunnel, in->packet.data(), in->packet.size()) < 0 && errno == EBADFD)
          ::_exit(1);
      }
    }
  } catch (const std::exception&) { ::_exit(1); }
}

}  // namespace tranche::agent
