// SPDX-License-Identifier: Apache-2.0
#include "net/internal/loop.hpp"

#include <bit>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <ctime>

namespace tranche::net {
namespace {

// Stands in the mailbox of a loop that stopped: nothing is queued behind it.
class ClosedMailbox final : public Mail {
  void deliver() override {}
};

Mail* closed_mailbox() {
  static ClosedMailbox mark;
  return &mark;
}

thread_local Loop* busy_loop = nullptr;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

// What one thread still has to wake.
class WakeUps {
 public:
  static WakeUps& mine() {
    static thread_local WakeUps wake_ups;
    return wake_ups;
  }
  void hold() { ++depth_; }
  void release() {
    if (--depth_ > 0) return;
    for (const auto& loop : waiting_) loop->wake();
    waiting_.clear();
  }
  void wake(Loop& loop) { depth_ == 0 ? loop.wake() : waiting_.push_back(loop.shared_from_this()); }

 private:
  int depth_ = 0;
  std::vector<std::shared_ptr<Loop>> waiting_;
};

void hold_wake_ups() {
  WakeUps::mine().hold();
}

void release_wake_ups() {
  WakeUps::mine().release();
}

Loop::Busy::Busy(Loop& loop) : before_(busy_loop) {
  busy_loop = &loop;
}

Loop::Busy::~Busy() {
  busy_loop = before_;
}

// UNSAFE_IO: sockets are used by the loop's thread alone, only post() comes from elsewhere.
Loop::Loop(std::chrono::milliseconds tick, std::chrono::microseconds spin)
    : io_(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE_IO), timer_(io_), tick_(tick), spin_(spin) {}

Loop::~Loop() {
  stop();
}

void Loop::post(std::shared_ptr<Mail> mail) {
  Mail* const raw = mail.get();
  raw->keep_ = std::move(mail);
  Mail* head = mailbox_.load(std::memory_order_relaxed);
  do {
    if (head == closed_mailbox()) {
      const std::shared_ptr<Mail> dropped = std::move(raw->keep_);
      return;
    }
    raw->next_ = head;
  } while (!mailbox_.compare_exchange_weak(head, raw, std::memory_order_acq_rel, std::memory_order_relaxed));
  // Whoever finds the box empty wakes the loop; everyone after rides along.
  if (head == nullptr && busy_loop != this) WakeUps::mine().wake(*this);
}

void Loop::wake() {
  boost::asio::post(io_, [this] { read_mail(); });
}

void Loop::take_mail() {
  Mail* newest = mailbox_.load(std::memory_order_relaxed);
  do {
    if (newest == nullptr || newest == closed_mailbox()) return;
  } while (!mailbox_.compare_exchange_weak(newest, nullptr, std::memory_order_acq_rel));
  Mail* oldest = nullptr;
  while (newest != nullptr) {
    Mail* const next = newest->next_;
    newest->next_ = oldest;
    oldest = newest;
    newest = next;
  }
  while (oldest != nullptr) {
    const std::shared_ptr<Mail> mail = std::move(oldest->keep_);  // From here on it may be posted again.
    oldest = oldest->next_;
    mail->deliver();
  }
}

void Loop::read_mail() {
  {
    const Busy busy(*this);
    take_mail();
    for (std::size_t i = 0; i < marked_.size(); ++i) {
      const std::shared_ptr<Session> session = marked_[i];
      session->marked_ = false;
      session->flush();
    }
    marked_.clear();
  }
  // Handlers and callbacks that ran meanwhile may have posted without a wake-up.
  if (Mail* left = mailbox_.load(std::memory_order_relaxed); left != nullptr && left != closed_mailbox())
    wake();
}

void Loop::add(std::shared_ptr<Session> session) {
  session->slot_ = sessions_.size();
  sessions_.push_back(std::move(session));
  session_count_.store(sessions_.size(), std::memory_order_relaxed);
}

void Loop::remove(Session& session) {
  const std::size_t slot = session.slot_;
  if (slot >= sessions_.size() || sessions_[slot].get() != &session) return;
  const std::shared_ptr<Session> removed = std::move(sessions_[slot]);
  if (slot + 1 != sessions_.size()) {
    sessions_[slot] = std::move(sessions_.back());
    sessions_[slot]->slot_ = slot;
  }
  sessions_.pop_back();
  session_count_.store(sessions_.size(), std::memory_order_relaxed);
}

void Loop::mark(Session& session) {
  if (session.marked_) return;
  if (session.slot_ >= sessions_.size() || sessions_[session.slot_].get() != &session) return;
  session.marked_ = true;
  marked_.push_back(sessions_[session.slot_]);
}

void Loop::tick() {
  const auto now = Clock::now();
  // Backwards, because a session that leaves is replaced by the last one.
  for (std::size_t i = sessions_.size(); i-- > 0;) {
    if (i >= sessions_.size()) continue;
    const std::shared_ptr<Session> session = sessions_[i];
    session->expire(now);
  }
  read_mail();
  timer_.expires_after(tick_);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) tick();
  });
}

