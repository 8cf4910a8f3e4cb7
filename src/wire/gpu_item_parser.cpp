// SPDX-License-Identifier: Apache-2.0
#include "wire/gpu_item_parser.hpp"

#include <algorithm>
#include <charconv>

#include "base/text.hpp"
#include "wire/nearest.hpp"

namespace tranche::wire::detail {
namespace {

constexpr std::uint32_t kCountMax = 1'000'000;

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}
// 0.5, 0.25..0.5; and neither 2 nor 2..4.
bool is_share_text(std::string_view text) {
  const auto has_point = [](std::string_view number) { return number.find('.') != std::string_view::npos; };
  if (text.empty() || text.find_first_not_of("0123456789.") != std::string_view::npos) return false;
  const auto dots = text.find("..");
  if (dots == std::string_view::npos) return has_point(text);
  return has_point(text.substr(0, dots)) || has_point(text.substr(dots + 2));
}

std::optional<GpuVendor> parse_vendor(std::string_view word) {
  const auto vendor = from_name<GpuVendor>(lower_case(word));
  return vendor == GpuVendor::kAny ? std::nullopt : vendor;
}

std::optional<Bytes> parse_amount(std::string_view text) {
  const std::string lower = lower_case(text);
  if (!lower.ends_with("gb") && !lower.ends_with("gib") && !lower.ends_with("mb") &&
      !lower.ends_with("mib")) {
    return std::nullopt;
  }
  const auto amount = parse_bytes(text);
  return amount && amount->count > 0 ? amount : std::nullopt;
}

// Catalogues say 80GB of what a device reports as 79.6 GiB: up to a twelfth is the same memory.
bool same_memory(Bytes a, Bytes b) {
  const std::int64_t difference = a.count > b.count ? a.count - b.count : b.count - a.count;
  return difference <= b.count / 12;
}

std::string family_with_memory(const GpuModel& model) {
  return std::string(model.family) + "-" + memory_text(model.vram);
}

std::vector<std::string_view> known_names() {
  std::vector<std::string_view> names;
  for (const GpuModel& model : gpu_catalog()) {
    names.push_back(model.short_name);
    if (model.name != model.short_name) names.push_back(model.name);
    for (const GpuWord alias : split({.text = model.aliases, .position = 0}, ';')) {
      if (alias.text != model.short_name && !alias.text.empty()) names.push_back(alias.text);
    }
  }
  names.insert(names.end(), {"nvidia", "amd", "intel"});
  return names;
}

}  // namespace

GpuWord trimmed(GpuWord word) {
  while (!word.text.empty() && word.text.front() == ' ') {
    word.text.remove_prefix(1);
    ++word.position;
  }
  while (!word.text.empty() && word.text.back() == ' ') word.text.remove_suffix(1);
  return word;
}

std::vector<GpuWord> split(GpuWord word, char separator) {
  std::vector<GpuWord> words;
  for (;;) {
    const auto end = std::min(word.text.find(separator), word.text.size());
    words.push_back(trimmed({.text = word.text.substr(0, end), .position = word.position}));
    if (end == word.text.size()) return words;
    word.text.remove_prefix(end + 1);
    word.position += end + 1;
  }
}

std::optional<MemoryRange> parse_memory(std::string_view text) {
  const auto dots = text.find("..");
  if (dots == std::string_view::npos) {
    const auto amount = parse_amount(text);
    if (!amount) return std::nullopt;
    return MemoryRange{.least = *amount, .most = *amount, .is_range = false};
  }
  const auto least = parse_amount(text.substr(0, dots));
  const auto most = parse_amount(text.substr(dots + 2));
  if (!least || !most) return std::nullopt;
  return MemoryRange{.least = *least, .most = *most, .is_range = true};
}

std::string memory_text(Bytes size) {
  constexpr std::int64_t kGB = 1'000'000'000;
  constexpr std::int64_t kMB = 1'000'000;
  if (size.count % kGB == 0) return std::to_string(size.count / kGB) + "GB";
  if (size.count % gibibytes(1).count == 0) return std::to_string(size.count / gibibytes(1).count) + "GiB";
  if (size.count % kMB == 0) return std::to_string(size.count / kMB) + "MB";
  if (size.count % mebibytes(1).count == 0) return std::to_string(size.count / mebibytes(1).count) + "MiB";
  std::string decimals = std::to_string(kMB + size.count % kMB).substr(1);
  while (decimals.back() == '0') decimals.pop_back();
  return std::to_string(size.count / kMB) + "." + decimals + "MB";
}

