// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a node does: joins its devices to a server's capacity, runs leases in sandboxes, and reports. One
// thread does all of it; the link's threads only hand frames over, and what takes long is a chore beside.
#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "agent/checkpoint_carrier.hpp"
#include "agent/chores.hpp"
#include "agent/device_orders.hpp"
#include "agent/device_shares.hpp"
#include "agent/device_watch.hpp"
#include "agent/guard_tenants.hpp"
#include "agent/identity.hpp"
#include "agent/image_store.hpp"
#include "agent/job_plan.hpp"
#include "agent/lease_folder.hpp"
#include "agent/lease_table.hpp"
#include "agent/link.hpp"
#include "agent/node_volumes.hpp"
#include "agent/progress_reader.hpp"
#include "agent/scrubber.hpp"
#include "agent/service_door.hpp"
#include "agent/sessions.hpp"
#include "agent/spawner.hpp"
#include "agent/spool.hpp"
#include "gpu/port.hpp"

namespace tranche::agent {

struct AgentOptions {
  NodeRules rules{};
  std::filesystem::path guard_library{};  // Empty: no device can be shared softly.
  std::string program{};                  // This binary, which serves as the broker.
  wire::TextMap labels{};
  VolumeCipher volume_cipher{};
  std::filesystem::path shared_volumes{};  // A folder that other nodes mount, too; empty: none.
  bool simulated = false;
  bool end_jobs_on_exit = false;
  Duration meter_every = std::chrono::seconds(10);
  Duration shares_patience = std::chrono::seconds(10);  // With a driver that does not give up a partition.
  std::function<void(const std::string&)> log = [](const std::string&) {};
};

class Agent {
 public:
  // `spawner` and `world` are null for a simulated node: nothing executes there.
  Agent(AgentOptions options,
        Identity identity,
        std::vector<std::unique_ptr<gpu::DevicePort>> ports,
        Spawner* spawner,
        const ShimWorld* world,
        std::unique_ptr<Scrubber> scrubber = nullptr);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  void run();         // Until stop().
  void stop();        // Safe from a signal handler and from any thread.
  void leave_jobs();  // Before it is stopped: they stay, whatever the options say.

 private:
  struct Job {
    explicit Job(LeaseFolder given) : folder(std::move(given)) {}
    LeaseFolder folder;
    Descriptor supervisor{};  // pidfd
    std::vector<std::uint32_t> physical{};
    BootTime simulated_end = 0;
    BootTime meter_next = 0;
    BootTime settled_at = 0;
    std::array<std::uint64_t, kStreams> sent{};  // Log bytes on their way.
    std::string stop_message{};
    std::optional<ShimOrder> unheard{};  // The supervisor was not listening yet.
    bool stuck_told = false;
    bool fetching = false;                // Its files are on the way; nothing of it runs yet.
    std::optional<ShimOrder> ended_by{};  // The order that came meanwhile.
    bool settling = false;
    std::size_t wiping = 0;  // Slices that are not proven clean yet.
    bool told_end = false;   // Nothing of it runs, and the server was told; books may still be open.
    bool owes = false;       // It is over, and its slice was given back with the wipe still to come.
    BootTime shares_next = 0, shares_until = 0;  // Something on a device is not taken down yet.
    wire::Receipts receipts{};
    ProgressReader progress{};
    ServiceDoor door{};                                // Of a service.
    wire::WorkUnit told_unit = wire::WorkUnit::kNone;  // How far it said it is.
    std::int64_t told_done = 0;
    std::size_t registering = 0;                     // Checkpoints that are being looked at.
    bool owes_later = false;                         // It is over, and gives its slice back once they were.
    std::shared_ptr<std::atomic<bool>> gathering{};  // Whether what it saved elsewhere is still wanted.
    // agent_park.cpp: new limits that it was told, and whether it goes off its devices or back.
    std::optional<wire::LeaseRenewal> change{};
    BootTime change_until = 0;
    enum class Way : std::uint8_t { kStays, kLeaves, kCleans, kReturns } way = Way::kStays;
    BootTime simulated_left = 0;  // Of one that is paused.
  };
  struct Device {
    wire::DeviceFacts facts{};
    gpu::DevicePort* port = nullptr;
  };

  // agent.cpp: the loop.
  void discover();
  void adopt_all();
  void adopt(Job& job);
  void turn();
  void take_notes();
  void take_inbox();
  void check_time();
  [[nodiscard]] int wait_milliseconds() const;
  void depart();

  // agent_link.cpp: what is said.
  void opened();
  void broken(const std::string& why);
  void take_frame(const std::string& bytes);
  void take_message(const wire::AgentFrame& frame);
  void welcome(const wire::Welcome& welcome);
  void beat();
  void renew_certificate();
  void take_certificate(const wire::Certificate& certificate);
  template <class Message>
  void send_now(const Message& message);
  template <class Message>
  std::uint64_t send_surely(const Message& message);
  void send_entry(const Spool::Entry& entry);
  void send_logs(Job& job);
  void take_log_ack(const wire::LogAck& ack);

