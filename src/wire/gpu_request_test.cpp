// SPDX-License-Identifier: Apache-2.0
#include "wire/gpu_request.hpp"

#include <doctest/doctest.h>

#include "base/random.hpp"
#include "wire/codec.hpp"

namespace tranche::wire {
namespace {

GpuRequest parsed(std::string_view request) {
  const auto result = parse_gpu_request(request);
  REQUIRE_MESSAGE(result.has_value(), caret_text(request, result.error()));
  return *result;
}
GpuItem item_of(std::string_view request) {
  const auto result = parsed(request);
  REQUIRE(result.items.size() == 1);
  return result.items.front();
}

TEST_CASE("gpu string: every form that must be read means what it should") {
  CHECK(item_of("H100") == GpuItem{.model = "H100"});
  CHECK(item_of("H100:8") == GpuItem{.count_min = 8, .count_max = 8, .model = "H100"});
  CHECK(item_of("A100-80GB:2") == GpuItem{.count_min = 2, .count_max = 2, .model = "A100-80GB"});
  CHECK(item_of("A100:80GB:2") == item_of("A100-80GB:2"));
  CHECK(item_of("24GB..40GB:2") ==
        GpuItem{.count_min = 2, .count_max = 2, .memory_min = gigabytes(24), .memory_max = gigabytes(40)});
  CHECK(item_of("nvidia") == GpuItem{.vendor = GpuVendor::kNvidia});
  CHECK(item_of("H100:0.5") == GpuItem{.milli = 500, .model = "H100"});
  CHECK(item_of("H100:1g.10gb") == GpuItem{.model = "H100", .profile = "1g.10gb"});
  CHECK(item_of("gpu:H100:2") == item_of("H100:2"));
  CHECK(item_of("10GB") == GpuItem{.milli = 0, .vram = gigabytes(10)});
  CHECK(item_of("24GB..80GB:4").memory_max == gigabytes(80));
  CHECK(item_of("H100:2..4").count_max == 4);
  CHECK(item_of("512MiB").vram == mebibytes(512));
  CHECK(item_of("amd:192GB..256GB").vendor == GpuVendor::kAmd);
  CHECK(item_of("nvidia:A100:40GB:1g.5gb+me").profile == "1g.5gb+me");
  CHECK(item_of("H100:2.0").count_min == 2);
  CHECK(item_of("4090:2").model == "RTX4090");
  CHECK(item_of("gpu:2").count_min == 2);
  CHECK(item_of("nvidia:2").count_min == 2);

  const auto ordered = parsed("[L4, A100]");
  CHECK(ordered.order == GpuOrder::kOrdered);
  CHECK(ordered.items.size() == 2);
  CHECK(ordered.items[0].model == "L4");
  CHECK(parsed("{L4, A100:2}").order == GpuOrder::kAny);
}

TEST_CASE("gpu string: the long form says VRAM, compute and isolation apart") {
  const auto request = parsed("{gpu: H100, vram: 20GB, compute: 30%, isolation: soft}");
  CHECK(request.isolation == Isolation::kSoft);
  CHECK(request.items[0] == GpuItem{.milli = 300, .model = "H100", .vram = gigabytes(20)});
  CHECK(parsed("{vram: 20GB}") == parsed("20GB"));
  CHECK(parsed("{gpu: H100, compute: 0.5}") == parsed("H100:0.5"));
  CHECK(parsed("{gpu:H100, L4}").items.size() == 2);
}

TEST_CASE("gpu string: one canonical form is printed, and read back as the same") {
  const std::pair<std::string_view, std::string_view> forms[] = {
      {"h100 : 8", "H100:8"},
      {"gpu:nvidia:h100", "H100"},
      {"A100:80GB:2", "A100-80GB:2"},
      {"a100-40gb", "A100"},
      {"H100:80GB", "H100"},
      {"H100-94GB", "H100:94GB"},
      {"h100-sxm", "H100-SXM"},
      {"H100-SXM5-80GB", "H100-SXM"},
      {"h200-sxm:2", "H200-SXM:2"},
      {"A6000", "RTXA6000"},
      {"A100:40GB..80GB", "A100:40GB..80GB"},
      {"24gb..40gb:2", "24GB..40GB:2"},
      {"24GB:0.5", "24GB:0.5"},
      {"80GB..80GB", "80GB..80GB"},
      {"10240MB", "10240MB"},
      {"10000MB", "10GB"},
      {"2000GB", "2000GB"},
      {"0.0001MB", "0.0001MB"},
      {"8gib:2", "8GiB:2"},
      {"AMD", "amd"},
      {"H100:0.500", "H100:0.5"},
      {"H100:0.125", "H100:0.125"},
      {"H100:1G.10GB+ME", "H100:1g.10gb+me"},
      {"H100:1..8", "H100:1..8"},
      {"gpu:3", "gpu:3"},
      {"intel:2", "intel:2"},
      {"[ l4 ,a100:2]", "[L4, A100:2]"},
      {"{10GB, L4}", "{10GB, L4}"},
      {"[H100, AMD:192gib:2]", "[H100, amd:192GiB:2]"},
      {"[H100]", "H100"},
      {"{GPU: h100, VRAM: 20gb, Compute: 30%, isolation: Soft}",
       "{gpu: H100, vram: 20GB, compute: 30%, isolation: soft}"},
      {"{gpu: H100, count: 2, vram: 20GB}", "{gpu: H100, count: 2, vram: 20GB}"},
      {"{vram: 8GB, compute: 12.5%}", "{vram: 8GB, compute: 12.5%}"},
      {"{gpu: H100:0.5, isolation: hard}", "{gpu: H100, compute: 50%, isolation: hard}"},
      {"{gpu: 10GB, isolation: dedicated}", "{vram: 10GB, isolation: dedicated}"},
  };
  for (const auto& [given, canonical] : forms) {
    CAPTURE(given);
    const auto request = parsed(given);
    CHECK(text(request) == canonical);
    CHECK(parsed(canonical) == request);
    std::string bytes;
    encode(bytes, request);
    CHECK(*decode<GpuRequest>(bytes) == request);
  }
}

TEST_CASE("gpu string: every name and alias of the catalogue is read") {
  for (const GpuModel& model : gpu_catalog()) {
    std::string names =
        std::string(model.name) + ";" + std::string(model.aliases) + ";" + lower_case(model.name);
    while (!names.empty()) {
      const auto end = std::min(names.find(';'), names.size());
      const std::string name = names.substr(0, end);
      names.erase(0, end + 1);
      if (name.empty()) continue;
      CAPTURE(name);
      const auto item = item_of(name + ":2");
      CHECK(accepts(item, model));
      CHECK(item.count_min == 2);
    }
  }
}

std::string complaint(std::string_view request) {
  const auto result = parse_gpu_request(request);
  return result ? "no complaint" : caret_text(request, result.error());
}

TEST_CASE("gpu string: a mistake is shown at its place with the nearest legal form") {
  CHECK(complaint("H10O:8") == "H10O:8\n^ no GPU model 'H10O' is known\nnearest legal form: H100:8");
  CHECK(complaint("[L4, MI30X]") ==
        "[L4, MI30X]\n     ^ no GPU model 'MI30X' is known\nnearest legal form: [L4, MI300X]");
  CHECK(complaint("H100:1.5") ==
        "H100:1.5\n     ^ a share above 1 is not possible: ask for whole GPUs\nnearest legal form: H100:1");
  CHECK(complaint("H100:0.1234") ==
        "H100:0.1234\n     ^ a share has at most 3 decimals\nnearest legal form: H100:0.123");
  CHECK(complaint("H100:0") ==
        "H100:0\n     ^ at least one GPU must be asked for\nnearest legal form: H100:1");
  CHECK(complaint("H100:0.0") == "H100:0.0\n     ^ a share of nothing\nnearest legal form: H100:0.1");
  CHECK(complaint("H100:.5") == "H100:.5\n     ^ '.5' is not a share\nnearest legal form: H100:0.5");
  CHECK(complaint("H100:50%") ==
        "H100:50%\n     ^ '50%' is not a number of GPUs\nnearest legal form: H100:0.5");
  CHECK(complaint("H100:8..2") == "H100:8..2\n     ^ the range is empty\nnearest legal form: H100:2..8");
  CHECK(complaint("40GB..24GB") == "40GB..24GB\n^ the range is empty\nnearest legal form: 24GB..40GB");
  CHECK(complaint("24") == "24\n^ a number alone says nothing\nnearest legal form: gpu:24");
  CHECK(complaint("24G") ==
        "24G\n^ '24G' is neither a model nor memory in GB, GiB, MB or MiB\nnearest legal form: 24GB");
  CHECK(complaint("A100:50GB") == "A100:50GB\n     ^ A100 has 40GB or 80GB\nnearest legal form: A100:40GB");
  CHECK(complaint("amd:H100") == "amd:H100\n^ H100 is not made by amd\nnearest legal form: nvidia:H100");
  CHECK(complaint("H100:2:3") == "H100:2:3\n       ^ nothing may follow here\nnearest legal form: H100:2");
  CHECK(complaint("H100:") == "H100:\n     ^ nothing stands beside this colon");
  CHECK(complaint("[L4, ]") == "[L4, ]\n     ^ a GPU is missing here");
  CHECK(complaint("[L4") == "[L4\n   ^ ']' is missing\nnearest legal form: [L4]");
  CHECK(complaint("L4, A100") ==
        "L4, A100\n  ^ alternatives stand in [ ] or { }\nnearest legal form: [L4, A100]");
  CHECK(complaint("") == "\n^ a GPU is missing here\nnearest legal form: H100");
  CHECK(complaint("{gpu: H100, vrom: 20GB, compute: 30%}") ==
        "{gpu: H100, vrom: 20GB, compute: 30%}\n            ^ unknown key 'vrom'\n"
        "nearest legal form: {gpu: H100, vram: 20GB, compute: 30%}");
  CHECK(complaint("{gpu: H100, compute: 130%}").find("from 0.1% to 100%") != std::string::npos);
  CHECK(complaint("{gpu: H100:1g.10gb, vram: 2GB}").find("a partition profile fixes") != std::string::npos);
}

TEST_CASE("gpu string: the nearest legal form is legal, and no text breaks the parser") {
  static constexpr std::string_view kPieces[] = {"H100",    "A100", ":",       "80GB", "..", "2",   "0.5",
                                                 "[",       "]",    "{",       "}",    ", ", "gpu", "nvidia",
                                                 "1g.10gb", "vram", "compute", "30%",  "-",  "x"};
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    Random random(seed);
    std::string request;
    for (std::uint64_t i = 1 + random.below(7); i > 0; --i)
      request += kPieces[random.below(std::size(kPieces))];
    CAPTURE(seed);
    CAPTURE(request);
    const auto result = parse_gpu_request(request);
    if (result) {
      CHECK(parsed(text(*result)) == *result);
    } else {
      CHECK(result.error().position <= request.size());
    }
  }
  for (const char* wrong : {"H10O:8",
                            "H100:1.5",
                            "H100:8..2",
                            "24",
                            "24G",
                            "A100:50GB",
                            "amd:H100",
                            "H100:2:3",
                            "[L4",
                            "L4, A100",
                            "",
                            "H100:.5",
                            "H100:33%",
                            "{gpu: H100, compute: 130%}"}) {
    CAPTURE(wrong);
    CHECK(parse_gpu_request(parse_gpu_request(wrong).error().nearest).has_value());
  }
}

TEST_CASE("gpu string: which devices a request accepts") {
  const auto takes = [](std::string_view request, std::string_view device) {
    return accepts(item_of(request), *find_gpu_model(device));
  };
  CHECK(takes("H100", "H100-PCIE"));
  CHECK_FALSE(takes("H100", "H200"));
  CHECK(takes("10GB", "L4"));
  CHECK_FALSE(takes("40GB", "L4"));
  CHECK(takes("24GB..48GB", "L40S"));
  CHECK_FALSE(takes("24GB..48GB", "H100"));
  CHECK(takes("H100:94GB", "H100-NVL"));
  CHECK(takes("A100:40GB..80GB", "A100-80GB"));
  CHECK(takes("amd", "MI300X"));
  CHECK_FALSE(takes("amd", "H100"));
}

TEST_CASE("gpu string: JSON carries the canonical text") {
  CHECK(to_json(parsed("h100:0.50")) == "\"H100:0.5\"");
  CHECK(from_json<GpuRequest>("\"H10O\"").error().message ==
        "no GPU model 'H10O' is known (at character 1; nearest legal form: H100)");
}

}  // namespace
}  // namespace tranche::wire
