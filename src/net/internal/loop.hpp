// SPDX-License-Identifier: Apache-2.0
#pragma once
// One thread of the network: its io_context, the sessions that live on it, their deadlines, and the
// mailbox through which other threads reach them.
#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "net/cpu_pressure.hpp"

namespace tranche::net {

using Clock = std::chrono::steady_clock;

// Something brought to the loop's thread. Each object is queued at most once at a time.
class Mail {
 public:
  virtual ~Mail() = default;
  virtual void deliver() = 0;  // On the loop's thread. Must not throw.

 private:
  friend class Loop;
  Mail* next_ = nullptr;
  std::shared_ptr<Mail> keep_;  // Alive while queued.
};

// A connection of any kind. The loop owns it until it leaves.
class Session {
 public:
  virtual ~Session() = default;
  virtual void expire(Clock::time_point now) = 0;  // Called regularly: act on deadlines that passed.
  virtual void drain() = 0;                        // Finish what is in flight, then leave.
  virtual void abort() = 0;                        // Leave now.
  virtual void flush() {}                          // After a batch of mail, once, when marked.

 private:
  friend class Loop;
  std::size_t slot_ = 0;
  bool marked_ = false;
};

class Loop : public std::enable_shared_from_this<Loop> {
 public:
  explicit Loop(std::chrono::milliseconds tick, std::chrono::microseconds spin = {});
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Any thread:
  void post(std::shared_ptr<Mail> mail);
  void start();
  void stop();  // Aborts every session and joins the thread. Mail that comes later is dropped.
  void begin_drain();
  [[nodiscard]] std::size_t sessions() const { return session_count_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool draining() const { return draining_.load(std::memory_order_relaxed); }
  boost::asio::io_context& io() { return io_; }

  // The loop's thread only:
  [[nodiscard]] bool stopped() const { return stopped_; }
  void add(std::shared_ptr<Session> session);
  void remove(Session& session);
  void mark(Session& session);
  void read_mail();  // Delivers what is queued, then flushes every session marked meanwhile.
  std::span<char> scratch() { return scratch_; }
  std::string_view date();  // "Sun, 06 Nov 1994 08:49:37 GMT", renewed every second.

  // While one lives on the loop's own thread, mail posted there waits for read_mail() without a wake-up.
  class Busy {
   public:
    explicit Busy(Loop& loop);
    ~Busy();
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    Loop* before_;
  };

 private:
  friend class WakeUps;
  void wake();
  void tick();
  void take_mail();
  void run();
  bool look_for_more();
  bool has_processor_to_spare(std::chrono::steady_clock::time_point now);

  boost::asio::io_context io_;
  boost::asio::steady_timer timer_;
  std::chrono::milliseconds tick_;
  const std::chrono::microseconds spin_;
  std::uint32_t found_by_looking_ = 0;  // Of the last 32 times, a bit each.
  std::uint32_t sleeps_ = 0;
  CpuPressure pressure_;
  std::chrono::steady_clock::time_point pressed_since_{}, look_again_{};
  std::atomic<Mail*> mailbox_{nullptr};
  std::vector<std::shared_ptr<Session>> sessions_;
  std::vector<std::shared_ptr<Session>> marked_;
  std::atomic<std::size_t> session_count_{0};
  std::atomic<bool> draining_{false};
  bool stopped_ = false;
  std::array<char, 64 * 1024> scratch_{};
  std::int64_t date_second_ = -1;
  std::string date_;
  std::thread thread_;
};

// Counts AnswerBatch guards of this thread and wakes each loop once at the end of the last.
void hold_wake_ups();
void release_wake_ups();

}  // namespace tranche::net
