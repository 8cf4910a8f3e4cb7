// SPDX-License-Identifier: Apache-2.0
// What an agent and its server say to each other.
#include <fcntl.h>
#include <sstream>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>

#include "agent/agent_send.hpp"
#include "agent/cgroup_files.hpp"
#include "net/certificate_authority.hpp"

namespace tranche::agent {
namespace {

using wire::AgentMessageKind;

Bytes memory_of_node() {
  struct sysinfo info{};
  ::sysinfo(&info);
  return {static_cast<std::int64_t>(info.totalram) * info.mem_unit};
}

Bytes memory_in_use() {
  std::istringstream lines(get_control("/proc/meminfo"));
  std::int64_t available = 0;
  for (std::string name, unit; lines >> name >> available;) {
    if (name == "MemAvailable:") break;
    std::getline(lines, unit);
  }
  return {memory_of_node().count - available * 1024};
}

Bytes disk_of(const std::filesystem::path& folder) {
  struct statvfs info{};
  if (::statvfs(folder.c_str(), &info) != 0) return {};
  return {static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize)};
}

wire::LeaseState state_of(JobPhase phase) {
  switch (phase) {
    case JobPhase::kNotBegun:
      return wire::LeaseState::kAccepted;
    case JobPhase::kPreparing:
      return wire::LeaseState::kPreparing;
    case JobPhase::kPaused:
      return wire::LeaseState::kPaused;
    case JobPhase::kRunning:
      return wire::LeaseState::kRunning;
    default:
      return wire::LeaseState::kStopping;
  }
}

}  // namespace

void Agent::opened() {
  server_sequence_ = 0;
  wire::Hello hello{.software = "tranche " TRANCHE_VERSION, .node = identity_.name, .boot_id = boot_id_};
  hello.cpus = static_cast<std::uint32_t>(std::max(1, ::get_nprocs()));
  hello.memory = memory_of_node();
  hello.disk = disk_of(options_.rules.data);
  hello.labels = options_.labels;
  hello.features = features_;
  hello.features.resizes = options_.simulated || (guard_ && home_ && home_->has_guard());
  hello.features.parks = options_.simulated || (hello.features.resizes && scrubber_);
  hello.simulated = options_.simulated;
  for (const Device& device : devices_) hello.devices.push_back(device.facts);
  for (const auto& [lease, job] : jobs_) {
    // Also what has ended, until the server has taken in how: it would count as lost otherwise.
    const LeasePage& page = job.folder.page();
    if (page.settled != 0 && spool_.acknowledged() >= page.last_sequence) continue;
    hello.running.push_back(
        {.lease = lease, .epoch = job.folder.grant.epoch, .state = state_of(phase_of(page))});
  }
  send_now(hello);
}

void Agent::broken(const std::string& why) {
  if (welcomed_)
    options_.log("the link broke: " + why);
  else
    options_.log("no link: " + why);
  welcomed_ = false;
  table_.link_broken();
}

void Agent::take_frame(const std::string& bytes) {
  const auto frame = wire::decode<wire::AgentFrame>(bytes);
  if (!frame) {
    options_.log("a frame of the server could not be read: " + frame.error());
    return link_->reconnect();
  }
  // In the server's order, each once: an order that overtook another would be obeyed when it no longer holds.
  if (frame->sequence <= server_sequence_) return;
  if (frame->sequence != ++server_sequence_) {
    options_.log("a message of the server is missing");
    return link_->reconnect();
  }
  spool_.acknowledge(frame->acknowledged);
  take_message(*frame);
}

