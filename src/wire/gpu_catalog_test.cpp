// SPDX-License-Identifier: Apache-2.0
#include "wire/gpu_catalog.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

namespace tranche::wire {
namespace {

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) out.push_back(cell);
  out.resize(13);
  return out;
}

TEST_CASE("catalogue: every row is what the table of facts says") {
  std::ifstream file(std::string(TRANCHE_SOURCE_DIR) + "/../shared/data/gpu_catalog.csv");
  if (!file) {
    MESSAGE("[skipped] the table of facts is not beside this checkout");
    return;
  }
  std::string line;
  std::getline(file, line);
  std::size_t rows = 0;
  while (std::getline(file, line)) {
    const auto row = cells(line);
    CAPTURE(line);
    const GpuModel* model = find_gpu_model(row[0]);
    REQUIRE(model != nullptr);
    CHECK(model->name == row[0]);
    CHECK(model->architecture == row[2]);
    CHECK(model->capability == row[3]);
    CHECK(model->vram == gigabytes(std::stoll(row[4])));
    CHECK(model->memory == row[5]);
    CHECK(model->bandwidth_gb_per_second == std::stoi(row[6]));
    CHECK(model->multiprocessors == std::stoi(row[7]));
    CHECK(model->fp16_gflops == std::lround(std::stod(row[8]) * 1000));
    CHECK(model->fp32_gflops == std::lround(std::stod(row[9]) * 1000));
    CHECK(model->power_watts == std::stoi(row[10]));
    CHECK(model->partitions_max == std::stoi(row[11]));
    CHECK(model->aliases == row[12]);
    ++rows;
  }
  CHECK(rows == gpu_catalog().size());
}

TEST_CASE("catalogue: a name or alias means one model only, in any case") {
  CHECK(find_gpu_model("h100")->name == "H100-SXM5-80GB");
  CHECK(find_gpu_model("A100")->vram == gigabytes(40));
  CHECK(find_gpu_model("a100-80gb")->name == "A100-SXM4-80GB");
  CHECK(find_gpu_model("H101") == nullptr);
  std::set<std::string> names;
  for (const GpuModel& model : gpu_catalog()) {
    CAPTURE(model.name);
    CHECK(names.insert(lower_case(model.name)).second);
    CHECK(find_gpu_model(model.short_name) == &model);
  }
}

TEST_CASE("catalogue: a chip's name means all its variants with that memory, a variant's only itself") {
  const auto& pcie = *find_gpu_model("H100-PCIE");
  const auto& nvl = *find_gpu_model("H100-NVL");
  CHECK(is_meant_by(pcie, "H100", MemoryMatch::kSame));
  CHECK_FALSE(is_meant_by(nvl, "H100", MemoryMatch::kSame));
  CHECK(is_meant_by(nvl, "H100", MemoryMatch::kAny));
  CHECK_FALSE(is_meant_by(pcie, "H100-SXM", MemoryMatch::kAny));
  CHECK(is_meant_by(*find_gpu_model("A100-80GB-PCIE"), "A100-80GB", MemoryMatch::kSame));
}

}  // namespace
}  // namespace tranche::wire
