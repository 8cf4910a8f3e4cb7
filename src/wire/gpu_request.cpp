// SPDX-License-Identifier: Apache-2.0
#include "wire/gpu_request.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "wire/codec_impl.hpp"
#include "wire/gpu_item_parser.hpp"
#include "wire/nearest.hpp"

namespace tranche::wire {
namespace {

using detail::GpuItemParser;
using detail::GpuWord;
using namespace std::string_view_literals;

constexpr std::size_t kTextMax = 4096;
constexpr std::size_t kItemsMax = 64;
constexpr std::array kLongKeys{"gpu"sv, "count"sv, "vram"sv, "compute"sv, "isolation"sv};

struct Pair {
  GpuWord key;
  GpuWord value;
};
std::optional<Pair> as_pair(GpuWord element) {
  const auto colon = element.text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  return Pair{.key = detail::trimmed({.text = element.text.substr(0, colon), .position = element.position}),
              .value = detail::trimmed(
                  {.text = element.text.substr(colon + 1), .position = element.position + colon + 1})};
}

// {gpu: H100, vram: 20GB} names keys that no GPU is called; {gpu:H100, L4} is a set that begins like Slurm's
// gres.
bool is_long_form(const std::vector<GpuWord>& elements) {
  return std::any_of(elements.begin(), elements.end(), [](const GpuWord& element) {
    const auto pair = as_pair(element);
    if (!pair || equal_ignoring_case(pair->key.text, "gpu")) return false;
    return std::any_of(kLongKeys.begin(), kLongKeys.end(), [&](std::string_view key) {
      return equal_ignoring_case(key, pair->key.text);
    });
  });
}

class LongForm {
 public:
  LongForm(std::string_view request, std::vector<GpuWord> elements)
      : request_(request), elements_(std::move(elements)) {}

  Result<GpuRequest, GpuProblem> parse() {
    for (const GpuWord& element : elements_) {
      const auto pair = as_pair(element);
      if (!pair) return refuse(GpuProblem{element.position, "the long form is made of key: value", {}});
      if (auto wrong = take(*pair)) return refuse(std::move(*wrong));
    }
    if (vram_.count > 0) {
      item_.vram = vram_;
      item_.vram_max = vram_max_;
      item_.milli = milli_;
    } else if (milli_ > 0) {
      item_.milli = milli_;
    }
    item_.milli_max = milli_max_;
    if (item_.vram.count > 0 && (item_.milli_max > 0) != (item_.vram_max.count > 0) && item_.milli == 0)
      item_.milli_max = 0;  // Compute follows from memory, and its range from that.
    if (!item_.profile.empty() && (vram_.count > 0 || milli_ > 0)) {
      return refuse(
          GpuProblem{elements_.front().position, "a partition profile fixes VRAM and compute already", {}});
    }
    return GpuRequest{.order = GpuOrder::kAny, .isolation = isolation_, .items = {item_}};
  }

 private:
  std::optional<GpuProblem> take(const Pair& pair) {
    const std::string key = lower_case(pair.key.text);
    if (std::find(seen_.begin(), seen_.end(), key) != seen_.end()) {
      return GpuProblem{pair.key.position, "'" + key + "' is given twice", {}};
    }
    seen_.push_back(key);
    if (key == "gpu") return take_gpu(pair.value);
    if (key == "count") return take_count(pair.value);
    if (key == "vram") return take_vram(pair.value);
    if (key == "compute") return take_compute(pair.value);
    if (key == "isolation") return take_isolation(pair.value);
    return GpuProblem{
        pair.key.position, "unknown key '" + key + "'", instead(pair.key, nearest(key, kLongKeys))};
  }

