// SPDX-License-Identifier: Apache-2.0
#include "guard/arbiter.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace tranche::guard {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::uint64_t kPollActiveNs = 5'000'000;
constexpr std::uint64_t kPollIdleNs = 100'000'000;
constexpr std::uint64_t kLooksALead = 8;           // At what nobody rings for: work that was confirmed.
constexpr std::uint64_t kLookEveryNs = 1'000'000;  // And not more often.
constexpr std::uint64_t kUrgentCreditNs = 1'000'000'000;
constexpr std::uint64_t kGrantExpiresNs = 5'000'000;
constexpr std::uint64_t kComesWithinNs = 500'000;   // Beyond the lead: threads of a quiet host.
constexpr std::uint64_t kLeadStepNs = 40'000;       // At most, the first time the host is late.
constexpr std::uint64_t kAwayNs = 1'000'000'000;    // Then its return is no longer waited for.
constexpr std::uint64_t kMayComeNs = 100'000'000;   // So soon after its last work the lead is short for it.
constexpr std::uint64_t kPatienceNs = 250'000'000;  // Then a waiting tenant puts claims to the test.
constexpr std::int64_t kUnconfirmedMaxNs = 1'000'000'000;
constexpr std::uint64_t kConfirmedWithinNs = 200'000'000;
constexpr std::uint64_t kDoubtedForNs = 10'000'000'000;
constexpr std::uint64_t kKeptOffForNs = 1'000'000'000;  // Whoever stays away longer is gone.

}  // namespace

void LaneArbiter::add(std::uint64_t key, LaneControl* rules, const LaneLedger* ledger, std::uint64_t now) {
  Tenant tenant;
  tenant.key = key;
  tenant.rules = rules;
  tenant.ledger = ledger;
  tenant.submitted = ledger->submitted_ns.load(kRelaxed);
  tenant.charged = charged_ns(*ledger);
  tenant.served_wait = tenant.seen_wait = ledger->wait_seq.load(kRelaxed);
  tenant.last_end = now;
  tenant.active_at = now;
  tenant.virtual_ns = virtual_now();
  rules->granted_ns.store(tenant.submitted + settings_.quantum_ns, kRelaxed);
  tenants_.push_back(tenant);
}

void LaneArbiter::remove(std::uint64_t key) {
  std::erase_if(tenants_, [&](const Tenant& tenant) { return tenant.key == key; });
}

void LaneArbiter::set(std::uint64_t key, std::uint32_t share, std::uint32_t priority, ShareMode mode) {
  for (Tenant& tenant : tenants_) {
    if (tenant.key != key) continue;
    tenant.share = std::max(1U, share);
    tenant.priority = priority;
    tenant.mode = mode;
  }
}

// The model's clock of fairness: where the least served of those that compete stands.
double LaneArbiter::virtual_now() const {
  double least = 0;
  bool any = false;
  for (const Tenant& tenant : tenants_) {
    if (!tenant.waits() && !tenant.granted) continue;
    if (!any || tenant.virtual_ns < least) least = tenant.virtual_ns;
    any = true;
  }
  if (any) return least;
  for (const Tenant& tenant : tenants_) least = std::max(least, tenant.virtual_ns);
  return least;
}

// Where no ends are told, what is not confirmed yet is still to be done, however slow the device is: one that
// is the host's own processor has others to serve, too.
std::uint64_t LaneArbiter::busy_until(std::uint64_t now) const {
  std::uint64_t unconfirmed = 0;
  for (const Tenant& tenant : tenants_) unconfirmed += tenant.unconfirmed - tenant.lost;
  return std::max({queue_.busy_until(), now, now + unconfirmed});
}

// On a device that runs tenants side by side, which tell what they did and not when it ended.
bool LaneArbiter::works_side_by_side(const Tenant& tenant, std::uint64_t now) const {
  const bool is_coming = tenant.granted && now < comes_until(tenant);
  return !ends_are_told_ && tenant.confirmed != 0 && (tenant.unconfirmed > tenant.lost || is_coming);
}

