// SPDX-License-Identifier: Apache-2.0
#include "policy/placement_value.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "base/check.hpp"
#include "policy/placement_guard.hpp"
#include "policy/placement_price.hpp"
#include "policy/placement_states.hpp"

namespace tranche::policy {
namespace {

struct Entry {
  float score = 0;
  std::uint32_t tie = 0;
  StateRef ref;
};
bool worse(const Entry& a, const Entry& b) {
  return a.score != b.score ? a.score < b.score : a.tie < b.tie;
}

struct Queue {
  std::vector<Entry> heap;
  std::size_t cursor = 0;
  LeanForm form;
  Shape shape;
};

struct TypeBook {
  TerminalWaste waste;
  MultiDeviceGuard guard;
  std::vector<WeightedForm> baseline;
  std::map<Shape, std::uint32_t> forms;
  std::vector<Queue> queues;
};

struct Value {
  std::uint32_t generation = 0;
  float base = 0;
  float guard = 0;
  float out_of_reach = 0;
};

class ValuePolicy final : public PlacementPolicy {
 public:
  ValuePolicy(const Fleet& fleet, const ValueOptions& options)
      : fleet_(fleet), options_(options), learner_(options.mix), outlook_(options.far), table_(fleet) {
    add_types();
    for (NodeIndex node = 0; node < fleet.node_count(); ++node) table_.update(node);
  }

  void add_kind(KindIndex kind, const Shape& shape) override {
    kinds_.resize(kind + 1);
    kinds_[kind].shape = shape;
    for (TypeIndex type = 0; type < books_.size(); ++type) add_place(kind, type);
  }

  void arrived(KindIndex kind) override {
    if (learner_.arrived(kind)) relearn();
    requested_ += static_cast<double>(kinds_[kind].shape.gpu_milli());
    if (learned_ && requested_ >= next_solve_) solve();
  }

  void departed(KindIndex /*kind*/) override { learner_.departed(); }

  std::optional<Placement> choose(KindIndex kind) override {
    const Entry* best = nullptr;
    double best_total = 0;
    const Queue* best_queue = nullptr;
    for (const Place& place : kinds_[kind].places) {
      Queue& queue = books_[place.type].queues[place.form];
      const Entry* top = catch_up(place.type, queue);
      if (top == nullptr) continue;
      const double total = static_cast<double>(top->score) - place.toll / 1000;
      if (best != nullptr && (total < best_total || (total == best_total && top->tie <= best->tie))) continue;
      best = top;
      best_total = total;
      best_queue = &queue;
    }
    if (best == nullptr) return anywhere(kinds_[kind].shape);
    return devices_of(best->ref.state, *best_queue);
  }

  void node_changed(NodeIndex node) override {
    add_types();
    table_.update(node);
  }

 private:
  // States know compute and memory of a share as one number, the larger part of the device: a share that
  // wants little of the one and much of the other is looked for once more, node by node, before it is told
  // that nothing fits. So is a partition, which may have more of the compute than of the memory slots.
  [[nodiscard]] std::optional<Placement> anywhere(const Shape& shape) const {
    if (shape.profile == 0 && (!shape.shares() || shape.vram == 0)) return std::nullopt;
    NodeIndex best = kNoNode;
    for (NodeIndex node = 0; node < fleet_.node_count(); ++node)
      if (fleet_.fits(node, shape) &&
          (best == kNoNode || fleet_.node(node).idle_milli() < fleet_.node(best).idle_milli()))
        best = node;
    return best == kNoNode ? std::nullopt : fleet_.tightest(best, shape);
  }

  struct Place {
    TypeIndex type = 0;
    std::uint32_t form = 0;
    double toll = 0;  // The weighted bid.
  };
  struct Kind {
    Shape shape;
    std::vector<Place> places;
  };

  // Types of node that were not there before. What was believed of the others stands.
  void add_types() {
    const auto& types = fleet_.types();
    while (books_.size() < types.size()) {
      const auto type = static_cast<TypeIndex>(books_.size());
      books_.emplace_back();
      cpu_scale_ = std::max(cpu_scale_, static_cast<double>(types[type].cpu_milli));
      gpu_scale_ = std::max(gpu_scale_, static_cast<double>(types[type].devices) * kDeviceMilli);
      for (KindIndex kind = 0; kind < kinds_.size(); ++kind) add_place(kind, type);
      if (learned_) learn_type(type);
    }
  }

