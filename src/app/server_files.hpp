// SPDX-License-Identifier: Apache-2.0
#pragma once
// The server's small files: secrets that only their owner may read, and the certificates of its own CA.
#include <filesystem>
#include <string>
#include <vector>

#include "api/sealer.hpp"
#include "net/certificate_authority.hpp"
#include "net/tls.hpp"

namespace tranche::app {

[[nodiscard]] std::string read_file(const std::filesystem::path& path);
// Mode 0600, replaced as a whole.
void write_private_file(const std::filesystem::path& path, const std::string& content);
// The data folder's own key for secrets of jobs; made when missing.
[[nodiscard]] api::Sealer::Key own_seal_key(const std::filesystem::path& data);
// The data folder's own CA; made when missing.
[[nodiscard]] net::CertificateAuthority own_authority(const std::filesystem::path& data);
// A certificate for `address`, and for other names, from that CA.
[[nodiscard]] net::TlsServerOptions own_certificate(const net::CertificateAuthority& authority,
                                                    const std::string& address,
                                                    const std::vector<std::string>& more = {});

}  // namespace tranche::app
