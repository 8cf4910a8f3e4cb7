// SPDX-License-Identifier: Apache-2.0
#include "wire/job_dialect.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "wire/gpu_catalog.hpp"

namespace tranche::wire {
namespace {

using Index = std::uint32_t;
using std::string_view_literals::operator""sv;

struct Stop {
  Problem problem;
};

// Keys of SkyPilot and dstack files that we know of and cannot honour.
constexpr std::array kRefusedTop{
    "service"sv,         "config"sv,        "pool"sv,       "inputs"sv,     "outputs"sv,
    "repos"sv,           "files"sv,         "backends"sv,   "regions"sv,    "availability_zones"sv,
    "instance_types"sv,  "ports"sv,         "python"sv,     "ide"sv,        "fleets"sv,
    "creation_policy"sv, "registry_auth"sv, "privileged"sv, "entrypoint"sv, "event_callback"sv,
    "startup_order"sv,   "stop_criteria"sv, "nvcc"sv,       "docker"sv};
constexpr std::array kRefusedResources{"any_of"sv,
                                       "ordered"sv,
                                       "cloud"sv,
                                       "region"sv,
                                       "zone"sv,
                                       "ports"sv,
                                       "instance_type"sv,
                                       "disk_tier"sv,
                                       "network_tier"sv,
                                       "shm_size"sv,
                                       "accelerator_args"sv,
                                       "priority_class"sv};

class Translation {
 public:
  explicit Translation(Document& document) : document_(document) {}

  void run() {
    if (document_.root().kind != NodeKind::kObject) return;  // The strict reader says what is wrong.
    refuse_known(kRoot, kRefusedTop);
    dstack_type();
    move("max_duration", kRoot, "time", "limits");
    move("max_price", kRoot, "price_per_hour", "limits");
    join_lines("commands");
    rename(kRoot, "commands", "run");
    join_lines("run");
    join_lines("setup");
    for (const auto key : {"env"sv, "envs"sv, "secrets"sv}) list_to_map(key);
    spot_policy();
    cron_schedule();
    utilization_policy();
    volumes_by_path();
    if (const Index resources = child(kRoot, "resources"); resources != Node::kNone)
      translate_resources(resources);
    retry_words();
  }

 private:
  static constexpr Index kRoot = 0;

  [[nodiscard]] const Node& at(Index index) const { return document_.at(index); }
  Node& at(Index index) { return document_.at(index); }
  [[noreturn]] void fail(Index node, std::string path, std::string message) const {
    throw Stop{{.path = std::move(path), .message = std::move(message), .hint = {}, .line = at(node).line}};
  }

  [[nodiscard]] Index child(Index parent, std::string_view key) const {
    if (parent == Node::kNone || at(parent).kind != NodeKind::kObject) return Node::kNone;
    for (Index i = at(parent).first_child; i != Node::kNone; i = at(i).next) {
      if (at(i).key == key) return i;
    }
    return Node::kNone;
  }
  [[nodiscard]] std::vector<Index> children(Index parent) const {
    std::vector<Index> out;
    for (Index i = at(parent).first_child; i != Node::kNone; i = at(i).next) out.push_back(i);
    return out;
  }
  void set_children(Index parent, const std::vector<Index>& list) {
    at(parent).first_child = list.empty() ? Node::kNone : list.front();
    at(parent).children = static_cast<std::uint32_t>(list.size());
    for (std::size_t i = 0; i < list.size(); ++i)
      at(list[i]).next = i + 1 < list.size() ? list[i + 1] : Node::kNone;
  }
  void detach(Index parent, Index node) {
    auto list = children(parent);
    std::erase(list, node);
    set_children(parent, list);
  }
  void attach(Index parent, Index node, std::string_view key) {
    auto list = children(parent);
    list.push_back(node);
    at(node).key = key;
    set_children(parent, list);
  }
  void become_text(Index node, std::string text) {
    at(node).text = document_.keep(std::move(text));
    at(node).kind = NodeKind::kString;
    at(node).first_child = Node::kNone;
    at(node).children = 0;
  }
  Index object_in(Index parent, std::string_view key, std::uint32_t line) {
    if (const Index known = child(parent, key); known != Node::kNone) return known;
    const Index made = document_.add({.key = {}, .text = {}, .line = line, .kind = NodeKind::kObject});
    attach(parent, made, key);
    return made;
  }

