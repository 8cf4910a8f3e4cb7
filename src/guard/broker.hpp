// SPDX-License-Identifier: Apache-2.0
#pragma once
// The broker of a machine: creates tenants' regions, hands them out by descriptor, and arbitrates each
// device.
//
// One thread, one epoll loop. Nothing a tenant does can make it wait: every socket is non-blocking, every
// region it reads is only read, and a bell that rings without end is muted. When it dies, jobs keep their
// caps.
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "guard/arbiter.hpp"
#include "guard/broker_tenant.hpp"

namespace tranche::guard {

struct BrokerOptions {
  std::string socket_path;      // Where agents and `guard run` speak to it.
  std::uint64_t linger_ns = 0;  // Ends by itself after so long without a tenant; zero: never.
  bool real_time = true;        // Ask for a real-time class: it decides within microseconds, rarely.
};

class Broker {
 public:
  explicit Broker(BrokerOptions options);
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  // Binds the socket; throws std::runtime_error with the reason, e.g. that another broker answers there.
  void listen();
  // Serves until stop() or until the linger time is over.
  void run();
  void stop();  // Safe from a signal handler.

 private:
  struct Device {
    std::array<LaneArbiter, kLanes> lanes;
    std::uint64_t next_step = 0;
    bool dirty = false;  // Somebody died here and left contents behind.
  };
  enum class Kind : std::uint32_t { kListener, kAgent, kTenantListener, kBell, kProcessLink, kPidfd, kStop };
  struct Source {
    Kind kind = Kind::kListener;
    int fd = -1;
    BrokerTenant* tenant = nullptr;
  };

  void watch(Kind kind, int fd, BrokerTenant* tenant);
  void unwatch(int fd);
  void serve(const Source& source, std::uint32_t events, std::uint64_t now);
  void accept_agent();
  void accept_process(BrokerTenant& tenant, std::uint64_t now);
  void serve_agent(int fd, std::uint64_t now);
  Reply answer(const Request& request, int agent, int ledger, std::uint64_t now, std::vector<int>& fds);
  Answer create_tenant(
      const Request& request, int agent, int ledger, std::uint64_t now, std::vector<int>& fds);
  // Finds the processes of a ledger that a broker before us gave out, and reclaims what the dead held.
  void find_processes(BrokerTenant& tenant, std::uint64_t now);
  void list_processes(int agent, BrokerTenant& tenant);
  Answer move_account(BrokerTenant& tenant, const Request& request, std::uint64_t now);
  void list_tenants(int agent);
  void ring(BrokerTenant& tenant, std::uint64_t now);
  void unmute(std::uint64_t now);
  void join(BrokerTenant& tenant, int link, std::uint64_t now);
  void take_place(BrokerTenant& tenant, JoinedProcess& process, const ProcessIdentity& identity);
  void process_gone(BrokerTenant& tenant, int fd, std::uint64_t now);
  void remove_tenant(const std::string& name, std::uint64_t now);
  void remove_orphans(std::uint64_t now);
  void regroup(std::uint64_t now);  // Who shares which device has changed.
  void mark_dirty(BrokerTenant& tenant, const BrokerTenant::Reclaimed& reclaimed);
  bool notice_dirt(BrokerTenant& tenant);
  void publish_dirt();
  std::uint64_t step_devices(std::uint64_t now);
  static std::uint64_t key_of(const BrokerTenant& tenant) {
    return reinterpret_cast<std::uintptr_t>(&tenant);
  }

  BrokerOptions options_;
  std::map<std::string, std::unique_ptr<BrokerTenant>> tenants_;
  std::map<std::uint32_t, Device> devices_;
  std::map<int, Source> sources_;
  int epoll_ = -1;
  int listener_ = -1;
  int stop_ = -1;
  int lock_ =
      -1;  // Held as long as this broker lives: two that start at once do not take each other's place.
  std::uint64_t empty_since_ = 0;
  bool running_ = false;
};

}  // namespace tranche::guard
