// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is in a graph? Asked of the graph itself: however its nodes came into it, by hand, by capture, in a
// copy or in a child, they are all there.
#include <sys/mman.h>
#include <type_traits>

#include "guard/cuda/objects.hpp"

namespace tranche::guard::cuda {

inline constexpr int kChildrenDeepMax = 32;

// Nodes as the driver lists them: all of a graph, or those that wait for one node.
class NodeList {
 public:
  static NodeList of_graph(void* graph) {
    return NodeList(graph, DRIVER(cuGraphGetNodes, Result(void*, void**, std::size_t*)));
  }
  static NodeList waiting_for(void* node) {
    return NodeList(node, DRIVER(cuGraphNodeGetDependentNodes, Result(void*, void**, std::size_t*)));
  }
  ~NodeList() {
    if (nodes_ != nullptr) ::munmap(nodes_, bytes_);
  }
  NodeList(const NodeList&) = delete;
  NodeList& operator=(const NodeList&) = delete;

  [[nodiscard]] void* const* begin() const { return nodes_; }
  [[nodiscard]] void* const* end() const { return nodes_ + count_; }
  [[nodiscard]] bool told() const { return told_; }  // The driver answered.
  [[nodiscard]] bool has(const void* node) const {
    for (const void* each : *this)
      if (each == node) return true;
    return false;
  }

 private:
  using List = Result(void*, void**, std::size_t*);

  NodeList(void* of, List* list) {
    std::size_t count = 0;
    if (list == nullptr || list(of, nullptr, &count) != kSuccess) return;
    told_ = count == 0;
    if (count == 0) return;
    // From the kernel, not from malloc: the program's allocator may be the one calling us.
    bytes_ = count * sizeof(void*);
    void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    nodes_ = static_cast<void**>(memory);
    told_ = list(of, nodes_, &count) == kSuccess;
    if (told_) count_ = count;
  }

  void** nodes_ = nullptr;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
  bool told_ = false;
};

// Calls visit(graph, node, allocation) for every allocation node of `graph` and of its children.
template <class Visit>
void visit_allocations(void* graph, Visit& visit, int deep = 0) {
  auto* type_of = DRIVER(cuGraphNodeGetType, Result(void*, int*));
  auto* describe = DRIVER(cuGraphMemAllocNodeGetParams, Result(void*, AllocNode*));
  auto* child_of = DRIVER(cuGraphChildGraphNodeGetGraph, Result(void*, void**));
  if (graph == nullptr || type_of == nullptr) return;
  const NodeList nodes = NodeList::of_graph(graph);
  for (void* node : nodes) {
    int type = -1;
    void* child = nullptr;
    AllocNode allocation{};
    if (type_of(node, &type) != kSuccess) continue;
    if (type == kGraphNodeMemAlloc && describe != nullptr && describe(node, &allocation) == kSuccess)
      visit(graph, node, allocation);
    if (type == kGraphNodeChild && deep < kChildrenDeepMax && child_of != nullptr &&
        child_of(node, &child) == kSuccess)
      visit_allocations(child, visit, deep + 1);
  }
}

}  // namespace tranche::guard::cuda
