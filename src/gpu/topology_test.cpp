// SPDX-License-Identifier: Apache-2.0
// Places of devices in a machine that was written down: two processors with a memory node each, four devices,
// of which two share a switch.
#include "gpu/topology.hpp"

#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace tranche::gpu {
namespace {

std::string bridge(const char* kind, const char* from, const char* below, const std::string& inside) {
  return std::string("<object type=\"Bridge\" bridge_type=\"") + kind + "\" depth=\"1\" bridge_pci=\"" +
         below + "\" " +
         (*from == '\0'
              ? ""
              : "pci_busid=\"" + std::string(from) + "\" pci_type=\"0604 [1000:c010] [0000:0000] b0\" " +
                    "pci_link_speed=\"15.7\"") +
         ">" + inside + "</object>";
}
std::string device(const char* address) {
  return std::string("<object type=\"PCIDev\" pci_busid=\"") + address +
         "\" pci_type=\"0302 [10de:2330] [10de:16c1] a1\" pci_link_speed=\"63.0\"/>";
}
std::string processor(int index, const std::string& devices) {
  const std::string set = index == 0 ? "0x00000003" : "0x0000000c", node = index == 0 ? "0x1" : "0x2";
  const std::string common = "cpuset=\"" + set + "\" complete_cpuset=\"" + set + "\" nodeset=\"" + node +
                             "\" complete_nodeset=\"" + node + "\"";
  const auto unit = [&](int number) {
    const std::string own = "0x0000000" + std::string(1, "1248"[number]);
    return "<object type=\"PU\" os_index=\"" + std::to_string(number) + "\" cpuset=\"" + own +
           "\" complete_cpuset=\"" + own + "\" nodeset=\"" + node + "\" complete_nodeset=\"" + node + "\"/>";
  };
  return "<object type=\"Package\" os_index=\"" + std::to_string(index) + "\" " + common + ">" +
         "<object type=\"NUMANode\" os_index=\"" + std::to_string(index) + "\" " + common +
         " local_memory=\"1073741824\"/>" + unit(index * 2) + unit(index * 2 + 1) + devices + "</object>";
}

struct Written {
  std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("tranche-machine-" + std::to_string(::getpid()) + ".xml");
  Written() {
    const std::string switched = bridge(
        "0-1",
        "",
        "0000:[00-1f]",
        bridge("1-1", "0000:00:01.0", "0000:[03-06]", device("0000:03:00.0") + device("0000:04:00.0")));
    const std::string alone = bridge("0-1", "", "0001:[00-1f]", device("0001:03:00.0"));
    std::ofstream(file)
        << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
        << "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" cpuset=\"0x0000000f\" "
        << "complete_cpuset=\"0x0000000f\" allowed_cpuset=\"0x0000000f\" nodeset=\"0x3\" "
        << "complete_nodeset=\"0x3\" allowed_nodeset=\"0x3\">" << processor(0, switched)
        << processor(1, alone) << "</object></topology>\n";
  }
  ~Written() { std::filesystem::remove(file); }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  [[nodiscard]] wire::DeviceFacts placed(const char* address) const {
    wire::DeviceFacts facts{.pci_address = address};
    place_in_machine(facts, file.string());
    return facts;
  }
};

TEST_CASE("topology: processors, memory node and switch of a device") {
  const Written machine;
  const wire::DeviceFacts first = machine.placed("0000:03:00.0");
  CHECK(first.near_cpus == "0-1");
  CHECK(first.numa_node == 0);
  CHECK(first.behind == "0000:00:01.0");
  CHECK(machine.placed("0000:04:00.0").behind == first.behind);
  const wire::DeviceFacts far = machine.placed("0001:03:00.0");
  CHECK(far.near_cpus == "2-3");
  CHECK(far.numa_node == 1);
  CHECK(far.behind.empty());  // Nobody shares its way.
}

TEST_CASE("topology: what is not there has no place, and what is no machine is refused") {
  const Written machine;
  CHECK(machine.placed("0000:77:00.0").near_cpus.empty());
  wire::DeviceFacts facts{.pci_address = "nonsense"};
  place_in_machine(facts);
  CHECK(facts.near_cpus.empty());
  CHECK_THROWS(place_in_machine(facts, "/nowhere.xml"));
}

}  // namespace
}  // namespace tranche::gpu