void Agent::take_message(const wire::AgentFrame& frame) {
  const auto opened = [&]<class Message>(const Message*, auto use) {
    if (auto message = wire::open_frame<Message>(frame)) {
      use(std::move(*message));
    } else {
      options_.log("a message of the server could not be read: " + message.error());
    }
  };
  switch (frame.kind) {
    case AgentMessageKind::kWelcome:
      return opened(static_cast<wire::Welcome*>(nullptr), [&](const auto& m) { welcome(m); });
    case AgentMessageKind::kParting:
      return opened(static_cast<wire::Parting*>(nullptr),
                    [&](const auto& m) { options_.log("the server parts: " + m.reason + ": " + m.message); });
    case AgentMessageKind::kHeartbeatAnswer:
      return opened(static_cast<wire::HeartbeatAnswer*>(nullptr), [&](const auto& m) {
        for (const auto& [lease, expires] : table_.heartbeat_answered(m.heartbeat_at, m.lease))
          if (Job* job = job_of(lease)) job->folder.page().expires_at = expires;
      });
    case AgentMessageKind::kLeaseGrant:
      return opened(static_cast<wire::LeaseGrant*>(nullptr), [&](auto m) { take_grant(std::move(m)); });
    case AgentMessageKind::kLeaseRenewal:
      return opened(static_cast<wire::LeaseRenewal*>(nullptr), [&](const auto& m) { take_renewal(m); });
    case AgentMessageKind::kLeaseRevoke:
      return opened(static_cast<wire::LeaseRevoke*>(nullptr), [&](const auto& m) { take_revoke(m); });
    case AgentMessageKind::kDeviceOrder:
      return opened(static_cast<wire::DeviceOrder*>(nullptr), [&](const auto& m) { take_order(m); });
    case AgentMessageKind::kLogAck:
      return opened(static_cast<wire::LogAck*>(nullptr), [&](const auto& m) { take_log_ack(m); });
    case AgentMessageKind::kCertificate:
      return opened(static_cast<wire::Certificate*>(nullptr), [&](const auto& m) { take_certificate(m); });
    case AgentMessageKind::kSessionOpen:
      return opened(static_cast<wire::SessionOpen*>(nullptr), [&](const auto& m) {
        Job* job = table_.door(m.lease, m.epoch) == Door::kOpen ? job_of(m.lease) : nullptr;
        if (job == nullptr || options_.simulated)
          return send_now(wire::SessionEnd{
              .session = m.session,
              .exit_code = 125,
              .message = options_.simulated ? "this node is simulated: nothing runs that could be entered"
                                            : "no such lease runs on this node"});
        constexpr auto kPatience = std::chrono::milliseconds(500);
        const bool over = is_over(phase_of(job->folder.page()));
        sessions_->open(
            m, job->folder.path().string(), notes_.get(), over ? 0 : boot_time() + nanoseconds(kPatience));
      });
    case AgentMessageKind::kCheckpointWish:
      return opened(static_cast<wire::CheckpointWish*>(nullptr),
                    [&](const auto& m) { take_checkpoint_wish(m); });
    case AgentMessageKind::kSavedInVain:
      return opened(static_cast<wire::SavedInVain*>(nullptr), [&](const auto& m) { forget_checkpoints(m); });
    case AgentMessageKind::kVolumeOrder:
      return opened(static_cast<wire::VolumeOrder*>(nullptr), [&](const auto& m) { take_volume_order(m); });
    case AgentMessageKind::kSessionData:
      return opened(static_cast<wire::SessionData*>(nullptr), [&](const auto& m) { sessions_->input(m); });
    case AgentMessageKind::kSessionEnd:
      return opened(static_cast<wire::SessionEnd*>(nullptr),
                    [&](const auto& m) { sessions_->close(m.session); });
    default:
      options_.log("the server sent a kind of message that this agent does not know");
  }
}

void Agent::welcome(const wire::Welcome& welcome) {
  welcomed_ = true;
  heartbeat_ = std::max<Duration>(welcome.heartbeat, std::chrono::milliseconds(100));
  lease_ = welcome.lease;
  spool_.acknowledge(welcome.received);
  spool_.skip_past(welcome.received);
  options_.log("connected as " + text(welcome.node) + (options_.simulated ? ", SIMULATED" : ""));
  for (auto& [lease, job] : jobs_) {  // Before the reports: last words come before an end.
    for (std::uint32_t stream = 0; stream < kStreams; ++stream)
      job.sent[stream] = job.folder.page().acknowledged[stream];
    send_logs(job);
  }
  for (const Spool::Entry& entry : spool_.waiting()) send_entry(entry);
  beat();
  if (wants_renewal(identity_, std::chrono::system_clock::now())) renew_certificate();
}

void Agent::send_entry(const Spool::Entry& entry) {
  const wire::AgentFrame frame{.sequence = entry.sequence, .kind = entry.kind, .body = entry.body};
  std::string bytes;
  wire::encode(bytes, frame);
  link_->send(std::move(bytes));
}