  void add_place(KindIndex kind, TypeIndex type) {
    Kind& entry = kinds_[kind];
    const LeanForm lean = lean_form(fleet_, fleet_.types()[type], entry.shape);
    if (lean.devices < 0) return;
    // Models and filters decide about whole types; below that, kinds that differ in nothing else are one
    // form.
    Shape form = entry.shape;
    form.models = 0;
    form.filter = 0;
    TypeBook& book = books_[type];
    const auto [at, fresh] = book.forms.emplace(form, static_cast<std::uint32_t>(book.queues.size()));
    if (fresh) book.queues.push_back({{}, 0, lean, form});
    entry.places.push_back({type, at->second, toll_of(entry.shape, type)});
  }

  [[nodiscard]] double toll_of(const Shape& shape, TypeIndex type) const {
    return outlook_.host_price * prices_.host_bid(static_cast<double>(shape.cpu_milli),
                                                  static_cast<double>(shape.memory_mib),
                                                  type) +
           outlook_.device_price * prices_.device_bid(static_cast<double>(shape.gpu_milli()), type);
  }

  const Entry* catch_up(TypeIndex type, Queue& queue) {
    if (const auto moved = table_.compact_log(type); !moved.empty())
      for (Queue& other : books_[type].queues) other.cursor = moved[other.cursor];
    const auto& log = table_.log(type);
    for (; queue.cursor < log.size(); ++queue.cursor) {
      const StateRef ref = log[queue.cursor];
      if (!table_.live(ref)) continue;
      const GroupState& state = table_.state(ref.state);
      if (!state.lean.fits(queue.form)) continue;
      if (!fleet_.state_fits(fleet_.node(table_.first_node(ref.state)), queue.shape)) continue;
      int position = 0;
      const double score = score_of(ref.state, queue.form, position);
      queue.heap.push_back(
          {static_cast<float>(score), static_cast<std::uint32_t>(state.signature >> 32U), ref});
      std::push_heap(queue.heap.begin(), queue.heap.end(), worse);
    }
    if (queue.heap.size() > 2 * table_.live_states(type) + 64) {
      std::erase_if(queue.heap, [&](const Entry& entry) { return !table_.live(entry.ref); });
      std::make_heap(queue.heap.begin(), queue.heap.end(), worse);
    }
    while (!queue.heap.empty() && !table_.live(queue.heap.front().ref)) {
      std::pop_heap(queue.heap.begin(), queue.heap.end(), worse);
      queue.heap.pop_back();
    }
    return queue.heap.empty() ? nullptr : &queue.heap.front();
  }

  double fit_terms(const LeanNode& after) const {
    return outlook_.fit * (after.cpu / cpu_scale_ + after.idle() / gpu_scale_);
  }

  // What is lost by being in such a state, in devices.
  [[nodiscard]] double loss(double stranded, double guard, double out_of_reach) const {
    return (stranded + guard_weight_ * guard + outlook_.reach * out_of_reach) / 1000;
  }

  double after_value(TypeBook& book, const LeanNode& after) {
    if (!learned_) return -fit_terms(after);
    const Idle idle = book.waste.of(after);
    return -fit_terms(after) - loss(static_cast<double>(idle.stranded),
                                    book.guard.of(after),
                                    static_cast<double>(idle.out_of_reach));
  }

  double score_of(StateIndex index, const LeanForm& form, int& position) {
    const GroupState& state = table_.state(index);
    TypeBook& book = books_[state.type];
    double before = 0;
    if (learned_) {
      const Value& value = value_of(index);
      before = loss(static_cast<double>(value.base),
                    static_cast<double>(value.guard),
                    static_cast<double>(value.out_of_reach)) -
               shelf_weight_ * state.shelf;
    }
    if (!form.shares() || form.devices > 1) {
      LeanNode after = state.lean;
      after.take(form);
      return before + after_value(book, after);
    }
    double best = -1e300;
    int last_left = -1;
    for (int i = state.lean.tightest(form.milli); i <= state.lean.partials; ++i) {
      if (i == state.lean.partials && state.lean.free == 0) break;
      const int left = i < state.lean.partials ? state.lean.left[static_cast<std::size_t>(i)] : kDeviceMilli;
      if (left == last_left) continue;
      last_left = left;
      LeanNode after = state.lean;
      after.cpu -= form.cpu;
      after.memory -= form.memory;
      after.share_from(i, form.milli);
      const double value = after_value(book, after);
      if (value > best) {
        best = value;
        position = i;
      }
    }
    return before + best;
  }