  void rename(Index parent, std::string_view from, std::string_view to) {
    const Index node = child(parent, from);
    if (node == Node::kNone) return;
    if (child(parent, to) != Node::kNone)
      fail(node, std::string(from), "says the same as '" + std::string(to) + "'");
    at(node).key = to;
  }
  // Takes `key` out of `parent` and puts it as `to` into the object `into` of the root, or into the root.
  void move(std::string_view key, Index parent, std::string_view to, std::string_view into) {
    const Index node = child(parent, key);
    if (node == Node::kNone) return;
    detach(parent, node);
    const Index target = into.empty() ? kRoot : object_in(kRoot, into, at(node).line);
    if (child(target, to) != Node::kNone)
      fail(node, std::string(key), "says the same as '" + std::string(to) + "'");
    attach(target, node, to);
  }
  template <std::size_t N>
  void refuse_known(Index parent, const std::array<std::string_view, N>& keys) const {
    for (Index i = at(parent).first_child; i != Node::kNone; i = at(i).next) {
      if (std::find(keys.begin(), keys.end(), at(i).key) == keys.end()) continue;
      const std::string prefix = parent == kRoot ? "" : "resources.";
      fail(i, prefix + std::string(at(i).key), "is known from other systems, but Tranche cannot honour it");
    }
  }

  [[nodiscard]] bool is_text(Index node) const {
    const NodeKind kind = at(node).kind;
    return kind != NodeKind::kArray && kind != NodeKind::kObject && kind != NodeKind::kNull;
  }

