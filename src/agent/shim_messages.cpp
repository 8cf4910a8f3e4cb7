// SPDX-License-Identifier: Apache-2.0
#include "agent/shim_messages.hpp"

#include <array>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace tranche::agent {
namespace {

constexpr std::size_t kDescriptorsMax = 4;

// A folder's path may be longer than a socket's may: go through its descriptor.
struct Address {
  Descriptor folder;
  sockaddr_un name{};
  Address(const std::string& path, const char* file)
      : folder(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    name.sun_family = AF_UNIX;
    std::snprintf(name.sun_path, sizeof name.sun_path, "/proc/self/fd/%d/%s", folder.get(), file);
  }
};

}  // namespace

Descriptor open_datagrams() {
  return Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

bool name_datagrams(const Descriptor& socket, const std::string& folder, const char* name) {
  const Address address(folder, name);
  ::unlink(address.name.sun_path);
  return address.folder.open() &&
         ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.name), sizeof address.name) == 0;
}

Descriptor bind_datagrams(const std::string& folder, const char* name) {
  Descriptor socket = open_datagrams();
  if (!name_datagrams(socket, folder, name)) socket.reset();
  return socket;
}

bool send_datagram(int from,
                   const std::string& folder,
                   const char* name,
                   const void* data,
                   std::size_t bytes,
                   const int* descriptors,
                   std::size_t count) {
  Address address(folder, name);
  if (!address.folder.open() || count > kDescriptorsMax) return false;
  iovec piece{const_cast<void*>(data), bytes};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kDescriptorsMax)> space{};
  msghdr message{};
  message.msg_name = &address.name;
  message.msg_namelen = sizeof address.name;
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (count > 0) {
    message.msg_control = space.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * count);
    std::memcpy(CMSG_DATA(header), descriptors, sizeof(int) * count);
  }
  return ::sendmsg(from, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(bytes);
}

bool receive_datagram(int socket, void* data, std::size_t bytes, int* descriptors, std::size_t count) {
  iovec piece{data, bytes};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kDescriptorsMax)> space{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  for (std::size_t i = 0; i < count; ++i) descriptors[i] = -1;
  const ssize_t got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return false;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t sent = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < sent; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof descriptor);
      if (i < count) {
        descriptors[i] = descriptor;
      } else {
        ::close(descriptor);
      }
    }
  }
  return got == static_cast<ssize_t>(bytes);
}

}  // namespace tranche::agent
