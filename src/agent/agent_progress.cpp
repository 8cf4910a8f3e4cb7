// SPDX-License-Identifier: Apache-2.0
// What an agent tells of its jobs' progress.
#include "agent/agent_send.hpp"
#include "agent/files.hpp"
#include "agent/unit_loop.hpp"

namespace tranche::agent {

// A loop that has come to its end already does not see them; then the server hears of its end without them.
void Agent::take_units(Job& job, const wire::UnitSet& units) {
  if (units.empty() || job.settling || options_.simulated) return;
  const auto command = read_whole(job.folder.path() / kUnitCommand);
  if (!command) return;
  try {
    append_units(job.folder.path(), unit_lines(*command, unit_name(job.folder.grant.spec), units));
  } catch (const std::exception& error) { options_.log(error.what()); }
}

void Agent::tell_progress(Job& job) {
  const LeasePage& page = job.folder.page();
  job.progress.looked(boot_time());
  if (options_.simulated || page.running_since == 0) return;
  auto report = job.progress.look(job.folder.path(), page.written[0].load(std::memory_order_acquire));
  if (!report) return;
  if (report->unit != wire::WorkUnit::kNone) {
    job.told_unit = report->unit;
    job.told_done = report->done;
  }
  const auto saved = std::exchange(report->checkpoints, {});
  register_checkpoints(job, saved);
  if (report->unit == wire::WorkUnit::kNone && report->verdicts.empty()) return;
  report->lease = job.folder.grant.lease;
  report->epoch = job.folder.grant.epoch;
  report->at = wall_time();
  job.folder.page().last_sequence = send_surely(*report);
}

// What units left behind goes the way of the logs, as one more stream.
void Agent::count_results(Job& job) {
  constexpr std::uint32_t kResults = 3;
  if (job.folder.grant.units.empty()) return;
  std::error_code missing;
  const auto size = std::filesystem::file_size(job.folder.path() / "results", missing);
  if (!missing) job.folder.page().written[kResults].store(size, std::memory_order_release);
}

static bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "localhost";
}

// The node's own certificate: whoever reaches a door from another machine shows one of the same authority.
net::TlsServerOptions Agent::door_identity() const {
  return {.certificate_pem = identity_.certificate_pem,
          .key_pem = identity_.key_pem,
          .client_ca_pem = identity_.authority_pem,
          .client_certificates = net::ClientCertificates::kRequired};
}

// Requests reach a service through a door, also after the agent was replaced.
void Agent::open_service(Job& job) {
  const LeasePage& page = job.folder.page();
  const std::uint16_t port = job.folder.grant.spec.port;
  if (port == 0 || options_.simulated || job.door.process > 0 || page.init == 0 || is_over(phase_of(page)))
    return;
  const std::string& address = options_.rules.service_address;
  const int init = static_cast<int>(page.init.load());
  try {
    if (is_loopback(address)) {
      job.door = open_service_door(options_.program, address, init, port);
    } else {
      if (!sealed_doors_) sealed_doors_ = std::make_unique<net::SealedDoors>(door_identity());
      job.door = open_sealed_door(options_.program, *sealed_doors_, address, job.folder.path(), init, port);
    }
  } catch (const std::exception& error) { options_.log(error.what()); }
}

}  // namespace tranche::agent
