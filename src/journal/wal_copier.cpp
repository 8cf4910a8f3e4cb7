// SPDX-License-Identifier: Apache-2.0
#include "journal/wal_copier.hpp"

#include <sched.h>
#include <utility>

#include "journal/failpoint.hpp"
#include "journal/urgent_thread.hpp"

namespace tranche::journal {

WalCopier::WalCopier(Database database, std::mutex& writing, std::size_t pages, WalCheckpointing mode)
    : database_(std::move(database)), writing_(writing), pages_(pages) {
  if (mode == WalCheckpointing::kBackground) thread_ = std::thread([this] { run(); });
}

WalCopier::~WalCopier() {
  {
    const std::lock_guard hold(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void WalCopier::grew_to(std::size_t pages) {
  if (pages < pages_) return;
  if (!thread_.joinable()) {
    copy();
    return;
  }
  appender_policy_ = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
  {
    const std::lock_guard hold(mutex_);
    due_ = true;
  }
  wake_.notify_one();
}

std::string WalCopier::failure() const {
  if (!has_failed_.load(std::memory_order_acquire)) return {};
  const std::lock_guard hold(mutex_);
  return failure_;
}

void WalCopier::run() {
  std::unique_lock hold(mutex_);
  for (;;) {
    wake_.wait(hold, [this] { return due_ || stop_; });
    if (stop_) return;
    due_ = false;
    hold.unlock();
    copy();
    hold.lock();
  }
}

void WalCopier::copy() {
  try {
    failpoint("wal.copy");
    // The long part goes beside the appends, which add a little meanwhile.
    std::size_t left = copy_once();
    for (int again = 0; again < 3 && left > pages_ / 16; ++again) left = copy_once();
    if (left != 0) copy_the_rest();
    failpoint("wal.copied");
  } catch (const DiskFull&) {
    return;  // The records are safe in the WAL. It is tried again after the next append.
  } catch (const std::exception& error) {
    const std::lock_guard hold(mutex_);
    failure_ = error.what();
    has_failed_.store(true, std::memory_order_release);
  }
}

// Only a WAL copied to its end can start over; otherwise it would grow for as long as appends keep coming.
// They wait for this, so it runs at their priority.
void WalCopier::copy_the_rest() {
  const std::lock_guard hold(writing_);
  const bool is_urgent = appender_policy_ != SCHED_OTHER && thread_.joinable() && make_this_thread_urgent();
  try {
    static_cast<void>(copy_once());
  } catch (...) {
    if (is_urgent) make_this_thread_ordinary();
    throw;
  }
  if (is_urgent) make_this_thread_ordinary();
}

std::size_t WalCopier::copy_once() {
  int pages_in_wal = 0;
  int pages_copied = 0;
  const int code = sqlite3_wal_checkpoint_v2(
      database_.handle(), nullptr, SQLITE_CHECKPOINT_PASSIVE, &pages_in_wal, &pages_copied);
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED) return 0;  // A reader or another checkpoint: next time.
  throw_sqlite_error(database_.handle(), code, "copy the WAL");
  return pages_in_wal > pages_copied ? static_cast<std::size_t>(pages_in_wal - pages_copied) : 0;
}

}  // namespace tranche::journal
