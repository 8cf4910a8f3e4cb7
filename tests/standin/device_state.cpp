// SPDX-License-Identifier: Apache-2.0
#include "device_state.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <fcntl.h>
#include <fstream>
#include <new>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.hpp"

namespace standin {
namespace {

int lock_file = -1;  // Never closed: closing any descriptor of the file would drop the slot's record lock.

std::uint64_t own_start_ticks() {
  std::ifstream stat("/proc/self/stat");
  std::string text;
  std::getline(stat, text);
  const auto after_name = text.rfind(')');
  if (after_name == std::string::npos) return 0;
  const char* cursor = text.c_str() + after_name + 1;
  for (int field = 2; field < 21 && cursor != nullptr; ++field) cursor = std::strchr(cursor + 1, ' ');
  return cursor == nullptr ? 0 : std::strtoull(cursor, nullptr, 10);
}

std::uint64_t own_pid_namespace() {
  struct stat found{};
  return ::stat("/proc/self/ns/pid", &found) == 0 ? static_cast<std::uint64_t>(found.st_ino) : 0;
}

bool is_own(const Slot& slot) {
  static const std::uint64_t ticks = own_start_ticks();
  static const std::uint64_t pid_namespace = own_pid_namespace();
  return slot.pid.load() == ::getpid() && slot.start_ticks == ticks && slot.pid_namespace == pid_namespace;
}

void create(SharedState& state) {
  const Config config = read_config(state_path());
  std::memcpy(static_cast<void*>(&state.config), &config, sizeof config);
  state.size = sizeof(SharedState);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&state.mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  for (unsigned device = 0; device < config.device_count; ++device) format_device(state, device);
  state.magic.store(kMagic);
}

SharedState* map_state() {
  const int file = ::open(state_path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0 || ::flock(file, LOCK_EX) != 0) return nullptr;
  struct stat found{};
  ::fstat(file, &found);
  if (found.st_size == 0 && ::ftruncate(file, static_cast<off_t>(sizeof(SharedState))) != 0) return nullptr;
  void* memory = ::mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* state = static_cast<SharedState*>(memory);
  if (state->magic.load() != kMagic) create(*state);
  ::flock(file, LOCK_UN);  // The mapping keeps the open file, so closing alone would not unlock.
  ::close(file);
  if (state->size != sizeof(SharedState)) {
    std::fprintf(stderr, "stand-in: %s was made by another build\n", state_path().c_str());
    return nullptr;
  }
  lock_file = ::open((state_path() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  return lock_file < 0 ? nullptr : state;
}

}  // namespace

std::uint64_t now_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

void spin_for(std::uint64_t nanoseconds) {
  if (nanoseconds == 0) return;
  const std::uint64_t until = now_ns() + nanoseconds;
  while (now_ns() < until) __builtin_ia32_pause();
}

void sleep_until(std::uint64_t at_ns) {
  static thread_local const int slack = ::prctl(PR_SET_TIMERSLACK, 1);  // Default slack is 50 us.
  static_cast<void>(slack);
  timespec time{};
  time.tv_sec = static_cast<time_t>(at_ns / 1'000'000'000);
  time.tv_nsec = static_cast<long>(at_ns % 1'000'000'000);
  while (now_ns() < at_ns) ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr);
}

const std::string& state_path() {
  static const std::string path = [] {
    const char* name = std::getenv("TRANCHE_STANDIN");
    return std::string(name == nullptr ? "" : name);
  }();
  return path;
}

SharedState* attach_state() {
  static SharedState* const state = []() -> SharedState* {
    if (state_path().empty()) {
      std::fputs("stand-in driver (SIMULATED, for tests): TRANCHE_STANDIN is not set\n", stderr);
      return nullptr;
    }
    try {
      SharedState* mapped = map_state();
      if (mapped == nullptr)
        std::fprintf(stderr, "stand-in: cannot map %s: %s\n", state_path().c_str(), std::strerror(errno));
      return mapped;
    } catch (const std::exception& problem) {
      std::fprintf(stderr, "stand-in: %s: %s\n", state_path().c_str(), problem.what());
      return nullptr;
    }
  }();
  return state;
}

std::uint32_t attach_slot(SharedState& state) {
  const StateLock lock(state);
  reclaim_dead(state);
  for (std::uint32_t index = 0; index < kSlotsMax; ++index) {
    Slot& slot = state.slots[index];
    if (slot.used.load() != 0) continue;
    struct flock region{};
    region.l_type = F_WRLCK;
    region.l_whence = SEEK_SET;
    region.l_start = index;
    region.l_len = 1;
    if (::fcntl(lock_file, F_SETLK, &region) != 0) continue;
    const bool reused = slot.attach_ns != 0;
    std::memset(static_cast<void*>(&slot), 0, offsetof(Slot, bucket));
    if (reused)
      std::memset(static_cast<void*>(slot.bucket), 0, sizeof slot.bucket[0] * state.config.device_count);
    slot.pid.store(::getpid());
    slot.pid_namespace = own_pid_namespace();
    slot.start_ticks = own_start_ticks();
    slot.attach_ns = now_ns();
    std::ifstream name("/proc/self/comm");
    name.getline(slot.command, sizeof slot.command);
    slot.used.store(1);
    return index;
  }
  return kNone;
}

bool slot_alive(const SharedState& state, std::uint32_t slot) {
  return state.slots[slot].used.load() != 0 && (is_own(state.slots[slot]) || visible_pid(state, slot) >= 0);
}

std::int32_t visible_pid(const SharedState& state, std::uint32_t slot) {
  if (is_own(state.slots[slot])) return ::getpid();
  struct flock region{};
  region.l_type = F_WRLCK;
  region.l_whence = SEEK_SET;
  region.l_start = slot;
  region.l_len = 1;
  if (::fcntl(lock_file, F_GETLK, &region) != 0 || region.l_type == F_UNLCK) return -1;
  return region.l_pid;
}

StateLock::StateLock(SharedState& state) : state_(state) {
  if (pthread_mutex_lock(&state_.mutex) != EOWNERDEAD) return;
  for (unsigned device = 0; device < state_.config.device_count; ++device) rebuild_blocks(state_, device);
  pthread_mutex_consistent(&state_.mutex);
}

StateLock::~StateLock() {
  pthread_mutex_unlock(&state_.mutex);
}

}  // namespace standin