std::uint64_t LaneArbiter::horizon(std::uint64_t now) const {
  std::uint64_t until = busy_until(now);
  for (const Tenant& tenant : tenants_)
    if (tenant.granted && now < comes_until(tenant)) until += tenant.expected_ns;
  return until;
}

// Too late means that the device would have stood still with this lead, although the tenant had been waiting
// all along. A host that stalls once moves the lead little, one that is late again and again moves it fast.
void LaneArbiter::adapt_lead(const Tenant& tenant, std::uint64_t came_at) {
  const bool waited_in_time = tenant.waits_since <= tenant.due_at && tenant.due_at != 0 && !tenant.held;
  if (waited_in_time && came_at > tenant.due_at + lead_ns_) {
    const std::uint64_t idle = came_at - tenant.due_at - lead_ns_;
    const std::uint64_t step = std::min(idle / 16 + 5'000, kLeadStepNs << late_in_a_row_);
    lead_ns_ = std::min(settings_.lead_max_ns, lead_ns_ + step);
    late_in_a_row_ = std::min(late_in_a_row_ + 1, 6U);
    return;
  }
  late_in_a_row_ -= std::min(late_in_a_row_, 1U);
  lead_ns_ -= std::min(1'000 + lead_ns_ / 1024, lead_ns_ - settings_.lead_min_ns);
}

// New work of a predicted length came in. Who was found to claim work that never ran is charged for it all
// the same, but holds nobody up with it.
void LaneArbiter::accept(Tenant& tenant, std::uint64_t came_at, std::uint64_t length) {
  if (tenant.granted) adapt_lead(tenant, came_at);
  if (came_at < tenant.doubted_until) return;
  queue_.accept(tenant.key, came_at, tenant.submitted, length);
  tenant.work_ends_at = queue_.busy_until();
}

LaneArbiter::Tenant* LaneArbiter::find(std::uint64_t key) {
  const auto found =
      std::find_if(tenants_.begin(), tenants_.end(), [&](const Tenant& tenant) { return tenant.key == key; });
  return found == tenants_.end() ? nullptr : &*found;
}

// A tenant measured when the device really finished something: put the model right from there on.
void LaneArbiter::learn_ends(Tenant& tenant, std::uint64_t now) {
  std::array<Pair, kEndsKept> ends;
  for (std::uint32_t i = 0; i < kEndsKept; ++i) ends[i] = tenant.ledger->ends[i].load();
  std::sort(
      ends.begin(), ends.end(), [](const Pair& left, const Pair& right) { return left.low < right.low; });
  for (const Pair& report : ends) {
    if (report.low <= tenant.last_end || report.low > now) continue;
    tenant.last_end = report.low;
    tenant.probing = false;
    queue_.ended(tenant.key, report.high, report.low);
    for (const std::uint64_t key : queue_.doubtful())
      if (Tenant* teller = find(key)) teller->doubted_until = report.low + kDoubtedForNs;
  }
  for (const Tenant& each : tenants_)
    if (now < each.doubted_until) queue_.forget(each.key);
}

// What work really took is charged for fairness, and told to its owner, who learns from it.
void LaneArbiter::settle(std::uint64_t now) {
  for (const DeviceQueue::Settled& work : queue_.settle(now)) {
    Tenant* tenant = find(work.key);
    if (tenant == nullptr) continue;
    const auto error = static_cast<std::int64_t>(work.took_ns - work.predicted_ns);
    tenant->virtual_ns += static_cast<double>(error) * kShareWhole / tenant->share;
    if (!work.exact) continue;
    AtomicPair& place = tenant->rules->began[tenant->began_told++ % kEndsKept];
    place.replace(place.load(), {work.began_at, work.submitted_to});
  }
}

// A measure that was lost confirms nothing, ever. When nothing at all is confirmed for long, what is left was
// lost.
void LaneArbiter::count_unconfirmed(Tenant& tenant, std::uint64_t now) const {
  tenant.unconfirmed = 0;
  if (!ends_are_told_) {
    const std::uint64_t confirmed = tenant.ledger->measured_ns.load(kRelaxed);
    if (std::exchange(tenant.confirmed, confirmed) != confirmed) tenant.confirmed_at = now;
    const auto open = static_cast<std::int64_t>(tenant.charged - confirmed);
    tenant.unconfirmed = static_cast<std::uint64_t>(std::clamp<std::int64_t>(open, 0, kUnconfirmedMaxNs));
  }
  const bool stuck = now > tenant.confirmed_at + kConfirmedWithinNs;
  tenant.lost = stuck ? tenant.unconfirmed : std::min(tenant.lost, tenant.unconfirmed);
}

void LaneArbiter::read(Tenant& tenant, std::uint64_t now) {
  const std::uint64_t submitted = tenant.ledger->submitted_ns.load(std::memory_order_acquire);
  const std::uint64_t charged = charged_ns(*tenant.ledger);
  const std::uint64_t fresh = std::min<std::uint64_t>(submitted - tenant.submitted, 60'000'000'000);
  auto cost = static_cast<std::int64_t>(fresh);
  // Where tenants run side by side no end says anything about others, and none is told: its own word has to
  // do.
  if (!ends_are_told_) cost = static_cast<std::int64_t>(charged - tenant.charged);
  tenant.virtual_ns += static_cast<double>(cost) * kShareWhole / tenant.share;
  tenant.submitted = submitted;
  tenant.charged = charged;
  count_unconfirmed(tenant, now);
  if (fresh > 0) {
    accept(tenant, tenant.came_at, fresh);
    tenant.active_at = now;
    tenant.expected_ns -= std::min(tenant.expected_ns, fresh);
    if (tenant.expected_ns == 0) tenant.granted = false;
  }
  tenant.used_grant |= fresh > 0;
  tenant.kept_off &= fresh == 0;
  learn_ends(tenant, now);
  const std::uint64_t wait = tenant.ledger->wait_seq.load(std::memory_order_acquire);
  if (wait != tenant.seen_wait) {
    if (!tenant.waits()) tenant.waits_since = now;
    tenant.seen_wait = wait;
    tenant.active_at = tenant.waited_at = now;
    if (tenant.used_grant) tenant.granted = false;  // It spent what it got and is back.
  }
  if (tenant.granted && now > expires_at(tenant)) {
    tenant.granted = false;
    tenant.kept_off = !tenant.used_grant;
  }
  if (now > tenant.granted_at + kKeptOffForNs) tenant.kept_off = false;
}

// Who came first stands first on the device, whoever is looked at first here.
void LaneArbiter::read_all(std::uint64_t now) {
  arrivals_.clear();
  ends_are_told_ = std::any_of(tenants_.begin(), tenants_.end(), [](const Tenant& tenant) {
    return tenant.ledger->ends_told.load(kRelaxed) != 0;
  });
  for (Tenant& tenant : tenants_) {
    // The ledger is the tenant's own: what cannot be is a lie that may only hurt its teller.
    tenant.came_at = std::min(tenant.ledger->submitted_at.load(std::memory_order_acquire), now);
    arrivals_.push_back(&tenant);
  }
  std::stable_sort(arrivals_.begin(), arrivals_.end(), [](const Tenant* left, const Tenant* right) {
    return left->came_at < right->came_at;
  });
  for (Tenant* tenant : arrivals_) read(*tenant, now);
}

// So long the device is kept free for what a tenant was let in with. Should it come later, it stands behind.
std::uint64_t LaneArbiter::comes_until(const Tenant& tenant) const {
  return tenant.granted_at + lead_ns_ + kComesWithinNs;
}

// Nobody waits long for a tenant that was let in and does not come: it may be stopped.
std::uint64_t LaneArbiter::expires_at(const Tenant& tenant) const {
  return tenant.granted_at + (tenant.used_grant ? settings_.quantum_ns : kGrantExpiresNs) + 4 * lead_ns_;
}

// Idle tenants hold as much credit as their share fell behind, so that a light one never has to ask. One that
// was let in and did not come keeps its claim instead, until its host lets it run.
void LaneArbiter::keep_standing(std::uint64_t now) {
  const double front = virtual_now();
  std::uint32_t top = 0;
  std::uint32_t bottom = UINT32_MAX;
  for (const Tenant& tenant : tenants_) {
    top = std::max(top, tenant.priority);
    bottom = std::min(bottom, tenant.priority);
  }
  for (Tenant& tenant : tenants_) {
    const bool away = !tenant.waits() && !tenant.granted && now > tenant.active_at + settings_.idle_after_ns;
    const std::uint64_t claim = tenant.kept_off ? settings_.kept_off_ns : settings_.standing_ns;
    const double floor = front - static_cast<double>(claim) * kShareWhole / tenant.share;
    if (away) tenant.virtual_ns = std::max(tenant.virtual_ns, floor);
    const bool idle = away && !tenant.kept_off;
    std::uint64_t credit = 0;
    if (tenant.priority == top && top > bottom) {
      credit = kUrgentCreditNs;
    } else if (idle && tenant.virtual_ns < front) {
      credit = static_cast<std::uint64_t>((front - tenant.virtual_ns) * tenant.share / kShareWhole);
    }
    if (credit == 0) continue;
    const std::uint64_t granted = tenant.submitted + credit;
    if (static_cast<std::int64_t>(granted - tenant.rules->granted_ns.load(kRelaxed)) > 0)
      tenant.rules->granted_ns.store(granted, std::memory_order_release);
  }
}

LaneArbiter::Tenant* LaneArbiter::choose() {
  Tenant* best = nullptr;
  for (Tenant& tenant : tenants_) {
    if (!tenant.waits() || tenant.granted) continue;
    const bool better = best == nullptr || tenant.priority > best->priority ||
                        (tenant.priority == best->priority && tenant.virtual_ns < best->virtual_ns);
    if (better) best = &tenant;
  }
  return best;
}

// A short queue on the device serves whoever is not there yet, first of all the urgent, and whoever brings
// its next kernel only when the last has ended. While every tenant stands at the gate with more, or has been
// away for long, there is nobody to keep it short for, and a long one outlasts a host that wakes threads
// late. A tenant that has all it can bring in flight is not at the gate, so the queue grows no longer than
// the shallowest can fill. A light tenant that is due more than it asks for pays for a late host with its
// latency if the lead outgrows a kernel or two; what it costs otherwise is a device that stands still now and
// then.
std::uint64_t LaneArbiter::lead_for(const Tenant& chosen, std::uint64_t now) const {
  bool may_be_long = queue_.well_foreseen() || !ends_are_told_;
  bool all_compete = true;
  bool somebody_urgent = false;
  bool somebody_entitled = false;
  bool beside_somebody_due = false;
  for (const Tenant& tenant : tenants_) {
    const bool more_urgent = tenant.priority > chosen.priority;
    const bool away = !more_urgent && now > tenant.active_at + kAwayNs;
    may_be_long &= tenant.waits() || away;
    all_compete &= tenant.waits() || now < tenant.waited_at + settings_.idle_after_ns || away;
    somebody_urgent |= more_urgent;
    const bool has_more_due = tenant.priority == chosen.priority && tenant.virtual_ns < chosen.virtual_ns;
    const bool was_here = now < tenant.active_at + kMayComeNs;
    somebody_entitled |= has_more_due && !tenant.waits() && was_here;
    beside_somebody_due |= (more_urgent || has_more_due) && works_side_by_side(tenant, now);
  }
  if (beside_somebody_due) return settings_.lead_min_ns;
  if (may_be_long) return lead_ns_ + settings_.gate_lead_ns;
  if (all_compete) return lead_ns_ + settings_.crowd_lead_ns;
  if (somebody_urgent) return std::min(lead_ns_, settings_.urgent_lead_max_ns);
  return somebody_entitled ? std::min(lead_ns_, settings_.entitled_lead_max_ns) : lead_ns_;
}

// More urgent work ended a moment ago, or is about to: its owner may be on the way with the next piece.
std::uint64_t LaneArbiter::hold_until(const Tenant& chosen) const {
  std::uint64_t until = 0;
  for (const Tenant& tenant : tenants_) {
    if (&tenant == &chosen || tenant.waits() || tenant.granted) continue;
    const double credit = (chosen.virtual_ns - tenant.virtual_ns) * tenant.share / kShareWhole;
    const bool urgent =
        tenant.priority > chosen.priority ||
        (tenant.priority == chosen.priority && credit * 2 > static_cast<double>(settings_.standing_ns));
    if (urgent && tenant.work_ends_at != 0)
      until = std::max(until, tenant.work_ends_at + settings_.anticipate_ns);
  }
  return until;
}

void LaneArbiter::grant(Tenant& tenant, std::uint64_t now, std::uint64_t lead) {
  const std::uint64_t quantum = std::max(settings_.quantum_ns, std::min(lead, lead_ns_) / 2);
  tenant.rules->granted_ns.store(tenant.submitted + quantum, std::memory_order_release);
  tenant.served_wait = tenant.seen_wait;
  tenant.granted = true;
  tenant.used_grant = false;
  tenant.granted_at = now;
  const std::uint64_t wanted =
      std::min<std::uint64_t>(tenant.ledger->wanted_ns.load(kRelaxed), 1'000'000'000);
  tenant.expected_ns = std::max(wanted, wanted < quantum ? quantum : 0);
  woken_.push_back(tenant.rules);
}

void LaneArbiter::publish_clear() {
  for (Tenant& tenant : tenants_) {
    std::uint64_t clear = 0;
    for (const Tenant& other : tenants_)
      if (&other != &tenant) clear = std::max(clear, other.work_ends_at);
    tenant.rules->clear_at.store(clear, kRelaxed);
  }
}

// What waits for work to be confirmed is not due before it is, and time alone brings that no nearer: each
// look in vain would cost the device time, because there it is the host's own processor.
std::uint64_t LaneArbiter::look_at(std::uint64_t due, std::uint64_t lead, std::uint64_t now) const {
  const bool foreseen = busy_until(now) == std::max(queue_.busy_until(), now);
  return foreseen ? due : std::max(due, now + std::max(lead / kLooksALead, kLookEveryNs));
}

std::uint64_t LaneArbiter::step(std::uint64_t now) {
  woken_.clear();
  read_all(now);
  settle(now);
  // The model puts the ends of work right; the tenants' own ends follow from it.
  for (Tenant& tenant : tenants_)
    if (const std::uint64_t end = queue_.ends_at(tenant.key)) tenant.work_ends_at = end;
  keep_standing(now);
  std::uint64_t next = now + kPollIdleNs;
  for (const Tenant& tenant : tenants_) {
    if (now < tenant.active_at + 1'000'000'000) next = std::min(next, now + kPollActiveNs);
    if (!tenant.granted) continue;
    next = std::min(next, expires_at(tenant) + 1);
    if (now < comes_until(tenant)) next = std::min(next, comes_until(tenant));
  }
  while (Tenant* chosen = choose()) {
    const std::uint64_t until = horizon(now);
    const std::uint64_t hold = hold_until(*chosen);
    const std::uint64_t lead = lead_for(*chosen, now);
    const std::uint64_t due = std::max(until > lead ? until - lead : 0, hold > now ? hold : 0);
    if (due > now) {
      // Whoever waited long may put one piece behind what others claim to run: its end tells the truth.
      const std::uint64_t probe = chosen->probing ? UINT64_MAX : chosen->waits_since + kPatienceNs;
      next = std::min({next, look_at(due, lead, now), probe});
      if (probe > now) break;
      chosen->probing = true;
    }
    chosen->held = hold + lead > until;
    // What could not be given at the step before was not due then.
    const std::uint64_t busy = queue_.busy_until();
    chosen->due_at = std::max(busy > lead ? busy - lead : 0, stepped_at_);
    grant(*chosen, now, lead);
  }
  publish_clear();
  stepped_at_ = now;
  return next;
}

}  // namespace tranche::guard