bool is_profile(std::string_view text) {
  const std::string lower = lower_case(text);
  std::string_view rest = lower;
  const auto digits = [&] {
    std::size_t count = 0;
    while (count < rest.size() && is_digit(rest[count])) ++count;
    rest.remove_prefix(count);
    return count > 0 && count < 5;
  };
  if (!digits() || !rest.starts_with("g.")) return false;
  rest.remove_prefix(2);
  if (!digits()) return false;
  return rest == "gb" || rest == "gb+me";
}

std::optional<std::uint32_t> parse_milli(std::string_view text, std::uint32_t scale) {
  const auto dot = std::min(text.find('.'), text.size());
  const auto whole = text.substr(0, dot);
  auto decimals = dot < text.size() ? text.substr(dot + 1) : std::string_view("0");
  if (!all_digits(whole) || !all_digits(decimals) || whole.size() > 6) return std::nullopt;
  while (!decimals.empty() && decimals.back() == '0') decimals.remove_suffix(1);
  if (decimals.size() > 9) return std::nullopt;
  std::uint64_t numerator = 0;
  std::uint64_t denominator = 1;
  for (const char c : whole) numerator = numerator * 10 + static_cast<std::uint64_t>(c - '0');
  for (const char c : decimals) {
    numerator = numerator * 10 + static_cast<std::uint64_t>(c - '0');
    denominator *= 10;
  }
  numerator *= scale;
  if (numerator % denominator != 0 || numerator / denominator > UINT32_MAX) return std::nullopt;
  return static_cast<std::uint32_t>(numerator / denominator);
}

GpuProblem GpuItemParser::problem(GpuWord word, std::string message, std::string_view instead) const {
  GpuProblem problem{.position = word.position, .message = std::move(message), .nearest = {}};
  if (!instead.empty()) {
    problem.nearest = std::string(request_.substr(0, word.position)) + std::string(instead) +
                      std::string(request_.substr(word.position + word.text.size()));
  }
  return problem;
}

Result<GpuItem, GpuProblem> GpuItemParser::parse() {
  item_ = trimmed(item_);
  if (item_.text.empty()) return refuse(problem(item_, "a GPU is missing here"));
  words_ = split(item_, ':');
  for (const GpuWord& empty : words_) {
    if (empty.text.empty()) return refuse(problem(empty, "nothing stands beside this colon"));
  }
  if (equal_ignoring_case(word().text, "gpu")) {
    after_gpu_ = true;
    ++next_;
  }
  if (!done()) {
    if (const auto vendor = parse_vendor(word().text)) {
      out_.vendor = *vendor;
      ++next_;
    }
  }
  if (auto wrong = body()) return refuse(std::move(*wrong));
  return out_;
}

GpuItemParser::Step GpuItemParser::body() {
  if (done()) return std::nullopt;  // "gpu" or "nvidia" alone: any of them.
  if (find_gpu_model(word().text) != nullptr) return model_body();
  if (parse_memory(word().text)) return memory_body();
  const bool countable =
      after_gpu_ || out_.vendor != GpuVendor::kAny || is_share_text(word().text);  // 0.5 is a share of any.
  if (countable && is_digit(word().text.front())) return count();
  bool found = false;
  if (auto wrong = model_with_memory_suffix(found)) return wrong;
  if (found) return count_or_profile();
  return unknown_word();
}

GpuItemParser::Step GpuItemParser::memory_body() {
  const GpuWord first = word();
  const MemoryRange memory = *parse_memory(first.text);
  if (memory.least > memory.most) {
    return problem(first, "the range is empty", memory_text(memory.most) + ".." + memory_text(memory.least));
  }
  ++next_;
  if (auto wrong = count()) return wrong;
  if (memory.is_range) {
    out_.memory_min = memory.least;
    out_.memory_max = memory.most;
  } else if (out_.milli < 1000) {
    out_.memory_min = memory.least;  // 24GB:0.5 is half of a device that has that much.
  } else {
    out_.vram = memory.least;
    out_.milli = 0;
  }
  return std::nullopt;
}

