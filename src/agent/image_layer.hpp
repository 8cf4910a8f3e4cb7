// SPDX-License-Identifier: Apache-2.0
#pragma once
// A layer of an image onto the folder that the layers below it made.
#include <cstdint>

#include "agent/tar_reader.hpp"

namespace tranche::agent {

struct LayerLimits {  // Left for this layer and those above it.
  std::uint64_t bytes = std::uint64_t{64} << 30U;
  std::uint64_t entries = 4'000'000;
};

// Everything stays below `root`, whatever names and links the layer holds; files that are neither plain,
// folders nor links are refused. Throws std::runtime_error, which says what is wrong with the layer.
void apply_layer(int root, TarReader& layer, LayerLimits& limits);

}  // namespace tranche::agent