  void dstack_type() {
    const Index type = child(kRoot, "type");
    if (type == Node::kNone) return;
    if (at(type).text == "dev-environment") {
      const Index kind = object_in(kRoot, "kind", at(type).line);
      become_text(kind, "interactive");
    } else if (at(type).text != "task") {
      fail(type,
           "type",
           "'" + std::string(at(type).text) + "' is known from dstack, but Tranche cannot honour it");
    }
    detach(kRoot, type);
  }
  void join_lines(std::string_view key) {
    const Index node = child(kRoot, key);
    if (node == Node::kNone || at(node).kind != NodeKind::kArray) return;
    std::string lines;
    for (const Index line : children(node)) {
      if (!is_text(line)) fail(line, std::string(key), "must be a list of commands");
      lines += std::string(at(line).text) + "\n";
    }
    if (!lines.empty()) lines.pop_back();
    become_text(node, std::move(lines));
  }
  // [A=1, B=2] -> {A: 1, B: 2}
  void list_to_map(std::string_view key) {
    const Index node = child(kRoot, key);
    if (node == Node::kNone || at(node).kind != NodeKind::kArray) return;
    for (const Index entry : children(node)) {
      const std::string_view text = at(entry).text;
      const auto equals = text.find('=');
      if (!is_text(entry) || equals == std::string_view::npos) {
        fail(entry, std::string(key), "'" + std::string(text) + "' has no value: write NAME=value");
      }
      at(entry).key = text.substr(0, equals);
      at(entry).text = text.substr(equals + 1);
      at(entry).kind = NodeKind::kString;
    }
    at(node).kind = NodeKind::kObject;
  }
  void become_bool(Index node, bool value) {
    at(node).kind = NodeKind::kBool;
    at(node).text = value ? "true"sv : "false"sv;
  }
  void spot_policy() {
    const Index node = child(kRoot, "spot_policy");
    if (node == Node::kNone) return;
    const std::string_view policy = at(node).text;
    if (policy != "spot" && policy != "on-demand" && policy != "auto") {
      fail(node, "spot_policy", "must be spot, on-demand or auto");
    }
    become_bool(node, policy != "on-demand");
    rename(kRoot, "spot_policy", "preemptible");
  }
  void cron_schedule() {
    const Index node = child(kRoot, "schedule");
    const Index cron = child(node, "cron");
    if (cron == Node::kNone || at(node).children != 1 || !is_text(cron)) return;
    become_text(node, std::string(at(cron).text));
  }
  void utilization_policy() {
    const Index node = child(kRoot, "utilization_policy");
    if (node == Node::kNone) return;
    move("time_window", node, "idle", "limits");
    if (const Index least = child(node, "min_gpu_utilization"); least != Node::kNone) detach(node, least);
    if (at(node).children == 0) detach(kRoot, node);
  }
  // {/data: name} -> ["name:/data"], and dstack's "name:/data" lists as they are.
  void volumes_by_path() {
    const Index node = child(kRoot, "volumes");
    if (node == Node::kNone || at(node).kind != NodeKind::kObject) return;
    for (const Index entry : children(node)) {
      const std::string path(at(entry).key);
      if (!is_text(entry)) fail(entry, "volumes." + path, "must be the name of a volume");
      become_text(entry, std::string(at(entry).text) + ":" + path);
      at(entry).key = {};
    }
    at(node).kind = NodeKind::kArray;
  }
  void retry_words() {
    const Index retry = child(kRoot, "retry");
    if (retry == Node::kNone) return;
    if (at(retry).kind == NodeKind::kBool) { become_text(retry, at(retry).text == "true" ? "3" : "0"); }
    for (const auto key : {"on_events"sv, "on"sv}) {
      const Index on = child(retry, key);
      if (on == Node::kNone || at(on).kind != NodeKind::kArray) continue;
      for (const Index event : children(on)) {
        if (at(event).text == "interruption") at(event).text = "preemption"sv;
        if (at(event).text == "no-capacity")
          fail(event, "retry." + std::string(key), "jobs wait for capacity anyway");
      }
      if (child(retry, "attempts") == Node::kNone) {
        const Index attempts =
            document_.add({.key = {}, .text = "3"sv, .line = at(retry).line, .kind = NodeKind::kInteger});
        attach(retry, attempts, "attempts");
      }
    }
  }

  void translate_resources(Index resources) {
    if (at(resources).kind != NodeKind::kObject) return;
    refuse_known(resources, kRefusedResources);
    move("use_spot", resources, "preemptible", "");
    move("infra", resources, "infra", "");
    move("labels", resources, "labels", "");
    move("max_hourly_cost", resources, "price_per_hour", "limits");
    image_id(resources);
    job_recovery(resources);
    autostop(resources);
    disk(resources);
    for (const auto key : {"gpus"sv, "accelerators"sv, "gpu"sv}) {
      const Index gpus = child(resources, key);
      if (gpus != Node::kNone) gpus_to_text(gpus, std::string(key));
    }
  }
  void image_id(Index resources) {
    const Index node = child(resources, "image_id");
    if (node == Node::kNone) return;
    if (!at(node).text.starts_with("docker:")) fail(node, "resources.image_id", "must be docker:IMAGE");
    at(node).text.remove_prefix(7);
    move("image_id", resources, "image", "");
  }
  void job_recovery(Index resources) {
    const Index node = child(resources, "job_recovery");
    if (node == Node::kNone) return;
    if (at(node).kind == NodeKind::kObject) {
      if (const Index strategy = child(node, "strategy"); strategy != Node::kNone) detach(node, strategy);
      rename(node, "max_restarts_on_errors", "attempts");
    } else {
      become_text(node, "0");  // A strategy by name: preempted work is started again anyway.
    }
    move("job_recovery", resources, "retry", "");
  }
  // true, 10 (minutes), 10m, or {idle_minutes: 10}.
  void autostop(Index resources) {
    const Index node = child(resources, "autostop");
    if (node == Node::kNone) return;
    if (at(node).kind == NodeKind::kBool && at(node).text == "false") return detach(resources, node);
    std::string_view minutes = at(node).text;
    if (const Index inside = child(node, "idle_minutes"); inside != Node::kNone) minutes = at(inside).text;
    if (at(node).kind == NodeKind::kBool) minutes = "5";
    const bool bare = !minutes.empty() && minutes.find_first_not_of("0123456789") == std::string_view::npos;
    become_text(node, std::string(minutes) + (bare ? "m" : ""));
    move("autostop", resources, "idle", "limits");
  }
  // SkyPilot's disk_size is in GB; dstack's disk is a size, a minimum, or {size: …}.
  void disk(Index resources) {
    if (const Index size = child(resources, "disk_size"); size != Node::kNone && is_text(size)) {
      if (at(size).kind == NodeKind::kInteger) become_text(size, std::string(at(size).text) + "GB");
      rename(resources, "disk_size", "disk");
    }
    const Index node = child(resources, "disk");
    if (node == Node::kNone) return;
    if (const Index size = child(node, "size"); size != Node::kNone && at(node).children == 1) {
      become_text(node, std::string(at(size).text));
    }
    std::string_view& text = at(node).text;
    if (text.ends_with("..")) text.remove_suffix(2);
    if (text.ends_with("+")) text.remove_suffix(1);
  }

