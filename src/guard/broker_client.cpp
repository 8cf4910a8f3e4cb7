// SPDX-License-Identifier: Apache-2.0
#include "guard/broker_client.hpp"

#include <stdexcept>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guard/broker_context_probe.hpp"
#include "guard/vram_account.hpp"

namespace tranche::guard {

TenantRegions::TenantRegions(int control_fd, int ledger_fd) {
  control_ = static_cast<const ControlRegion*>(map_region(control_fd, sizeof(ControlRegion), false));
  ledger_ = static_cast<const LedgerRegion*>(map_region(ledger_fd, sizeof(LedgerRegion), false));
  ::close(control_fd);
  ledger_fd_ = ledger_fd;
  if (control_ == nullptr || ledger_ == nullptr) throw std::runtime_error("the broker's regions do not fit");
}

TenantRegions::~TenantRegions() {
  ::munmap(const_cast<ControlRegion*>(control_), sizeof(ControlRegion));
  ::munmap(const_cast<LedgerRegion*>(ledger_), sizeof(LedgerRegion));
  ::close(ledger_fd_);
}

DeviceUsage usage_of(const TenantRegions& regions, std::uint32_t device) {
  DeviceUsage usage;
  const DeviceLedger& ledger = regions.ledger().devices[device];
  const LaneLedger& compute = ledger.lanes[static_cast<std::uint32_t>(Lane::kCompute)];
  const LaneLedger& copy = ledger.lanes[static_cast<std::uint32_t>(Lane::kCopy)];
  usage.vram_limit = regions.control().devices[device].vram_limit.load();
  const VramAccount account(const_cast<LedgerRegion*>(&regions.ledger()), device);
  usage.vram_used = account.used();
  usage.vram_peak = account.peak();
  usage.refusals = ledger.refusals.load();
  usage.dirty_bytes = ledger.dirty_bytes.load();
  usage.device_ns = charged_ns(compute);
  usage.launches = compute.operations.load();
  usage.throttled_ns = compute.throttled_ns.load() + copy.throttled_ns.load();
  usage.copy_bytes = copy.bytes.load();
  usage.copy_ns = charged_ns(copy);
  usage.copies = copy.operations.load();
  return usage;
}

namespace {

// It was started by a program before an upgrade, and stays for the jobs that know it.
std::string other_version(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  const bool known = ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid > 0;
  return "the broker" + (known ? " (process " + std::to_string(peer.pid) + ")" : std::string()) +
         " is of another version: it ends by itself a minute after the last job under it; stop those jobs, "
         "or end it "
         "with `kill`, and what is asked next starts one of this version";
}

}  // namespace

BrokerClient::BrokerClient(const std::string& socket_path) : socket_(connect_to(socket_path.c_str())) {
  if (socket_ < 0)
    throw std::runtime_error("no broker answers at " + socket_path +
                             ": `tranche guard run` or `tranche broker` starts one");
}

BrokerClient::~BrokerClient() {
  ::close(socket_);
}

bool BrokerClient::answers(const std::string& socket_path) {
  const int socket = connect_to(socket_path.c_str());
  if (socket >= 0) ::close(socket);
  return socket >= 0;
}

Reply BrokerClient::ask(const Request& request, int* fds, int passed) {
  Reply reply;
  if (!send_message(socket_, &request, sizeof request, &passed, passed < 0 ? 0 : 1) ||
      !receive_message(socket_, &reply, sizeof reply, fds, kFdsMax))
    throw std::runtime_error("the broker went away");
  if (reply.answer == Answer::kBadVersion) throw std::runtime_error(other_version(socket_));
  return reply;
}

std::unique_ptr<TenantRegions> BrokerClient::create_tenant(const std::string& name,
                                                           const TenantLimits& limits,
                                                           const std::string& tenant_socket,
                                                           std::uint32_t socket_mode,
                                                           const TenantRegions* before) {
  Request request;
  request.ask = Ask::kCreateTenant;
  request.limits = limits;
  for (DeviceLimits& device : request.limits.devices)
    if (before == nullptr && device.vram_bytes != 0 && device.vram_bytes < kSmallLimit)
      device.context_mib = context_mib_of(device.physical);
  request.socket_mode = socket_mode;
  if (name.size() >= sizeof request.tenant || tenant_socket.size() >= sizeof request.socket_path)
    throw std::runtime_error("the tenant's name or socket path is too long");
  name.copy(request.tenant, sizeof request.tenant - 1);
  tenant_socket.copy(request.socket_path, sizeof request.socket_path - 1);
  int fds[kFdsMax];
  const Reply reply = ask(request, fds, before == nullptr ? -1 : before->ledger_fd());
  if ((reply.answer != Answer::kDone && reply.answer != Answer::kExists) || fds[0] < 0 || fds[1] < 0)
    throw std::runtime_error("the broker refused to create tenant " + name);
  return std::make_unique<TenantRegions>(fds[0], fds[1]);
}

void BrokerClient::set_limits(const std::string& name, const TenantLimits& limits) {
  Request request;
  request.ask = Ask::kSetLimits;
  request.limits = limits;
  name.copy(request.tenant, sizeof request.tenant - 1);
  int fds[kFdsMax];
  if (ask(request, fds).answer != Answer::kDone)
    throw std::runtime_error("the broker knows no tenant " + name);
}

void BrokerClient::remove_tenant(const std::string& name) {
  Request request;
  request.ask = Ask::kRemoveTenant;
  name.copy(request.tenant, sizeof request.tenant - 1);
  int fds[kFdsMax];
  ask(request, fds);
}

void BrokerClient::scrubbed(std::uint32_t physical_device) {
  Request request;
  request.ask = Ask::kScrubbed;
  request.limits.devices[0].physical = physical_device;
  int fds[kFdsMax];
  ask(request, fds);
}

std::vector<TenantListing> BrokerClient::list() {
  Request request;
  request.ask = Ask::kList;
  std::vector<TenantListing> tenants;
  int fds[kFdsMax];
  for (Reply reply = ask(request, fds); reply.answer == Answer::kDone;) {
    tenants.push_back(
        {reply.tenant, reply.processes, reply.limits, std::make_unique<TenantRegions>(fds[0], fds[1])});
    if (!receive_message(socket_, &reply, sizeof reply, fds, kFdsMax))
      throw std::runtime_error("the broker went away");
  }
  return tenants;
}

std::vector<ProcessListing> BrokerClient::processes(const std::string& name) {
  Request request;
  request.ask = Ask::kProcesses;
  name.copy(request.tenant, sizeof request.tenant - 1);
  std::vector<ProcessListing> found;
  int fds[kFdsMax];
  for (Reply reply = ask(request, fds); reply.pid != 0;) {
    found.push_back({reply.pid, reply.parked != 0});
    if (!receive_message(socket_, &reply, sizeof reply, fds, kFdsMax))
      throw std::runtime_error("the broker went away");
  }
  return found;
}

bool BrokerClient::park(const std::string& name, std::uint32_t pid) {
  Request request;
  request.ask = Ask::kPark;
  request.pid = pid;
  name.copy(request.tenant, sizeof request.tenant - 1);
  int fds[kFdsMax];
  return ask(request, fds).answer == Answer::kDone;
}

bool BrokerClient::unpark(const std::string& name, std::uint32_t pid) {
  Request request;
  request.ask = Ask::kUnpark;
  request.pid = pid;
  name.copy(request.tenant, sizeof request.tenant - 1);
  int fds[kFdsMax];
  return ask(request, fds).answer == Answer::kDone;
}

}  // namespace tranche::guard
