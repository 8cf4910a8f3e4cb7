// SPDX-License-Identifier: Apache-2.0
#pragma once
// The server's small files: secrets that only their owner may read, and the certificates of its own CA.
#include <filesystem>
#include <string>

#include "net/tls.hpp"

namespace tranche::app {

[[nodiscard]] std::string read_file(const std::filesystem::path& path);
// Mode 0600, replaced as a whole.
void write_private_file(const std::filesystem::path& path, const std::string& content);
// A certificate for `address` from the data folder's own CA; both are made when missing.
[[nodiscard]] net::TlsServerOptions own_certificate(const std::filesystem::path& data,
                                                    const std::string& address);

}  // namespace tranche::app
