// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;
}

namespace tranche::cli {
class Program;
}

namespace tranche::app {

// `tranche guard top`: what the tenants of this machine use, read from their regions at no cost to them.
void add_guard_top(CLI::App& group, cli::Program& program);

}  // namespace tranche::app