  const Value& value_of(StateIndex index) {
    if (index >= values_.size()) values_.resize(table_.slots());
    const GroupState& state = table_.state(index);
    Value& value = values_[index];
    if (value.generation == state.generation) return value;
    TypeBook& book = books_[state.type];
    double sum = 0;
    double weights = 0;
    for (const WeightedForm& item : book.baseline) {
      if (!state.lean.fits(item.form)) continue;
      LeanNode after = state.lean;
      after.take(item.form);
      sum += item.weight * static_cast<double>(book.waste.of(after).stranded);
      weights += item.weight;
    }
    const bool bare = weights <= 0 || outlook_.reach > 0;
    const Idle idle = bare ? book.waste.of(state.lean) : Idle{};
    value.base = weights > 0 ? static_cast<float>(sum / weights) : idle.stranded;
    value.out_of_reach = idle.out_of_reach;
    value.guard = static_cast<float>(book.guard.of(state.lean));
    value.generation = state.generation;
    return value;
  }

  std::optional<Placement> devices_of(StateIndex index, const Queue& queue) {
    const NodeIndex node = table_.first_node(index);
    if (!queue.form.shares() || queue.form.devices > 1) return fleet_.tightest(node, queue.shape);
    int position = 0;
    score_of(index, queue.form, position);
    const LeanNode& lean = table_.state(index).lean;
    const int wanted =
        position < lean.partials ? lean.left[static_cast<std::size_t>(position)] : kDeviceMilli;
    const NodeState& state = fleet_.node(node);
    for (int i = 0; i < state.device_count; ++i) {
      const DeviceState& device = state.devices[static_cast<std::size_t>(i)];
      if (device.milli_left == wanted && fleet_.device_fits(fleet_.spec(node), device, queue.shape))
        return fleet_.on_device(node, queue.shape, i);
    }
    return fleet_.tightest(node, queue.shape);
  }

  [[nodiscard]] const Outlook& outlook(Horizon horizon) const {
    switch (horizon) {
      case Horizon::kLong:
        return options_.far;
      case Horizon::kMiddle:
        return options_.middle;
      case Horizon::kShort:
        break;
    }
    return options_.near;
  }

  void relearn() {
    const std::vector<double>& mix = learner_.believe();
    outlook_ = outlook(learner_.horizon());
    learned_ = true;
    double all = 0;
    multi_ = 0;
    for (KindIndex kind = 0; kind < mix.size(); ++kind) {
      const Shape& shape = kinds_[kind].shape;
      all += mix[kind] * static_cast<double>(shape.gpu_milli());
      if (shape.devices > 1) multi_ += mix[kind] * static_cast<double>(shape.gpu_milli());
    }
    // Somebody will ask for a whole node, even if nobody has so far: it takes long to get one back.
    unseen_ = outlook_.guard_unseen > 0 ? std::max(0.0, options_.whole_nodes * all - multi_) : 0;
    multi_ += unseen_;
    const double multi_share = all > 0 ? multi_ / all : 0;
    guard_weight_ = outlook_.guard + outlook_.guard_growth * multi_share * multi_share * multi_share;
    if (unseen_ > 0) guard_weight_ += outlook_.guard_unseen * unseen_ / multi_;
    shelf_weight_ = outlook_.shelf * multi_share;
    table_.set_shelves(outlook_.shelf > 0 ? options_.shelves : 1);
    for (Value& value : values_) value.generation = 0;
    for (TypeIndex type = 0; type < books_.size(); ++type) learn_type(type);
    solve();
  }

