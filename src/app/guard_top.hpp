// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tranche::cli {
class Command;
class Program;
}  // namespace tranche::cli

namespace tranche::app {

// `tranche guard top`: what the tenants of this machine use, read from their regions at no cost to them.
void add_guard_top(const cli::Command& group, cli::Program& program);

}  // namespace tranche::app