  // H100 | 2 | [L4, A100] | {H100: 8} | {gpu: H100, vram: 20GB} | {name: A100, memory: 80GB, count: 2}
  void gpus_to_text(Index node, const std::string& key) {
    if (at(node).kind == NodeKind::kInteger && find_gpu_model(at(node).text) == nullptr) {
      become_text(node, at(node).text == "0" ? "" : "gpu:" + std::string(at(node).text));
    } else if (at(node).kind == NodeKind::kArray) {
      std::string list = "[";
      for (const Index item : children(node)) {
        if (!is_text(item)) fail(item, "resources." + key, "must be a list of GPU strings");
        list += (list.size() > 1 ? ", " : "") + std::string(at(item).text);
      }
      become_text(node, list + "]");
    } else if (at(node).kind == NodeKind::kObject) {
      become_text(node, gpu_object_text(node, key));
    }
  }
  std::string gpu_object_text(Index node, const std::string& key) {
    if (child(node, "name") != Node::kNone || child(node, "memory") != Node::kNone)
      return dstack_gpu(node, key);
    const bool long_form = child(node, "vram") != Node::kNone || child(node, "compute") != Node::kNone ||
                           child(node, "isolation") != Node::kNone || child(node, "gpu") != Node::kNone;
    std::string text = "{";
    for (const Index entry : children(node)) {
      if (at(entry).kind != NodeKind::kNull && !is_text(entry)) {
        fail(entry, "resources." + key + "." + std::string(at(entry).key), "must be plain text");
      }
      if (text.size() > 1) text += ", ";
      text += at(entry).key;
      if (at(entry).kind == NodeKind::kNull) continue;
      text += (long_form ? ": " : ":") + std::string(at(entry).text);
    }
    const bool single = at(node).children == 1 && !long_form;
    return single ? text.substr(1) : text + "}";
  }
  std::string dstack_gpu(Index node, const std::string& key) {
    std::string text;
    for (const auto part : {"vendor"sv, "name"sv, "memory"sv, "count"sv}) {
      const Index value = child(node, part);
      if (value == Node::kNone) continue;
      if (!is_text(value)) fail(value, "resources." + key + "." + std::string(part), "must be plain text");
      text += (text.empty() ? "" : ":") + std::string(at(value).text);
      detach(node, value);
    }
    if (at(node).children > 0) {
      const Index extra = at(node).first_child;
      fail(extra, "resources." + key + "." + std::string(at(extra).key), "is not taken here");
    }
    return text;
  }

  Document& document_;
};

}  // namespace

std::optional<Problem> translate_job_dialect(Document& document) {
  try {
    Translation(document).run();
  } catch (Stop& stopped) { return std::move(stopped.problem); }
  return std::nullopt;
}

}  // namespace tranche::wire
