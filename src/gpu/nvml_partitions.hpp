// SPDX-License-Identifier: Apache-2.0
#pragma once
// Hardware partitions (MIG) of one NVIDIA device: what it offers, what exists, one more, one less.
#include <optional>
#include <string>
#include <vector>

#include "gpu/nvml_api.hpp"
#include "gpu/port.hpp"

namespace tranche::gpu::nvml {

struct FoundPartition {
  Device handle = nullptr;
  unsigned gpu_instance = 0;
  unsigned compute_instance = 0;
  Partition partition{};
};

bool is_partitioned(const Api& api, Device device);
// As the driver lists them; from the built-in table of the model where the driver cannot.
std::vector<wire::ProfileFacts> profiles_of(const Api& api, Device device, std::string_view model);
std::vector<FoundPartition> partitions_of(const Api& api, Device device);
Result<Partition, std::string> create_partition(const Api& api,
                                                Device device,
                                                const std::string& profile,
                                                std::uint8_t start);
Result<void, std::string> destroy_partition(const Api& api, Device device, const FoundPartition& found);
Result<void, std::string> set_partitioned(const Api& api, Device device, bool partitioned);

}  // namespace tranche::gpu::nvml
