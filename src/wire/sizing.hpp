// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much VRAM a workload needs, as `tranche size`, a dry run and the API tell it: a list of parts that add
// up.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace tranche::wire {

struct SizingPart {
  std::string name{};
  std::int64_t bytes = 0;
  std::string how{};  // 6,738,415,616 parameters x 2 B
  bool operator==(const SizingPart&) const = default;
};
BOOST_DESCRIBE_STRUCT(SizingPart, (), (name, bytes, how))

struct Sizing {
  std::string workload{};              // inference of Llama-2-13B (fp16)
  std::int64_t parameters = 0;         // Zero where there is no model.
  std::int64_t vram_bytes = 0;         // On each device: the sum of the parts.
  std::int64_t recommended_bytes = 0;  // With a tenth to spare, for fragmentation and what no formula knows.
  std::uint32_t devices = 1;
  std::vector<SizingPart> parts{};
  std::vector<std::string> notes{};
  bool operator==(const Sizing&) const = default;
};
BOOST_DESCRIBE_STRUCT(Sizing,
                      (),
                      (workload, parameters, vram_bytes, recommended_bytes, devices, parts, notes))

}  // namespace tranche::wire
