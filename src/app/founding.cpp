// SPDX-License-Identifier: Apache-2.0
#include "app/founding.hpp"

#include <chrono>
#include <future>
#include <stdexcept>

#include "api/secrets.hpp"
#include "app/server_files.hpp"
#include "wire/fields.hpp"

namespace tranche::app {
namespace {

std::string outcome_of(server::Loop& loop, Envelope envelope, engine::Command command) {
  std::promise<std::string> done;
  loop.submit(std::move(envelope), std::move(command), [&](const server::Outcome& outcome) {
    if (outcome.fault != server::Fault::kNone) return done.set_value("it could not be written");
    done.set_value(outcome.refusal == nullptr ? "" : outcome.refusal->message);
  });
  return done.get_future().get();
}

engine::HealthPolicy health_policy(server::Loop& loop) {
  std::promise<engine::HealthPolicy> done;
  loop.read([&](const engine::State& state) { done.set_value(state.health.policy); });
  return done.get_future().get();
}

// By the operator's token; what stood against it, or nothing.
std::string run_as_operator(server::Loop& loop, const std::filesystem::path& data, engine::Command command) {
  std::string secret = read_file(data / "operator.token");
  while (!secret.empty() && secret.back() == '\n') secret.pop_back();
  const auto known = loop.tokens().find(secret);
  if (!known) return "the operator's token was revoked";
  return outcome_of(
      loop, {.actor = known->party, .token = known->token, .origin = "local"}, std::move(command));
}

}  // namespace

void found_platform(server::Loop& loop, const std::filesystem::path& data, const std::string& operator_name) {
  const std::string secret = api::new_token_secret();
  write_private_file(data / "operator.token", secret + '\n');
  const std::string problem = outcome_of(
      loop, {.origin = "local"}, engine::Found{operator_name, server::TokenDirectory::hash(secret)});
  if (!problem.empty()) throw std::runtime_error("the platform could not be founded: " + problem);
}

std::string invite_node(server::Loop& loop, const std::filesystem::path& data, const std::string& name) {
  std::string token = api::new_token_secret();
  const std::string problem =
      run_as_operator(loop,
                      data,
                      engine::AddNode{.name = name,
                                      .invitation = server::TokenDirectory::hash(token),
                                      .expires_in = std::chrono::hours(1)});
  if (!problem.empty())
    throw std::runtime_error("this machine could not be invited: " + problem +
                             "; tranche node add invites it");
  return token;
}

std::string set_acceptance(server::Loop& loop,
                           const std::filesystem::path& data,
                           std::optional<wire::TestLevel> wanted) {
  engine::HealthPolicy policy = health_policy(loop);
  if (wanted && *wanted != policy.acceptance) {
    policy.acceptance = *wanted;
    const std::string problem = run_as_operator(loop, data, engine::SetHealthPolicy{policy});
    if (!problem.empty())
      throw std::runtime_error("--acceptance could not be set: " + problem +
                               "; tranche health policy --file sets it");
  }
  return "new devices are tested at level " + std::string(wire::name_of(policy.acceptance)) +
         " before their first use" +
         (wanted ? " (--acceptance)" : "; tranche health policy, or --acceptance, changes that");
}

}  // namespace tranche::app
