// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where could work go? The placement policy over the devices of the journal: a memo, rebuilt from the state
// at any time and outside its hash.
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "engine/job.hpp"
#include "engine/lease.hpp"
#include "engine/node.hpp"
#include "policy/fair_share.hpp"
#include "policy/placement_placer.hpp"
#include "policy/placement_waiting.hpp"

namespace tranche::engine {

struct State;
struct Booking;
using wire::DeviceWish;

// Tenants meet in `soft` only when both agreed; all who did are one group, everybody else is his own.
constexpr std::uint32_t kSharingGroup = 0;
[[nodiscard]] std::uint32_t trust_group(const State&, PartyId tenant);

struct Place {
  NodeId node{};
  policy::Placement placement{};
  std::vector<Slice> slices{};
};

// What tells devices apart for whoever asks for one, and for its price.
struct DeviceKind {
  std::string model{};
  std::int64_t vram = 0;
  wire::GpuVendor vendor = wire::GpuVendor::kAny;
  std::string site{};
  bool simulated = false;
  auto operator<=>(const DeviceKind&) const = default;
};
// Whether the ask may mean such a device, by model, vendor and memory.
[[nodiscard]] bool is_wanted(const Ask&, const DeviceKind&);

// A device, or some memory slots of it, that work must leave alone.
constexpr std::uint16_t kAllSlots = 0xFFFF;
struct Barred {
  DeviceId device{};
  std::uint16_t slots = kAllSlots;
};
// What a profile takes that is not a memory slot.
[[nodiscard]] std::uint16_t marks_of(const wire::ProfileFacts&);

constexpr policy::KindIndex kNoKind = 0xFFFFFFFFU;  // Nothing connected could be meant.

// Whose turn, and what it takes.
struct WaitingKey {
  std::int32_t tier = 0;  // 100 - priority.
  PartyId tenant{};
  policy::KindIndex kind = 0;
  bool has_deadline = false;  // Such jobs are not taken in the order of submission.
  auto operator<=>(const WaitingKey&) const = default;
};

class Capacity {
 public:
  Capacity();
  static std::unique_ptr<Capacity> rebuilt(const State&);

  void add_node(const State&, const Node&);  // Also when it came back with other devices.
  void refresh_node(const State&, const Node&);
  void refresh_device(const State&, const Device&);

  void take(const Lease&, const Ask&);
  void ended(const Lease&, Instant at);    // It runs no more; its slices may still have to be wiped.
  void release(const Lease&, const Ask&);  // Its slices are free.
  void charge(const Lease&);  // Of a lease that ended long ago: its use still counts for fair share.
  // More or less of it than the time of devices says, in their thousandths times seconds.
  void weigh(PartyId tenant, std::int64_t milli_seconds, Instant at);
  // Around a change of a lease's slices: what it takes is given back before, and taken anew after.
  void lift(const Lease&, const Ask&, Instant at);
  void put_back(const Lease&, const Ask&, Instant at);
  // Off its devices, with its processes and their memory still on the node; and back.
  void park(const Lease&, const Ask&, Instant at);
  void unpark(const Lease&, const Ask&, Instant at);
  [[nodiscard]] const std::set<LeaseId>& parked() const { return parked_; }
  // Live leases whose slices may be made smaller or larger.
  [[nodiscard]] const std::set<LeaseId>& resizable() const { return resizable_; }

  void promise(LeaseId lease) { promising_.insert(lease); }  // Its end is for somebody.
  void keep_promise(const Lease&);                           // What he waits for is free, and clean.
  [[nodiscard]] const std::set<LeaseId>& promising() const { return promising_; }
  // What was freed for somebody since the last pass: his until then.
  [[nodiscard]] const std::map<JobId, std::set<NodeId>>& freed_for() const { return freed_for_; }
  // Who left for others since then, and the node that was found for him.
  [[nodiscard]] const std::map<JobId, NodeId>& moved_to() const { return moved_to_; }

  void enqueue(const State&, const Job&);
  void dequeue(const State&, const Job&);
  void wake(Instant at, JobId job);                    // It may start from then on, so a pass is due.
  [[nodiscard]] bool nothing_meant(JobId job) const {  // Waits for a model that nobody has.
    const auto where = where_waiting_.find(job);
    return where != where_waiting_.end() && where->second.kind == kNoKind;
  }