GpuItemParser::Step GpuItemParser::model_body() {
  if (auto wrong = known_model(word().text)) return wrong;
  ++next_;
  if (auto wrong = model_memory()) return wrong;
  return count_or_profile();
}

GpuItemParser::Step GpuItemParser::known_model(std::string_view name) {
  const GpuModel& model = *find_gpu_model(name);
  if (out_.vendor != GpuVendor::kAny && out_.vendor != model.vendor) {
    const GpuWord vendor = words_[next_ - 1];
    return problem(vendor,
                   std::string(model.short_name) + " is not made by " + lower_case(vendor.text),
                   name_of(model.vendor));
  }
  out_.vendor = GpuVendor::kAny;  // The model says it.
  out_.model = canonical_gpu_name(model, name);
  return std::nullopt;
}

GpuItemParser::Step GpuItemParser::model_with_memory_suffix(bool& found) {
  const GpuWord whole = word();
  const auto dash = whole.text.rfind('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::string_view base = whole.text.substr(0, dash);
  const GpuWord suffix{.text = whole.text.substr(dash + 1), .position = whole.position + dash + 1};
  if (find_gpu_model(base) == nullptr || !parse_memory(suffix.text)) return std::nullopt;
  found = true;
  if (auto wrong = known_model(base)) return wrong;
  ++next_;
  return settle_model_memory(suffix);
}

GpuItemParser::Step GpuItemParser::unknown_word() {
  const GpuWord wrong = word();
  if (all_digits(wrong.text))
    return problem(wrong, "a number alone says nothing", "gpu:" + std::string(wrong.text));
  if (is_digit(wrong.text.front())) {
    const std::string with_unit =
        std::string(wrong.text) + (wrong.text.back() == 'g' || wrong.text.back() == 'G' ? "B" : "GB");
    return problem(wrong,
                   "'" + std::string(wrong.text) + "' is neither a model nor memory in GB, GiB, MB or MiB",
                   parse_memory(with_unit) ? with_unit : std::string());
  }
  const auto names = known_names();
  return problem(
      wrong, "no GPU model '" + std::string(wrong.text) + "' is known", nearest(wrong.text, names));
}

GpuItemParser::Step GpuItemParser::model_memory() {
  if (done() || !parse_memory(word().text)) return std::nullopt;
  const GpuWord memory = word();
  ++next_;
  return settle_model_memory(memory);
}

// A100:80GB is A100-80GB: a memory that picks a variant is folded into the name where the catalogue has one.
GpuItemParser::Step GpuItemParser::settle_model_memory(GpuWord word) {
  const MemoryRange memory = *parse_memory(word.text);
  if (memory.least > memory.most) {
    return problem(word, "the range is empty", memory_text(memory.most) + ".." + memory_text(memory.least));
  }
  const GpuModel& asked = *find_gpu_model(out_.model);
  const GpuModel* exact = nullptr;
  std::string sizes;
  for (const GpuModel& model : gpu_catalog()) {
    if (!is_meant_by(model, out_.model, MemoryMatch::kAny)) continue;
    const bool inside = memory.is_range ? model.vram >= memory.least && model.vram <= memory.most
                                        : same_memory(memory.least, model.vram);
    if (inside) exact = &model;
    if (sizes.find(memory_text(model.vram)) == std::string::npos)
      sizes += (sizes.empty() ? "" : " or ") + memory_text(model.vram);
  }
  if (exact == nullptr) {
    return problem(word, std::string(asked.short_name) + " has " + sizes, sizes.substr(0, sizes.find(' ')));
  }
  if (!memory.is_range) {
    if (same_memory(memory.least, asked.vram)) return std::nullopt;  // It says what the name says already.
    if (const GpuModel* named = find_gpu_model(family_with_memory(*exact))) {
      out_.model = named->short_name;
      return std::nullopt;
    }
  }
  out_.memory_min = memory.is_range ? memory.least : exact->vram;
  out_.memory_max = memory.is_range ? memory.most : exact->vram;
  return std::nullopt;
}

GpuItemParser::Step GpuItemParser::count_or_profile() {
  if (done() || !is_profile(word().text)) return count();
  out_.profile = lower_case(word().text);
  ++next_;
  return at_end();
}

GpuItemParser::Step GpuItemParser::count() {
  if (done()) return std::nullopt;
  const GpuWord number = word();
  ++next_;
  const auto dots = number.text.find("..");
  if (is_share_text(number.text)) {
    auto wrong = dots == std::string_view::npos ? fraction(number) : share_range(number, dots);
    return wrong ? std::move(wrong) : at_end();
  }
  const std::string_view least = number.text.substr(0, dots);
  const std::string_view most = dots == std::string_view::npos ? least : number.text.substr(dots + 2);
  if (!all_digits(least) || !all_digits(most) || least.size() > 9 || most.size() > 9) {
    const bool percent = number.text.back() == '%';
    const auto milli =
        percent ? parse_milli(number.text.substr(0, number.text.size() - 1), 10) : std::nullopt;
    GpuItem share;
    share.milli = static_cast<std::uint16_t>(milli && *milli > 0 && *milli < 1000 ? *milli : 1000);
    std::string instead;
    if (share.milli < 1000) instead = text(share).substr(4);  // "gpu:0.3" without what stands for any GPU.
    return problem(number, "'" + std::string(number.text) + "' is not a number of GPUs", instead);
  }
  std::from_chars(least.data(), least.data() + least.size(), out_.count_min);
  std::from_chars(most.data(), most.data() + most.size(), out_.count_max);
  if (out_.count_min == 0) return problem(number, "at least one GPU must be asked for", "1");
  if (out_.count_max > kCountMax) return problem(number, "at most 1000000 can be asked for", "1000000");
  if (out_.count_min > out_.count_max) {
    return problem(number, "the range is empty", std::string(most) + ".." + std::string(least));
  }
  return at_end();
}

GpuItemParser::Step GpuItemParser::fraction(GpuWord word) {
  const auto dot = word.text.find('.');
  const auto milli = parse_milli(word.text, 1000);
  const std::string whole(word.text.substr(0, dot));
  if (milli && *milli >= 1000) {
    if (*milli % 1000 != 0)
      return problem(word, "a share above 1 is not possible: ask for whole GPUs", whole);
    out_.count_min = out_.count_max = *milli / 1000;
    return std::nullopt;
  }
  if (milli && *milli == 0) return problem(word, "a share of nothing", "0.1");
  if (!milli) {
    const bool number = all_digits(whole) && all_digits(word.text.substr(dot + 1));
    return problem(
        word,
        number ? "a share has at most 3 decimals" : "'" + std::string(word.text) + "' is not a share",
        number ? word.text.substr(0, dot + 4)
               : (whole.empty() ? "0" + std::string(word.text) : std::string_view()));
  }
  out_.milli = static_cast<std::uint16_t>(*milli);
  return std::nullopt;
}

// 0.25..0.5: never less than the first, and no more than the second.
GpuItemParser::Step GpuItemParser::share_range(GpuWord word, std::size_t dots) {
  const auto least = parse_milli(word.text.substr(0, dots), 1000);
  const auto most = parse_milli(word.text.substr(dots + 2), 1000);
  if (!least || !most)
    return problem(word, "'" + std::string(word.text) + "' is not a range of shares", "0.25..0.5");
  if (*least == 0) return problem(word, "a share of nothing", "0.1" + std::string(word.text.substr(dots)));
  if (*most >= 1000)
    return problem(word,
                   "a range of shares ends below 1: a whole device is not resized",
                   std::string(word.text.substr(0, dots)) + "..0.9");
  if (*least > *most) {
    return problem(word,
                   "the range is empty",
                   std::string(word.text.substr(dots + 2)) + ".." + std::string(word.text.substr(0, dots)));
  }
  out_.milli = static_cast<std::uint16_t>(*least);
  if (*most > *least) out_.milli_max = static_cast<std::uint16_t>(*most);
  return std::nullopt;
}

GpuItemParser::Step GpuItemParser::at_end() {
  if (done()) return std::nullopt;
  // Cut the request where it stopped making sense.
  GpuProblem extra{.position = word().position,
                   .message = "nothing may follow here",
                   .nearest = std::string(request_.substr(0, word().position - 1))};
  const auto after = item_.position + item_.text.size();
  extra.nearest =
      std::string(trimmed({.text = extra.nearest, .position = 0}).text) + std::string(request_.substr(after));
  return extra;
}

}  // namespace tranche::wire::detail
