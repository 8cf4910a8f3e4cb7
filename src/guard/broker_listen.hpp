// SPDX-License-Identifier: Apache-2.0
#pragma once
// A listening SOCK_SEQPACKET socket at a path, or -1 with errno. Replaces a stale one that nobody serves.
#include <string>

namespace tranche::guard {

int listen_at(const std::string& path, unsigned mode);

}  // namespace tranche::guard