  // agent_devices.cpp: devices outside of any lease.
  void take_order(const wire::DeviceOrder& order);
  void send_order_answers();
  void tell_signals(BootTime now);

  // agent_watch.cpp: what devices report of their processes, beside what was counted.
  [[nodiscard]] bool watches_devices() const;
  void watch_devices(BootTime now);
  [[nodiscard]] std::vector<SeenUse> seen_uses();
  void add_uses(LeaseId lease, const std::vector<gpu::DeviceProcess>& processes, std::vector<SeenUse>& uses);
  void note_foreign(const gpu::DeviceProcess& process);
  void act_on(const Finding& finding);
  void write_findings(const Job& job, const std::string& evidence);

  // agent_leases.cpp: what is done.
  void take_grant(wire::LeaseGrant grant);
  void start(const wire::LeaseGrant& grant);
  void start_simulated(Job& job);
  void step_simulated(Job& job, BootTime now);
  void refuse_grant(const wire::LeaseGrant& grant, wire::EndReason reason, const std::string& message);
  void take_renewal(const wire::LeaseRenewal& renewal);
  void take_revoke(const wire::LeaseRevoke& revoke);
  void order(Job& job, const ShimOrder& order);
  void simulate_order(Job& job, const ShimOrder& order);
  void look(Job& job);    // Tells the server what is new on the page.
  void settle(Job& job);  // Begins the end: says that it is over, wipes,
  void tell_before_wipe(Job& job);
  void conclude(Job& job);  // and says that it is clean.
  void tell_end(Job& job);
  void close_books(Job& job);  // Nothing of it is left to do.
  void meter(Job& job, Instant now);
  void bury(Job& job);  // Its supervisor died without a word.
  void report(Job& job, wire::LeaseState state, const std::string& message = {});
  bool forgettable(const Job& job, BootTime now) const;
  [[nodiscard]] Job* job_of(LeaseId lease);
  void say(Job& job, const std::string& line);

  // agent_park.cpp: slices that become smaller or larger, jobs that go off their devices and come back.
  void take_change(Job& job, const wire::LeaseRenewal& renewal);
  void check_change(Job& job, BootTime now);
  void end_change(Job& job, bool done, const std::string& message);
  void park(Job& job, Duration grace);
  void left_device(LeaseId lease, const std::string& trouble);
  void wipe_parked(Job& job);
  void tell_parked(Job& job);
  void unpark(Job& job);
  void came_back(LeaseId lease, const std::string& trouble);
  void tell_declined(Job& job, wire::LeaseState state, const std::string& why);
  [[nodiscard]] bool held_back(Job& job, JobPhase phase);
  [[nodiscard]] bool has_region(const Job& job) const;

  // agent_shares.cpp: what is set up on devices.
  [[nodiscard]] std::vector<SharedDevice> shared_devices(const Job& job) const;
  [[nodiscard]] std::vector<GrantedDevice> devices_of(const Job& job) const;
  void show_daemon(const Job& job, SandboxPlan& plan) const;
  bool shares_down(Job& job);
  void tell_stuck(LeaseId lease, const std::vector<StuckShare>& stuck);
  void abandon(LeaseId lease);

  // agent_image.cpp, agent_scrub.cpp, agent_fetch.cpp, agent_volumes.cpp: chores.
  void prepare(Job& job, SandboxPlan plan);
  void find_image(Job& job, SandboxPlan plan);
  void image_found(LeaseId lease, SandboxPlan plan, const Result<Image, std::string>& found);
  void begin_scrub(Job& job);
  void scrubbed(LeaseId lease,
                std::size_t slice,
                const std::optional<wire::AcceptanceReceipt>& test,
                const wire::ScrubReceipt& receipt);
  // agent_debts.cpp: wipes that may wait.
  [[nodiscard]] bool is_plain_share(const Job& job) const;
  [[nodiscard]] bool may_wait(const Job& job) const;
  void owe_wipe(Job& job);
  void pay_wipes(const std::string& uuid);
  void paid(const std::string& uuid,
            const std::vector<LeaseId>& leases,
            const std::optional<wire::AcceptanceReceipt>& test,
            const wire::ScrubReceipt& receipt);
  void settle_debts(const wire::DeviceOrder& order);
  void answer_settlement(const std::string& uuid, wire::Receipts& receipts);
  [[nodiscard]] bool in_use(const std::string& uuid) const;
  [[nodiscard]] bool is_owed_by_others(const std::string& uuid, PartyId tenant) const;
  [[nodiscard]] bool waits_for_wipe(Job& job, const SandboxPlan& plan);
  void start_on_clean(LeaseId lease, const std::string& uuid, const SandboxPlan& plan);
  void reset_after_wipes(const wire::DeviceOrder& order);
  void tell_tests();
  void wipe_device(const wire::DeviceOrder& order, const wire::DeviceFacts& device, std::uint32_t physical);
  void wiped(const wire::DeviceOrder& order,
             std::uint32_t physical,
             const std::optional<wire::AcceptanceReceipt>& test,
             const wire::ScrubReceipt& receipt);
  [[nodiscard]] LeaseId wiped_after_expiry(const std::string& uuid) const;
  void launch(Job& job, const SandboxPlan& plan);
  void fetch_then_launch(Job& job, SandboxPlan plan);
  void fetched(LeaseId lease, const SandboxPlan& plan, const std::string& problem);
  void end_before_start(Job& job, wire::EndReason reason, const std::string& message);
  void open_volumes();
  [[nodiscard]] const NodeVolumes& volumes_in(const std::string& pool) const;
  void close_unused_volumes();
  void attach_volumes(const wire::LeaseGrant& grant, SandboxPlan& plan);
  void take_volume_order(const wire::VolumeOrder& order);
  [[nodiscard]] std::set<VolumeId> volumes_in_use() const;
  void detach_volumes(const wire::LeaseGrant& grant);
  [[nodiscard]] wire::BehaviourRecord behaviour_of(const Job& job) const;
  void add_device_use(const Job& job, wire::BehaviourRecord& record) const;
  [[nodiscard]] std::vector<wire::SliceSample> slice_samples() const;
  // agent_progress.cpp: how far jobs are, and what they made.
  void take_units(Job& job, const wire::UnitSet& units);
  void tell_progress(Job& job);
  void count_results(Job& job);
  void open_service(Job& job);
  [[nodiscard]] net::TlsServerOptions door_identity() const;

