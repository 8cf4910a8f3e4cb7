// SPDX-License-Identifier: Apache-2.0
#include "gpu/device_identity.hpp"

#include <doctest/doctest.h>

#include "gpu/child_program.hpp"
#include "gpu/mps_control.hpp"

using namespace tranche;
using namespace tranche::gpu;

namespace {
std::string model_name(const char* driver_name, Bytes vram = {}) {
  const wire::GpuModel* const model = model_of(driver_name, vram);
  return model == nullptr ? "" : std::string(model->name);
}
}  // namespace

TEST_CASE("names that drivers give are found in the catalogue") {
  CHECK(model_name("NVIDIA H100 80GB HBM3", gibibytes(79)) == "H100-SXM5-80GB");
  CHECK(model_name("NVIDIA H100 PCIe", gibibytes(79)) == "H100-PCIE-80GB");
  CHECK(model_name("NVIDIA H100 NVL", gibibytes(93)) == "H100-NVL-94GB");
  CHECK(model_name("NVIDIA A100-SXM4-40GB", gibibytes(39)) == "A100-SXM4-40GB");
  CHECK(model_name("NVIDIA A100-SXM4-80GB", gibibytes(79)) == "A100-SXM4-80GB");
  CHECK(model_name("NVIDIA A100 80GB PCIe", gibibytes(79)) == "A100-PCIE-80GB");
  CHECK(model_name("NVIDIA L40S") == "L40S");
  CHECK(model_name("NVIDIA L40") == "L40");
  CHECK(model_name("Tesla T4") == "T4");
  CHECK(model_name("NVIDIA A10G") == "A10G");
  CHECK(model_name("NVIDIA A10") == "A10");
  CHECK(model_name("NVIDIA GeForce RTX 4090") == "RTX4090");
  CHECK(model_name("NVIDIA RTX 6000 Ada Generation") == "RTX6000Ada");
  CHECK(model_name("NVIDIA GH200 480GB") == "GH200-96GB");
  CHECK(model_name("AMD Instinct MI300X") == "MI300X");
  CHECK(model_name("Intel(R) Data Center GPU Max 1550") == "Max1550");
}

TEST_CASE("a chip that the catalogue does not have is not taken for its neighbour") {
  CHECK(model_name("NVIDIA RTX A2000").empty());
  CHECK(model_name("NVIDIA T400").empty());
  CHECK(model_name("pthread-haswell-AMD EPYC").empty());
  CHECK(model_name("").empty());
}

TEST_CASE("PCI addresses have one form") {
  CHECK(normal_pci_address("00000000:3B:00.0") == "0000:3b:00.0");
  CHECK(normal_pci_address("3b:00.0") == "0000:3b:00.0");
  CHECK(pci_address_text(1, 0xaf, 0, 1) == "0001:af:00.1");
}

TEST_CASE("made identifiers are stable and differ") {
  CHECK(uuid_from("a") == uuid_from("a"));
  CHECK(uuid_from("a") != uuid_from("b"));
  CHECK(uuid_from("a").size() == 36);
}

TEST_CASE("a tool is run without a shell, and killed when it takes too long") {
  const auto said = run_program({.command = {"/bin/cat", "-"}, .input = "hello $HOME\n"});
  CHECK(said.exit_code == 0);
  CHECK(said.output == "hello $HOME\n");
  CHECK(run_program({.command = {"/bin/false"}}).exit_code == 1);
  CHECK(run_program({.command = {"/bin/false"}, .input = "nobody listens"}).exit_code == 1);
  CHECK_FALSE(run_program({.command = {"/nowhere/tool"}}).started);
  const auto stuck = run_program({.command = {"/bin/sleep", "1000"}, .limit = std::chrono::seconds(0)});
  CHECK(stuck.timed_out);
  CHECK(stuck.exit_signal == 9);
  CHECK(run_program({.command = {"/usr/bin/env"}, .environment = {{"TRANCHE_X", "7"}}})
            .output.find("TRANCHE_X=7") != std::string::npos);
}

TEST_CASE("without the daemon a person is told what to do instead") {
  if (is_mps_installed()) return;
  CHECK(start_mps("GPU-1", "t", "/nowhere").error().find("not installed") != std::string::npos);
  CHECK(stop_mps("GPU-1", "t", "/nowhere").error().find("under the guard") != std::string::npos);
}
