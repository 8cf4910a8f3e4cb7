// SPDX-License-Identifier: Apache-2.0
#pragma once
// Flags that describe a workload: a model and how it is used, or pictures. The same for `tranche run` and
// `tranche size`.
#include <cstdint>
#include <optional>
#include <string>

#include "cli/command.hpp"
#include "wire/workload.hpp"

namespace tranche::cli {

struct SizeOptions {
  std::optional<std::string> model{}, model_config{}, precision{}, context{}, prompt{}, method{}, sequence{},
      resolution{}, codec{}, scene{};
  std::optional<std::int64_t> users{}, devices{}, rank{}, batch{}, zero{}, seconds{}, samples{}, streams{};
  bool keep_activations = false;
  bool adam_8bit = false;
};

void add_model_options(const Command& command, SizeOptions& options);
void add_media_options(const Command& command, SizeOptions& options);

// What the flags say, on top of what was there; whether they say anything. A usage failure names the flag.
bool apply_model(const SizeOptions& options, wire::ModelUse& model);
bool apply_media(const SizeOptions& options, wire::MediaUse& media);

}  // namespace tranche::cli