  std::optional<GpuProblem> take_gpu(GpuWord value) {
    const std::uint32_t count = item_.count_min;
    auto parsed = GpuItemParser(request_, value).parse();
    if (!parsed) return std::move(parsed.error());
    if (parsed->vram.count > 0) vram_ = std::exchange(parsed->vram, {});
    if (parsed->milli < 1000) milli_ = std::exchange(parsed->milli, 1000);
    milli_max_ = std::exchange(parsed->milli_max, 0);
    item_ = std::move(*parsed);
    if (count != 1) item_.count_min = item_.count_max = count;
    return std::nullopt;
  }
  std::optional<GpuProblem> take_count(GpuWord value) {
    const std::string with_gpu = "gpu:" + std::string(value.text);
    const auto parsed = GpuItemParser(with_gpu, {.text = with_gpu, .position = 0}).parse();
    if (!parsed || parsed->milli < 1000 || parsed->vram.count > 0 || !parsed->model.empty()) {
      return GpuProblem{value.position, "must be a whole number of GPUs", instead(value, "1")};
    }
    item_.count_min = parsed->count_min;
    item_.count_max = parsed->count_max;
    return std::nullopt;
  }
  std::optional<GpuProblem> take_vram(GpuWord value) {
    const auto memory = detail::parse_memory(value.text);
    if (!memory) {
      return GpuProblem{
          value.position, "must be memory in GB, GiB, MB or MiB, or a range of it", instead(value, "20GB")};
    }
    if (memory->least > memory->most) {
      return GpuProblem{
          value.position,
          "the range is empty",
          instead(value, detail::memory_text(memory->most) + ".." + detail::memory_text(memory->least))};
    }
    vram_ = memory->least;
    if (memory->most > memory->least) vram_max_ = memory->most;
    return std::nullopt;
  }
  std::optional<GpuProblem> take_compute(GpuWord value) {
    const auto dots = value.text.find("..");
    const auto least = share(value.text.substr(0, dots));
    const auto most = dots == std::string_view::npos ? least : share(value.text.substr(dots + 2));
    if (!least || !most || *least > *most || (*most > *least && *most >= 1000)) {
      return GpuProblem{value.position,
                        "must be a share of the device from 0.1% to 100%, or a range such as 20%..50%",
                        instead(value, "30%")};
    }
    milli_ = *least;
    if (*most > *least) milli_max_ = *most;
    return std::nullopt;
  }
  std::optional<GpuProblem> take_isolation(GpuWord value) {
    if (const auto isolation = from_name<Isolation>(lower_case(value.text))) {
      isolation_ = *isolation;
      return std::nullopt;
    }
    static constexpr std::array kNames{"dedicated"sv, "hard"sv, "soft"sv};
    return GpuProblem{
        value.position, "must be dedicated, hard or soft", instead(value, nearest(value.text, kNames))};
  }

  static std::optional<std::uint16_t> share(std::string_view text) {
    const bool percent = text.ends_with('%');
    const auto milli =
        percent ? detail::parse_milli(text.substr(0, text.size() - 1), 10) : detail::parse_milli(text, 1000);
    if (!milli || *milli == 0 || *milli > 1000) return std::nullopt;
    return static_cast<std::uint16_t>(*milli);
  }

  [[nodiscard]] std::string instead(GpuWord word, std::string_view better) const {
    if (better.empty()) return {};
    return std::string(request_.substr(0, word.position)) + std::string(better) +
           std::string(request_.substr(word.position + word.text.size()));
  }