void Loop::start() {
  thread_ = std::thread([self = shared_from_this()] {
    const auto work = boost::asio::make_work_guard(self->io_);
    self->tick();
    self->spin_ == self->spin_.zero() ? static_cast<void>(self->io_.run()) : self->run();
  });
}

// To be woken takes longer than many an answer: so the thread looks for a moment before it sleeps.
void Loop::run() {
  while (!io_.stopped()) {
    if (io_.poll() > 0 || look_for_more()) continue;
    io_.run_one();
  }
}

// Where that found nothing most of the times before, it is tried now and then only; and not at all where
// others want the processor.
bool Loop::look_for_more() {
  constexpr int kWorthIt = 8;
  constexpr std::uint32_t kTryEvery = 64;
  if (std::popcount(found_by_looking_) < kWorthIt && ++sleeps_ % kTryEvery != 0) return false;
  auto now = Clock::now();
  if (!has_processor_to_spare(now)) return false;
  bool found = false;
  for (const auto until = now + spin_; !found && now < until; now = Clock::now()) found = io_.poll() > 0;
  found_by_looking_ = found_by_looking_ << 1U | (found ? 1U : 0U);
  return found;
}

bool Loop::has_processor_to_spare(Clock::time_point now) {
  constexpr std::chrono::milliseconds kLookEvery{10}, kLeftAlone{200};
  constexpr int kPart = 50;  // A thread that waited for this part of the time is in others' way.
  if (now - pressed_since_ >= kLookEvery) {
    if (pressure_.waited() * kPart > now - pressed_since_) look_again_ = now + kLeftAlone;
    pressed_since_ = now;
  }
  return now >= look_again_;
}

void Loop::begin_drain() {
  draining_.store(true);
  boost::asio::post(io_, [this] {
    for (std::size_t i = sessions_.size(); i-- > 0;) {
      if (i >= sessions_.size()) continue;
      const std::shared_ptr<Session> session = sessions_[i];
      session->drain();
    }
    read_mail();
  });
}

void Loop::stop() {
  if (thread_.joinable()) {
    boost::asio::post(io_, [this] {
      stopped_ = true;
      while (!sessions_.empty()) {
        const std::shared_ptr<Session> session = sessions_.back();
        session->abort();
        remove(*session);
      }
      read_mail();
      timer_.cancel();
      io_.stop();
    });
    thread_.join();
    // What waited on the sockets just closed now ends, and lets go of the sessions.
    io_.restart();
    while (io_.poll() > 0) {}
  }
  Mail* waiting = mailbox_.exchange(closed_mailbox());
  while (waiting != nullptr && waiting != closed_mailbox()) {
    const std::shared_ptr<Mail> dropped = std::move(waiting->keep_);
    waiting = waiting->next_;
  }
}

std::string_view Loop::date() {
  const std::int64_t second = std::time(nullptr);
  if (second != date_second_) {
    date_second_ = second;
    const std::time_t now = second;
    std::tm parts{};
    gmtime_r(&now, &parts);
    std::array<char, 40> text{};
    date_.assign(text.data(), std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts));
  }
  return date_;
}

}  // namespace tranche::net