  // agent_checkpoints.cpp: what jobs save.
  void register_checkpoints(Job& job, const std::vector<wire::CheckpointNote>& said);
  void registered(LeaseId lease, const wire::CheckpointNote& note, bool is_there);
  void gather(Job& job, SandboxPlan plan);
  void gathered(LeaseId lease, SandboxPlan plan, const Gathered& found);
  void take_checkpoint_wish(const wire::CheckpointWish& wish);
  [[nodiscard]] std::set<JobId> live_jobs() const;
  void ask_what_to_keep();
  void forget_checkpoints(const wire::SavedInVain& needless);

  AgentOptions options_;
  Identity identity_;
  std::mutex identity_mutex_;  // The link's thread reads it.
  std::vector<std::unique_ptr<gpu::DevicePort>> ports_;
  std::vector<Device> devices_;
  Spawner* spawner_;
  const ShimWorld* world_;
  std::unique_ptr<SandboxHome> home_;
  std::unique_ptr<GuardTenants> guard_;
  std::unique_ptr<Scrubber> scrubber_;
  std::unique_ptr<DeviceShares> shares_;
  wire::NodeFeatures features_;
  std::unique_ptr<NodeVolumes> volumes_;
  std::unique_ptr<NodeVolumes> pool_;  // Shared with other nodes; null: none.
  std::unique_ptr<ImageStore> images_;
  std::set<VolumeId> volume_work_;  // Ordered, and not done yet.
  std::unique_ptr<Sessions> sessions_;
  std::unique_ptr<DeviceOrders> orders_;
  wire::TestsUnderWay tests_told_;
  std::set<std::uint64_t> wipes_;                         // Orders that are under way.
  std::map<std::string, wire::DeviceOrder> settlements_;  // By device: what is owed there is being wiped.
  DeviceWatch watch_;
  std::set<std::pair<std::int32_t, std::uint64_t>>
      foreign_;                                        // Processes that were told about, with their start.
  std::map<std::string, wire::DeviceSample> samples_;  // The last of each device.
  LeaseTable table_;
  Spool spool_;
  std::map<LeaseId, Job> jobs_;
  std::unique_ptr<net::SealedDoors> sealed_doors_;  // Made with the first service that others reach.
  std::unique_ptr<Link> link_;

  enum class Arrival { kOpened, kFrame, kClosed };
  struct Inbox {  // In the order of the link's thread: a frame belongs to the link that was opened before it.
    std::mutex mutex{};
    std::vector<std::pair<Arrival, std::string>> arrivals{};
  } inbox_;
  void arrived(Arrival kind, std::string text);
  Descriptor bell_;
  Descriptor notes_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> leaves_jobs_ = false;
  bool welcomed_ = false;
  std::uint64_t server_sequence_ = 0;  // Of the last message on this link.
  Duration heartbeat_ = std::chrono::seconds(5);
  Duration lease_ = std::chrono::seconds(30);
  BootTime beat_next_ = 0;
  BootTime signals_next_ = 0;
  BootTime watch_next_ = 0;
  BootTime sync_next_ = 0;
  BootTime keeps_next_ = 0;  // When the server is asked which checkpoints are of any use still.
  Instant last_beat_{};
  std::string renewal_key_;
  std::string boot_id_;
  std::uint64_t cpu_busy_ = 0, cpu_all_ = 0;
  std::unique_ptr<Chores> chores_;  // Last: ends before what its chores use.
};

}  // namespace tranche::agent
