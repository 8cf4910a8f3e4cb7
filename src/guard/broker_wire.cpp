// SPDX-License-Identifier: Apache-2.0
#include "guard/broker_wire.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace tranche::guard {

bool send_message(int socket, const void* data, std::uint32_t bytes, const int* fds, std::uint32_t fd_count) {
  iovec part{const_cast<void*>(data), bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kFdsMax)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd_count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
    std::memcpy(CMSG_DATA(header), fds, sizeof(int) * fd_count);
  }
  ssize_t sent = 0;
  do { sent = ::sendmsg(socket, &message, MSG_NOSIGNAL); } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes);
}

bool receive_message(int socket, void* data, std::uint32_t bytes, int* fds, std::uint32_t fd_count) {
  for (std::uint32_t i = 0; i < fd_count; ++i) fds[i] = -1;
  iovec part{data, bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kFdsMax)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got = 0;
  do { got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC); } while (got < 0 && errno == EINTR);
  for (cmsghdr* h = got < 0 ? nullptr : CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    const std::uint32_t count = static_cast<std::uint32_t>((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (std::uint32_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof fd);
      if (i < fd_count) {
        fds[i] = fd;
      } else {
        ::close(fd);
      }
    }
  }
  return got == static_cast<ssize_t>(bytes);
}

int connect_to(const char* path) {
  sockaddr_un address{};
  if (path == nullptr || std::strlen(path) >= sizeof address.sun_path) return -1;
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path);
  const timeval patience{5, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  int outcome = 0;
  do {
    outcome = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } while (outcome < 0 && errno == EINTR);
  if (outcome == 0) return fd;
  ::close(fd);
  return -1;
}

int create_region(const char* name, std::uint64_t bytes) {
  const int fd = ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  if (::ftruncate(fd, static_cast<off_t>(bytes)) == 0 &&
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
    return fd;
  ::close(fd);
  return -1;
}

void seal_control(int fd) {
  // Existing mappings (the broker's) stay writable; no new one can be, not even through /proc/self/fd.
  ::fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
}

void* map_region(int fd, std::uint64_t bytes, bool writable) {
  struct stat info{};
  if (::fstat(fd, &info) != 0 || static_cast<std::uint64_t>(info.st_size) < bytes) return nullptr;
  // A region that its sender could shrink later would be a way to kill us with SIGBUS.
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return nullptr;
  void* memory = ::mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace tranche::guard
