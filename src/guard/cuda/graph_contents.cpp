// SPDX-License-Identifier: Apache-2.0
#include "guard/cuda/graph_contents.hpp"

#include <unistd.h>

#include "guard/cuda/graph_nodes.hpp"

namespace tranche::guard::cuda {
namespace {

PointerTable cleaners;          // NOLINT: memset nodes of ours.
std::atomic<bool> any_cleaner;  // NOLINT
// A graph -> in `references` how many executables were made of it, in `mappings` whether the program
// destroyed it; an executable -> its graph in `bytes`.
PointerTable sources;  // NOLINT

Context context_on(std::uint32_t device) {
  Context context = nullptr;
  auto* current = DRIVER(cuCtxGetCurrent, Result(Context*));
  const bool here = device == current_device() && current != nullptr && current(&context) == kSuccess;
  return here ? context : nullptr;
}

void* new_cleaner(void* graph, void* node, const AllocNode& allocation) {
  void* cleaner = nullptr;
  auto* add = DRIVER(cuGraphAddMemsetNode,
                     Result(void**, void*, void* const*, std::size_t, const FillNode*, Context));
  Context context = context_on(static_cast<std::uint32_t>(allocation.location.id));
  const bool words = allocation.bytes % sizeof(std::uint32_t) == 0;
  const unsigned element = words ? sizeof(std::uint32_t) : 1;
  const FillNode zero{allocation.pointer, 0, 0, element, allocation.bytes / element, 1};
  if (add == nullptr || context == nullptr || allocation.location.type != kLocationDevice ||
      add(&cleaner, graph, &node, 1, &zero, context) != kSuccess)
    return nullptr;
  any_cleaner.store(true);
  return cleaners.insert({key_of(cleaner), 0, 0, 0, 1, 0, 0}) ? cleaner : nullptr;
}

// Whatever used the memory first waits until it is zero.
bool make_wait(void* graph, void* cleaner, const NodeList& users) {
  auto* connect = DRIVER(cuGraphAddDependencies, Result(void*, void* const*, void* const*, std::size_t));
  const NodeList waiting = NodeList::waiting_for(cleaner);
  for (void* user : users) {
    if (user == cleaner || waiting.has(user)) continue;  // An edge that is there already would be refused.
    if (connect == nullptr || connect(graph, &cleaner, &user, 1) != kSuccess) return false;
  }
  return users.told() && waiting.told();
}

bool clean_behind(void* graph, void* node, const AllocNode& allocation) {
  const NodeList users = NodeList::waiting_for(node);
  void* cleaner = nullptr;
  for (void* user : users)
    if (is_cleaner(user)) cleaner = user;
  if (cleaner == nullptr) cleaner = new_cleaner(graph, node, allocation);
  return cleaner != nullptr && make_wait(graph, cleaner, users);
}

template <class Visit>
void visit_cleaners(void* graph, Visit visit) {
  auto each = [&](void*, void* node, const AllocNode&) {
    for (void* user : NodeList::waiting_for(node))
      if (is_cleaner(user)) visit(user);
  };
  visit_allocations(graph, each);
}

auto* switcher() {
  return DRIVER(cuGraphNodeSetEnabled, Result(void*, void*, unsigned));
}

bool switch_cleaners(void* exec, void* graph, bool on) {
  auto* set = switcher();
  bool all = true;
  visit_cleaners(graph, [&](void* cleaner) { all = set(exec, cleaner, on ? 1 : 0) == kSuccess && all; });
  return all;
}

Cleaning switched(void* exec, bool on) {
  TableEntry source;
  if (switcher() == nullptr) return kCleaningStays;
  if (!sources.update(key_of(exec), [&](TableEntry& entry) { source = entry; })) return kCleaningLacking;
  void* graph = reinterpret_cast<void*>(source.bytes);
  if (switch_cleaners(exec, graph, on)) return on ? kCleaningOn : kCleaningOff;
  // Some may be off now and some on: then all must be on.
  return !on && switch_cleaners(exec, graph, true) ? kCleaningStays : kCleaningLacking;
}

void set_cleaning(void* exec, Cleaning cleaning) {
  object_table.update(key_of(exec), [&](TableEntry& entry) { entry.clean = cleaning; });
}

// A graph may have memory on several devices.
bool dirty_below(std::uint32_t device) {
  if (visible_devices.load(std::memory_order_relaxed) == 1) return must_zero_on_alloc(device);
  for (std::uint32_t each = 0; each < kDevicesMax; ++each)
    if (must_zero_on_alloc(each)) return true;
  return false;
}

void forget_graph(void* graph) {
  visit_cleaners(graph, [](void* cleaner) {
    TableEntry ignored;
    cleaners.remove(key_of(cleaner), ignored);
  });
}

void tell_refusal() {
  constexpr char text[] =
      "tranche-guard: cuGraphLaunch: the device holds what others left, and memory of this graph cannot be "
      "zeroed; launch it when the device was scrubbed\n";
  if (::write(STDERR_FILENO, text, sizeof text - 1) < 0) return;
}

}  // namespace

bool is_cleaner(const void* node) {
  return any_cleaner.load(std::memory_order_relaxed) && cleaners.update(key_of(node), [](TableEntry&) {});
}

Cleaning add_cleaners(void* graph) {
  Cleaning cleaning = kCleaningOn;
  auto each = [&](void* owner, void* node, const AllocNode& allocation) {
    if (!clean_behind(owner, node, allocation)) cleaning = kCleaningLacking;
  };
  visit_allocations(graph, each);
  const bool known = sources.update(key_of(graph), [](TableEntry&) {});
  if (!known) sources.insert({key_of(graph), 0, 0, 0, 0, 0, 0});
  return cleaning;
}

void keep_source(void* exec, void* graph) {
  sources.update(key_of(graph), [](TableEntry& entry) { ++entry.references; });
  sources.insert({key_of(exec), key_of(graph), 0, 0, 0, 0, 0});
}

void follow_update(void* exec, void* graph) {
  // Which graph names the nodes from now on, and whether they are still off, is the driver's secret.
  const bool on = switched(exec, true) != kCleaningLacking;
  const bool renamed = switcher() != nullptr && switch_cleaners(exec, graph, true);
  set_cleaning(exec, on || renamed ? kCleaningStays : kCleaningLacking);
}

bool contents_ready(void* exec) {
  TableEntry entry;
  const bool known = object_table.update(key_of(exec), [&](TableEntry& each) { entry = each; });
  if (!known || entry.kind != kGraphExec || entry.clean == kCleaningStays) return true;
  const bool dirty = dirty_below(entry.device);
  if (entry.clean != kCleaningLacking && (entry.clean == kCleaningOn) != dirty) {
    entry.clean = switched(exec, dirty);
    set_cleaning(exec, static_cast<Cleaning>(entry.clean));
  }
  if (entry.clean != kCleaningLacking || !dirty) return true;
  tell_refusal();
  return false;
}

void forget_exec(void* exec) {
  TableEntry entry;
  if (!sources.remove(key_of(exec), entry)) return;
  void* graph = reinterpret_cast<void*>(entry.bytes);
  bool unneeded = false;
  sources.update(key_of(graph), [&](TableEntry& source) {
    if (source.references > 0) --source.references;
    unneeded = source.references == 0 && source.mappings != 0;
  });
  auto* destroy = DRIVER(cuGraphDestroy, Result(void*));
  if (unneeded && may_destroy(graph) && destroy != nullptr) destroy(graph);
}

bool may_destroy(void* graph) {
  bool needed = false;
  const bool known = sources.update(key_of(graph), [&](TableEntry& source) {
    needed = source.references > 0;
    source.mappings = 1;
  });
  if (!known || needed) return !needed;
  TableEntry ignored;
  forget_graph(graph);
  sources.remove(key_of(graph), ignored);
  return true;
}

}  // namespace tranche::guard::cuda
