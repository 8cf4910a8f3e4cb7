// SPDX-License-Identifier: Apache-2.0
#pragma once
// From a job as a person wrote it to what the engine is asked.
#include <optional>
#include <string>

#include "api/api.hpp"
#include "wire/job_spec.hpp"
#include "wire/sizing.hpp"

namespace tranche::api {

// A working directory is content that the owner's tenant has uploaded, and never a path: no path of a
// person's machine means anything here.
[[nodiscard]] std::optional<wire::Problem> workdir_problem(const Api&,
                                                           const engine::State&,
                                                           PartyId owner,
                                                           const std::string& digest);

// What a job may say and nothing here carries out.
[[nodiscard]] std::optional<wire::Problem> unhonoured(const wire::JobSpec& spec);

struct Submission {
  engine::SubmitJob command{};
  std::optional<wire::Sizing> sizing{};  // Where it describes its workload.
};

// Resolves what it asks for, sizes what it only describes, seals its secrets, and takes out its units and
// what it waits for.
[[nodiscard]] Result<Submission, wire::Problem> read_submission(Api&, wire::JobSpec spec);

}  // namespace tranche::api