  std::string_view request_;
  std::vector<GpuWord> elements_;
  std::vector<std::string> seen_;
  GpuItem item_;
  Isolation isolation_ = Isolation::kDefault;
  Bytes vram_{};
  Bytes vram_max_{};
  std::uint16_t milli_ = 0;
  std::uint16_t milli_max_ = 0;
};

Result<GpuRequest, GpuProblem> parse_items(std::string_view request,
                                           GpuOrder order,
                                           const std::vector<GpuWord>& elements) {
  if (elements.size() > kItemsMax) return refuse(GpuProblem{0, "at most 64 alternatives are taken", {}});
  GpuRequest out{.order = order, .isolation = Isolation::kDefault, .items = {}};
  for (const GpuWord& element : elements) {
    auto item = GpuItemParser(request, element).parse();
    if (!item) return refuse(std::move(item.error()));
    out.items.push_back(std::move(*item));
  }
  if (out.items.size() == 1) out.order = GpuOrder::kAny;
  return out;
}

void append_share(std::string& out, std::uint32_t milli) {
  std::string digits = std::to_string(1000 + milli).substr(1);
  while (digits.size() > 1 && digits.back() == '0') digits.pop_back();
  out += "0." + digits;
}

std::string device_text(const GpuItem& item) {
  std::string out = item.model;
  if (out.empty() && item.vendor != GpuVendor::kAny) out = name_of(item.vendor);
  if (item.memory_min.count == 0 && item.memory_max.count == 0) return out;
  if (!out.empty()) out += ':';
  out += detail::memory_text(item.memory_min);
  if (item.memory_max.count != 0 && item.memory_max != item.memory_min)
    out += ".." + detail::memory_text(item.memory_max);
  if (item.memory_max == item.memory_min && item.model.empty())
    out += ".." + detail::memory_text(item.memory_max);
  return out;
}

bool wants_long_form(const GpuItem& item) {
  const bool one_device = !item.model.empty() || item.memory_min.count != 0 || item.memory_max.count != 0;
  return item.vram.count > 0 && (item.milli != 0 || one_device || item.vram_max.count > 0);
}

std::string count_text(const GpuItem& item) {
  std::string out = std::to_string(item.count_min);
  if (item.count_max != item.count_min) out += ".." + std::to_string(item.count_max);
  return out;
}

std::string percent_text(std::uint32_t milli) {
  std::string percent = std::to_string(milli / 10);
  if (milli % 10 != 0) percent += "." + std::to_string(milli % 10);
  return percent + "%";
}

std::string long_text(const GpuItem& item, Isolation isolation) {
  std::string out = "{";
  const auto add = [&](std::string_view key, const std::string& value) {
    if (out.size() > 1) out += ", ";
    out += key;
    out += ": " + value;
  };
  std::string device = device_text(item);
  if (!item.profile.empty()) device += ":" + item.profile;
  if (!device.empty()) add("gpu", device);
  if (item.count_min != 1 || item.count_max != 1) add("count", count_text(item));
  if (item.vram.count > 0) {
    const bool range = item.vram_max.count > 0;
    add("vram", detail::memory_text(item.vram) + (range ? ".." + detail::memory_text(item.vram_max) : ""));
  }
  if (item.milli != 0 && item.milli != 1000) {
    const bool range = item.milli_max > 0;
    add("compute", percent_text(item.milli) + (range ? ".." + percent_text(item.milli_max) : ""));
  } else if (item.milli == 1000 && item.vram.count > 0) {
    add("compute", "100%");
  }
  if (isolation != Isolation::kDefault) add("isolation", std::string(name_of(isolation)));
  return out + "}";
}

}  // namespace

Result<GpuRequest, GpuProblem> parse_gpu_request(std::string_view request) {
  if (request.size() > kTextMax)
    return refuse(GpuProblem{kTextMax, "a GPU request this long is a mistake", {}});
  const GpuWord whole = detail::trimmed({.text = request, .position = 0});
  if (whole.text.empty()) return refuse(GpuProblem{0, "a GPU is missing here", "H100"});
  const char open = whole.text.front();
  if (open != '[' && open != '{') {
    const auto stray = whole.text.find_first_of(",[]{}");
    if (stray != std::string_view::npos) {
      return refuse(
          GpuProblem{.position = whole.position + stray,
                     .message = "alternatives stand in [ ] or { }",
                     .nearest = whole.text[stray] == ',' ? "[" + std::string(whole.text) + "]" : ""});
    }
    return parse_items(request, GpuOrder::kAny, {whole});
  }
  const char close = open == '[' ? ']' : '}';
  if (whole.text.size() < 2 || whole.text.back() != close) {
    return refuse(GpuProblem{.position = whole.position + whole.text.size(),
                             .message = std::string("'") + close + "' is missing",
                             .nearest = std::string(whole.text) + close});
  }
  const auto inside = whole.text.substr(1, whole.text.size() - 2);
  if (const auto stray = inside.find_first_of("[]{}"); stray != std::string_view::npos) {
    return refuse(GpuProblem{whole.position + 1 + stray, "lists do not nest", {}});
  }
  const auto elements = detail::split({.text = inside, .position = whole.position + 1}, ',');
  if (open == '{' && is_long_form(elements)) return LongForm(request, elements).parse();
  return parse_items(request, open == '[' ? GpuOrder::kOrdered : GpuOrder::kAny, elements);
}

std::string text(const GpuItem& item) {
  if (wants_long_form(item)) return long_text(item, Isolation::kDefault);
  std::string out = device_text(item);
  if (item.vram.count > 0)
    out += (out.empty() ? "" : ":") + detail::memory_text(item.vram);  // 10GB, or amd:10GB
  const bool whole_and_one = item.count_min == 1 && item.count_max == 1;
  if (!item.profile.empty()) return out + ":" + item.profile;
  if (item.vram.count == 0 && item.milli < 1000) {
    if (out.empty()) out = "gpu";
    out += ':';
    append_share(out, item.milli);
    if (item.milli_max > 0) {
      out += "..";
      append_share(out, item.milli_max);
    }
  } else if (out.empty()) {
    out = "gpu";
    if (!whole_and_one) out += ":" + count_text(item);
  } else if (!whole_and_one) {
    out += ":" + count_text(item);
  }
  return out;
}

std::string text(const GpuRequest& request) {
  if (request.items.empty()) return {};
  if (request.items.size() == 1) {
    const GpuItem& item = request.items.front();
    return request.isolation == Isolation::kDefault ? text(item) : long_text(item, request.isolation);
  }
  std::string out(request.order == GpuOrder::kOrdered ? "[" : "{");
  for (std::size_t i = 0; i < request.items.size(); ++i) {
    if (i > 0) out += ", ";
    out += text(request.items[i]);
  }
  return out + (request.order == GpuOrder::kOrdered ? "]" : "}");
}

std::string caret_text(std::string_view request, const GpuProblem& problem) {
  std::string out = std::string(request) + "\n" + std::string(problem.position, ' ') + "^ " + problem.message;
  if (!problem.nearest.empty()) out += "\nnearest legal form: " + problem.nearest;
  return out;
}

std::string line_text(const GpuProblem& problem) {
  std::string out = problem.message + " (at character " + std::to_string(problem.position + 1);
  if (!problem.nearest.empty()) out += "; nearest legal form: " + problem.nearest;
  return out + ")";
}

bool accepts(const GpuItem& item, const GpuModel& model) {
  if (item.vendor != GpuVendor::kAny && item.vendor != model.vendor) return false;
  const bool own_range = item.memory_min.count != 0 || item.memory_max.count != 0;
  const auto match = own_range ? MemoryMatch::kAny : MemoryMatch::kSame;
  if (!item.model.empty() && !is_meant_by(model, item.model, match)) return false;
  if (item.vram > model.vram || model.vram < item.memory_min) return false;
  return item.memory_max.count == 0 || model.vram <= item.memory_max;
}

void TextForm<GpuRequest>::append(std::string& json, const GpuRequest& value) {
  append_json_string(json, wire::text(value));
}

Result<GpuRequest, std::string> TextForm<GpuRequest>::parse(std::string_view text) {
  if (text.empty()) return GpuRequest{};  // No GPU.
  auto request = parse_gpu_request(text);
  if (!request) return refuse(line_text(request.error()));
  return std::move(*request);
}

}  // namespace tranche::wire

TRANCHE_WIRE_CODEC(tranche::wire::GpuRequest);
