// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is on a lane of a device, in which order, and until when? The arbiter's model of a queue that serves
// first come, first served and cannot be asked.
//
// It is built from what tenants submit (lengths are predictions) and put right by the ends they measure. Work
// began when the work before it ended, whoever's that was: so two ends in a row say how long a stretch really
// took. All device time between two known ends goes to somebody, and no error adds up.
#include <cstdint>
#include <vector>

namespace tranche::guard {

class DeviceQueue {
 public:
  // A stretch of one tenant's work whose share of the device's time is known.
  struct Settled {
    std::uint64_t key = 0;
    std::uint64_t submitted_to = 0;
    std::uint64_t began_at = 0;
    std::uint64_t predicted_ns = 0;
    std::uint64_t took_ns = 0;
    bool exact = false;  // Its own end was told, and so was the end of what was before it.
  };

  void accept(std::uint64_t key, std::uint64_t came_at, std::uint64_t submitted_to, std::uint64_t length);
  // The work of `key` up to `mark` had ended at `ended_at`. Whoever claimed to run far longer in front of it
  // did no mistake: their keys are in doubtful().
  void ended(std::uint64_t key, std::uint64_t mark, std::uint64_t ended_at);
  [[nodiscard]] const std::vector<std::uint64_t>& doubtful() const { return doubtful_; }
  // Nobody is held up any longer by what this tenant claims to run.
  void forget(std::uint64_t key);
  // What became known since the last time; valid until the next.
  const std::vector<Settled>& settle(std::uint64_t now);

  [[nodiscard]] std::uint64_t busy_until() const { return busy_until_; }
  // When the last work of this tenant ends; zero: there is none.
  [[nodiscard]] std::uint64_t ends_at(std::uint64_t key) const;
  // Ends have lately come when the model said they would, so it may be built upon.
  [[nodiscard]] bool well_foreseen() const;

 private:
  struct Stretch {
    std::uint64_t key = 0;
    std::uint64_t came_at = 0;
    std::uint64_t submitted_to = 0;
    std::uint64_t length = 0;
    std::uint64_t end = 0;
    bool known = false;  // The end was measured.
  };

  void compare(std::uint64_t ended_at, std::uint64_t modelled, std::uint64_t length);
  void doubt_before(std::size_t index, std::uint64_t ended_at);
  void replay_from(std::size_t index);
  void settle_up_to(std::size_t index);

  std::vector<Stretch> queue_;  // Oldest first.
  std::vector<Settled> settled_;
  std::vector<std::uint64_t> doubtful_;
  std::uint64_t busy_until_ = 0;
  std::uint64_t settled_to_ = 0;         // The last end that everything before is accounted up to.
  std::uint32_t foreseen_in_a_row_ = 0;  // Ends that came when the model said they would.
};

}  // namespace tranche::guard