  void learn_type(TypeIndex type) {
    const std::vector<double>& mix = learner_.believed();
    TypeBook& book = books_[type];
    std::map<LeanForm, double> weights;
    for (KindIndex kind = 0; kind < mix.size(); ++kind) {
      if (mix[kind] <= 0 || kinds_[kind].shape.devices == 0) continue;
      for (const Place& place : kinds_[kind].places)
        if (place.type == type) weights[book.queues[place.form].form] += mix[kind];
    }
    std::vector<WeightedForm> forms;
    forms.reserve(weights.size());
    double total = 0;
    for (const auto& [form, weight] : weights) {
      forms.push_back({form, weight});
      total += weight;
    }
    book.waste = TerminalWaste(forms, outlook_.waste, 0x7472616E636865ULL + type);
    book.guard = MultiDeviceGuard(with_whole_node(forms, type), multi_);
    std::stable_sort(
        forms.begin(), forms.end(), [](const auto& a, const auto& b) { return a.weight > b.weight; });
    book.baseline.clear();
    double covered = 0;
    for (const WeightedForm& item : forms) {
      if (covered >= outlook_.coverage * total) break;
      covered += item.weight;
      book.baseline.push_back(item);
    }
    for (Queue& queue : book.queues) {
      queue.heap.clear();
      queue.cursor = 0;
    }
  }

  [[nodiscard]] std::vector<WeightedForm> with_whole_node(std::vector<WeightedForm> forms,
                                                          TypeIndex type) const {
    const std::int32_t devices = fleet_.types()[type].devices;
    if (unseen_ <= 0 || devices < 2) return forms;
    LeanForm whole;
    whole.devices = static_cast<std::int16_t>(devices);
    whole.milli = kDeviceMilli;
    forms.push_back({whole, unseen_ / static_cast<double>(whole.gpu())});
    return forms;
  }

  void solve() {
    next_solve_ = requested_ + options_.solve_every * static_cast<double>(fleet_.capacity_milli());
    const std::vector<double>& mix = learner_.believed();
    std::vector<PricedKind> priced;
    for (KindIndex kind = 0; kind < mix.size(); ++kind) {
      if (mix[kind] <= 0) continue;
      const Shape& shape = kinds_[kind].shape;
      PricedKind item{mix[kind],
                      static_cast<double>(shape.cpu_milli),
                      static_cast<double>(shape.gpu_milli()),
                      static_cast<double>(shape.memory_mib),
                      {}};
      for (const Place& place : kinds_[kind].places) item.types.push_back(place.type);
      priced.push_back(std::move(item));
    }
    std::vector<PricedType> types(books_.size());
    double size = 0;
    for (NodeIndex node = 0; node < fleet_.node_count(); ++node) {
      const NodeState& state = fleet_.node(node);
      const double one = std::max<int>(state.device_count, 1);
      types[state.type].size += one;
      size += one;
      if (!state.open) continue;
      types[state.type].cpu += static_cast<double>(state.cpu_left);
      types[state.type].memory += static_cast<double>(state.memory_left);
    }
    for (TypeIndex type = 0; type < books_.size(); ++type) {
      types[type].size /= size;
      for (const StateRef ref : table_.log(type)) {
        if (!table_.live(ref)) continue;
        const GroupState& state = table_.state(ref.state);
        types[type].gpu += state.count * (state.lean.idle() - static_cast<double>(value_of(ref.state).base));
      }
    }
    prices_.solve(priced, types, solved_ ? options_.rounds : options_.first_rounds);
    solved_ = true;
    for (Kind& kind : kinds_)
      for (Place& place : kind.places) place.toll = toll_of(kind.shape, place.type);
  }

  const Fleet& fleet_;
  ValueOptions options_;
  MixLearner learner_;
  Outlook outlook_;
  StateTable table_;
  std::vector<TypeBook> books_;
  std::vector<Kind> kinds_;
  std::vector<Value> values_;
  PriceBook prices_;
  double guard_weight_ = 0;
  double shelf_weight_ = 0;
  double multi_ = 0;   // Compute that jobs of several devices ask for, per arrival.
  double unseen_ = 0;  // Of that, what nobody has asked for yet.
  double cpu_scale_ = 1;
  double gpu_scale_ = 1;
  bool learned_ = false;
  bool solved_ = false;
  double requested_ = 0;
  double next_solve_ = 0;
};

}  // namespace

std::unique_ptr<PlacementPolicy> make_value_policy(const Fleet& fleet, const ValueOptions& options) {
  return std::make_unique<ValuePolicy>(fleet, options);
}

}  // namespace tranche::policy