  // The shape of one member of the job; nothing when no connected device could be meant.
  [[nodiscard]] std::optional<policy::Shape> shape_of(const Ask&, std::uint32_t trust_group) const;
  [[nodiscard]] std::optional<Place> choose(const policy::Shape& shape);
  [[nodiscard]] Place place_at(const policy::Shape& shape, const policy::Placement& placement) const;
  // The same where an ask has an order of preference: the first of its models that has room.
  [[nodiscard]] std::optional<Place> choose(const policy::Shape& shape, const Ask& ask);
  // How many members of this shape the nodes known could ever hold at once, if they were empty; counted up to
  // `enough`.
  [[nodiscard]] std::uint32_t room_when_empty(const State&, const policy::Shape& shape, std::uint32_t enough);
  // All kinds of devices that are known, whatever their state.
  [[nodiscard]] const std::set<DeviceKind>& device_kinds(const State&);
  // Tentative: taken in a pass, given back at its end, and then taken by the event that says so.
  void take(const policy::Shape& shape, const Place& place);
  void release(const policy::Shape& shape, const Place& place);
  void close(NodeId node, bool closed);  // For a pass: kept for somebody.
  // Devices that not everybody may use: on probation, or never shared. For one choice.
  void block_restricted(bool preemptible, bool shares, std::vector<DeviceId>& blocked);
  void unblock(const std::vector<DeviceId>& blocked);
  // Devices that were left by a tenant and not wiped, because his next job waits.
  [[nodiscard]] const std::set<DeviceId>& kept() const { return kept_; }
  // Devices with parts that were given back unwiped, and the tenant who alone may have them until then.
  [[nodiscard]] const std::map<DeviceId, PartyId>& owed() const { return owed_; }
  void block_owed(PartyId tenant, std::vector<DeviceId>& blocked);
  // Those, and the ones that are being wiped after a tenant: soon free for everybody.
  [[nodiscard]] std::vector<DeviceId> between_tenants(const State&) const;
  // Opens those of a tenant for one choice of whole devices; bar() closes them again.
  [[nodiscard]] std::vector<DeviceId> open_kept(const State&, PartyId tenant, const policy::Shape& shape);

  // Booked and not in use by the booking's own work: as good as taken. Follows what the state says of the
  // device, so it is called whenever a window or a lease there begins or ends.
  void refresh_holds(const State&, DeviceId device);
  void refresh_holds(const State&, const Booking&);
  void refresh_holds(const State&, const Lease&);
  void give_way(const State&, const std::vector<Slice>& slices);  // To a lease in the window itself.
  struct Hold {
    policy::Shape shape{};
    policy::Placement placement{};
    bool taken = false;  // False: somebody is still in the way.
  };
  [[nodiscard]] const Hold* hold(ClaimId claim, DeviceId device) const;
  void bar(const State&, DeviceId device, bool barred);  // For a pass, like close().
  void bar(const State&, Barred& barred);                // Keeps in it what unbar() has to give back.
  void unbar(const State&, const Barred& barred);

  [[nodiscard]] const policy::Fleet& fleet() const { return placer_.fleet(); }
  [[nodiscard]] policy::WaitingKinds& waiting_kinds() { return waiting_kinds_; }
  [[nodiscard]] const std::map<WaitingKey, std::set<JobId>>& waiting() const { return waiting_; }
  [[nodiscard]] policy::KindIndex kind(const policy::Shape& shape) { return placer_.kind(shape); }
  [[nodiscard]] std::map<PartyId, std::int32_t> ranks(Instant now) const;
  [[nodiscard]] std::int64_t running_milli(PartyId tenant) const;
  [[nodiscard]] bool runs_preemptible() const { return !preemptible_.empty(); }
  // So much of the tenant's work ended by its own errors as soon as it began that it takes nothing back from
  // others for a while.
  [[nodiscard]] bool is_storming(PartyId tenant, Instant now) const;
  // The first lease of every job that runs and could have another number of members.
  [[nodiscard]] const std::set<LeaseId>& elastic() const { return elastic_; }
  [[nodiscard]] const std::set<LeaseId>& leases_on(NodeId node) const;
  [[nodiscard]] const std::vector<policy::NodeIndex>& groups_of(NodeId node) const;
  [[nodiscard]] const std::vector<DeviceId>& devices_of(policy::NodeIndex index) const {
    return groups_[index].devices;
  }
  [[nodiscard]] policy::NodeIndex group_of(DeviceId device) const { return places_.at(device).first; }
  [[nodiscard]] int position_of(DeviceId device) const { return places_.at(device).second; }
  [[nodiscard]] std::int32_t profile_number(const std::string& name) const {  // Zero: there is none.
    const auto found = profiles_.find(wire::lower_case(name));
    return found == profiles_.end() ? 0 : found->second;
  }
  [[nodiscard]] NodeId node_of(policy::NodeIndex index) const { return groups_[index].node; }
  [[nodiscard]] policy::Placement placement_of(const Lease& lease) const;
  // Of a lease whose slices are taken.
  [[nodiscard]] policy::Shape shape_of(const Lease&, const Ask&) const;
  [[nodiscard]] bool empty() const { return groups_.empty(); }

