// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies the WAL back into the database beside the appends, so that an append waits for its own sync only.
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>

#include "journal/sqlite.hpp"
#include "journal/sqlite_store.hpp"

namespace tranche::journal {

class WalCopier {
 public:
  // `writing` is held by every append. The connection is the copier's own.
  WalCopier(Database database, std::mutex& writing, std::size_t pages, WalCheckpointing mode);
  WalCopier(const WalCopier&) = delete;
  WalCopier& operator=(const WalCopier&) = delete;
  ~WalCopier();

  // After a commit, without `writing` held: the WAL has this many pages.
  void grew_to(std::size_t pages);
  // Not empty: a sync failed, and the store must stop.
  [[nodiscard]] std::string failure() const;

 private:
  void run();
  void copy();
  void copy_the_rest();
  [[nodiscard]] std::size_t copy_once();  // How many pages were left behind.

  Database database_{};
  std::mutex& writing_;
  std::size_t pages_;
  std::atomic<int> appender_policy_ = 0;
  std::atomic<bool> has_failed_ = false;
  mutable std::mutex mutex_{};
  std::condition_variable wake_{};
  std::string failure_{};
  bool due_ = false;
  bool stop_ = false;
  std::thread thread_{};  // Last: it uses everything above.
};

}  // namespace tranche::journal