void Agent::beat() {
  wire::Heartbeat beat{.at = std::max(wall_time(), last_beat_ + Duration(1))};
  last_beat_ = beat.at;
  beat.leases = static_cast<std::uint32_t>(table_.live());
  beat.memory_used = memory_in_use();
  std::istringstream words(get_control("/proc/stat"));
  std::string name;
  std::uint64_t value = 0, all = 0, idle = 0;
  words >> name;
  for (int field = 0; field < 8 && words >> value; ++field) {
    all += value;
    if (field == 3 || field == 4) idle += value;
  }
  if (all > cpu_all_)
    beat.cpu_milli = static_cast<std::uint16_t>((all - idle - cpu_busy_) * 1000 / (all - cpu_all_));
  cpu_busy_ = all - idle;
  cpu_all_ = all;
  for (const auto& port : ports_)
    for (wire::DeviceSample& sample : port->sample()) beat.devices.push_back(std::move(sample));
  for (const wire::DeviceSample& sample : beat.devices) samples_[sample.uuid] = sample;
  beat.slices = slice_samples();
  const BootTime now = boot_time();
  table_.heartbeat_sent(beat.at, now);
  send_now(beat);
  tell_tests();
  beat_next_ = now + nanoseconds(heartbeat_);
  if (renewal_key_.empty() && wants_renewal(identity_, std::chrono::system_clock::now())) renew_certificate();
}

void Agent::renew_certificate() {
  const net::CertificateRequest request = net::make_certificate_request(text(identity_.node));
  renewal_key_ = request.key_pem;
  send_now(wire::CertificateWish{.request_pem = request.request_pem});
}

void Agent::take_certificate(const wire::Certificate& certificate) {
  if (certificate.certificate_pem.empty() || renewal_key_.empty()) {
    options_.log("no new certificate: " + certificate.message);
    renewal_key_.clear();
    return;
  }
  Identity renewed = identity_;
  renewed.certificate_pem = certificate.certificate_pem;
  renewed.key_pem = std::exchange(renewal_key_, {});
  renewed.since = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  save_identity(options_.rules.data, renewed);
  const std::lock_guard lock(identity_mutex_);
  identity_ = std::move(renewed);  // Shown from the next connection on; this one stays.
  if (sealed_doors_) sealed_doors_->renew(door_identity());
}

void Agent::send_logs(Job& job) {
  constexpr std::size_t kChunk = 64 * 1024;
  constexpr std::uint64_t kWindow = 8 * kChunk;  // On the way and not acknowledged: the link stays usable.
  constexpr std::array kFiles = {"stdout", "stderr", "platform", "results"};
  LeasePage& page = job.folder.page();
  page.bell = 0;
  count_results(job);
  if (!welcomed_) return;
  for (std::uint32_t stream = 0; stream < kStreams; ++stream) {
    const std::uint64_t written = page.written[stream].load(std::memory_order_acquire);
    Descriptor file;
    while (job.sent[stream] < written && job.sent[stream] < page.acknowledged[stream] + kWindow) {
      if (!file.open())
        file.reset(::open((job.folder.path() / kFiles[stream]).c_str(), O_RDONLY | O_CLOEXEC));
      wire::LogChunk chunk{.lease = job.folder.grant.lease,
                           .epoch = job.folder.grant.epoch,
                           .stream = static_cast<wire::LogStream>(stream),
                           .offset = job.sent[stream],
                           .at = wall_time()};
      chunk.bytes.resize(std::min<std::uint64_t>(kChunk, written - job.sent[stream]));
      const ssize_t got =
          ::pread(file.get(), chunk.bytes.data(), chunk.bytes.size(), static_cast<off_t>(job.sent[stream]));
      if (got <= 0) break;
      chunk.bytes.resize(static_cast<std::size_t>(got));
      job.sent[stream] += static_cast<std::uint64_t>(got);
      send_now(chunk);
    }
  }
}

void Agent::take_log_ack(const wire::LogAck& ack) {
  Job* job = job_of(ack.lease);
  const auto stream = static_cast<std::uint32_t>(ack.stream);
  if (job == nullptr || stream >= kStreams) return;
  LeasePage& page = job->folder.page();
  const std::uint64_t offset = std::min(ack.offset, page.written[stream].load());
  page.acknowledged[stream] = offset;
  job->sent[stream] = std::max(job->sent[stream], offset);
  send_logs(*job);
}

}  // namespace tranche::agent