  // Whether a pass could decide anything that the last one could not.
  [[nodiscard]] bool due(Instant now) const;
  [[nodiscard]] Instant next_delayed(Instant now) const;  // When a job that must wait may be tried again.
  void look_again(Instant at) { look_again_ = std::min(look_again_, at); }  // A pass decides more by then.
  void passed(Instant now);
  void changed() { dirty_ = moved_ = true; }
  // Since somebody last looked: who runs, or who waits.
  [[nodiscard]] bool has_moved() const { return moved_; }
  void settled() { moved_ = false; }

 private:
  struct Group {  // Devices of one kind in one node: what placement calls a node.
    NodeId node{};
    policy::NodeIndex index = policy::kNoNode;
    std::vector<DeviceId> devices{};
  };
  [[nodiscard]] std::int32_t model_bit(const DeviceFacts& facts);
  [[nodiscard]] policy::ModelSet models_for(const Ask& ask) const;
  [[nodiscard]] std::uint32_t geometry_of(const DeviceFacts& facts);
  void add_group(const Node& node, const std::vector<const Device*>& devices, std::int64_t share_of);
  policy::ShareNode share_leaf(PartyId tenant);
  [[nodiscard]] bool is_blocked(const Device& device) const;
  [[nodiscard]] bool waits_for_window(DeviceId device) const;
  void book_hold(Hold& hold, bool take);
  void stay_on_host(const Lease&, const Ask&);
  void note_crash(const Lease&);
  void leave_host(const Lease&, const Ask&);
  void drop_holds(DeviceId device);

  policy::Placer placer_;
  policy::WaitingKinds waiting_kinds_;
  std::vector<Group> groups_;  // By NodeIndex.
  std::map<NodeId, std::vector<policy::NodeIndex>> groups_by_node_;
  std::map<DeviceId, std::pair<policy::NodeIndex, int>> places_;
  std::map<DeviceKind, std::int32_t> models_;  // With other memory it is another; sites do not count.
  std::map<std::string, std::uint32_t> geometries_;
  std::map<std::string, std::int32_t> profiles_;  // Numbers that Shape::profile names.
  std::map<NodeId, std::set<LeaseId>> leases_;
  std::map<DeviceId, std::map<ClaimId, Hold>> holds_;
  std::set<LeaseId> promising_;
  std::map<JobId, std::set<NodeId>> freed_for_;
  std::map<JobId, NodeId> moved_to_;
  std::set<LeaseId> elastic_;
  std::set<LeaseId> resizable_;
  std::set<LeaseId> parked_;
  std::map<policy::KindIndex, std::uint32_t> room_when_empty_;  // Memos, until nodes change.
  std::set<DeviceKind> device_kinds_;
  std::set<LeaseId> preemptible_;  // Live, and may be stopped for work of higher priority.
  std::map<DeviceId, std::pair<bool, bool>> restricted_;  // On probation; never shared.
  void block(DeviceId id, std::vector<DeviceId>& blocked);
  void keep_promises_on(const State&, DeviceId);
  std::set<DeviceId> kept_;
  std::map<DeviceId, PartyId> owed_;
  std::set<DeviceId> scrubbing_;
  std::map<PartyId, std::int64_t> running_milli_;
  std::map<PartyId, std::deque<Instant>> crashes_;  // The last ones, oldest first.
  std::map<WaitingKey, std::set<JobId>> waiting_;
  std::map<JobId, WaitingKey> where_waiting_;
  std::multimap<Instant, JobId> delayed_;
  policy::FairShareTree shares_;
  std::map<PartyId, policy::ShareNode> share_leaves_;
  bool dirty_ = true;
  bool moved_ = true;
  Instant last_pass_{};
  Instant look_again_ = Instant::max();
};

}  // namespace tranche::engine
