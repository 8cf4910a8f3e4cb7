// SPDX-License-Identifier: Apache-2.0
#pragma once
// Control groups v2 have no list of devices; they have a program that the kernel asks at every opening of a
// device file. This one answers as the list of v1 would.
#include <string>
#include <vector>

namespace tranche::agent {

// null, zero, full, random, urandom, tty, ptmx, terminals: what every program needs, and harms nobody.
[[nodiscard]] const std::vector<std::string>& harmless_devices();

// Whether the kernel, and our rights, allow such programs on groups below `folder`.
[[nodiscard]] bool can_list_devices(const std::string& folder);
// From now on processes of the group open, for reading and writing, the harmless ones and these ("c 195:0",
// "c 136:*"), and make none. What the kernel refused; empty: nothing.
[[nodiscard]] std::string list_devices(const std::string& group, const std::vector<std::string>& granted);

}  // namespace tranche::agent
