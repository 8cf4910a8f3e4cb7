// SPDX-License-Identifier: Apache-2.0
#include "gpu/topology.hpp"

#include <cstdio>
#include <cstdlib>
#include <hwloc.h>
#include <memory>
#include <stdexcept>

#include "gpu/device_identity.hpp"

namespace tranche::gpu {
namespace {

struct Destroy {
  void operator()(hwloc_topology* machine) const { ::hwloc_topology_destroy(machine); }
};
using Machine = std::unique_ptr<hwloc_topology, Destroy>;

Machine loaded(const std::string& file) {
  hwloc_topology_t made = nullptr;
  if (::hwloc_topology_init(&made) != 0) throw std::runtime_error("hwloc has no memory");
  Machine machine(made);
  ::hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (!file.empty() && ::hwloc_topology_set_xml(made, file.c_str()) != 0)
    throw std::runtime_error(file + " is not a machine as hwloc writes it");
  if (::hwloc_topology_load(made) != 0) throw std::runtime_error("hwloc cannot look at the machine");
  return machine;
}

std::string bus_text(const hwloc_obj* bridge) {
  const auto& pci = bridge->attr->bridge.upstream.pci;
  return pci_address_text(pci.domain, pci.bus, pci.dev, pci.func);
}

// The nearest bridge above with more than this one device below it, and not the way into the machine itself.
std::string shared_bridge(const hwloc_obj* device) {
  for (const hwloc_obj* above = device->parent; above != nullptr && above->type == HWLOC_OBJ_BRIDGE;
       above = above->parent) {
    const bool is_switch = above->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
    if (is_switch && above->io_arity > 1) return bus_text(above);
    if (is_switch && above->io_first_child != nullptr && above->io_first_child->next_sibling != nullptr)
      return bus_text(above);
  }
  return {};
}

void place(hwloc_topology* machine, wire::DeviceFacts& facts) {
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  if (std::sscanf(facts.pci_address.c_str(), "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) return;
  const hwloc_obj* device = ::hwloc_get_pcidev_by_busid(machine, domain, bus, slot, function);
  if (device == nullptr) return;
  const hwloc_obj* home = ::hwloc_get_non_io_ancestor_obj(machine, const_cast<hwloc_obj*>(device));
  if (home == nullptr || home->cpuset == nullptr) return;
  char* list = nullptr;
  if (::hwloc_bitmap_list_asprintf(&list, home->cpuset) >= 0 && list != nullptr) facts.near_cpus = list;
  std::free(list);
  if (home->nodeset != nullptr && ::hwloc_bitmap_weight(home->nodeset) == 1)
    facts.numa_node = ::hwloc_bitmap_first(home->nodeset);
  facts.behind = shared_bridge(device);
}

}  // namespace

void place_in_machine(wire::DeviceFacts& facts) {
  if (facts.pci_address.empty()) return;
  facts.numa_node = numa_node_of(facts.pci_address);
  try {
    static const Machine kMachine =
        loaded({});  // Read once: what is plugged in while it runs is found by restart.
    place(kMachine.get(), facts);
  } catch (const std::exception&) {}  // What the kernel says has to do.
}

void place_in_machine(wire::DeviceFacts& facts, const std::string& file) {
  place(loaded(file).get(), facts);
}

}  // namespace tranche::gpu
