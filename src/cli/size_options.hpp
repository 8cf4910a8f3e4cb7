// SPDX-License-Identifier: Apache-2.0
#pragma once
// Flags that describe a workload: a model and how it is used, or pictures. The same for `tranche run` and
// `tranche size`.
#include <cstdint>
#include <optional>
#include <string>

#include "cli/command.hpp"
#include "wire/amounts.hpp"
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
// 1-240 is what people type, job files write 1..240, and 240 are the first so many.
wire::UnitRange frames_of(const std::string& text);

}  // namespace tranche::cli
