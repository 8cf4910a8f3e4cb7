// SPDX-License-Identifier: Apache-2.0
#include "app/server_files.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sodium.h>
#include <sstream>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace tranche::app {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string() + ": " + std::strerror(errno));
  std::ostringstream content;
  content << file.rdbuf();
  return std::move(content).str();
}

void write_private_file(const std::filesystem::path& path, const std::string& content) {
  const std::filesystem::path temporary = path.string() + ".new";
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) throw std::runtime_error("cannot write " + path.string() + ": " + std::strerror(errno));
  const bool written = ::write(file, content.data(), content.size()) == static_cast<ssize_t>(content.size());
  const bool synced = ::fsync(file) == 0;
  ::close(file);
  if (!written || !synced)
    throw std::runtime_error("cannot write " + path.string() + ": the disk is full or failing");
  std::filesystem::rename(temporary, path);
}

api::Sealer::Key own_seal_key(const std::filesystem::path& data) {
  const std::filesystem::path file = data / "keys" / "secrets.key";
  api::Sealer::Key key{};
  if (!std::filesystem::exists(file)) {
    randombytes_buf(key.data(), key.size());
    std::filesystem::create_directories(file.parent_path());
    write_private_file(file, std::string(key.begin(), key.end()));
    return key;
  }
  const std::string content = read_file(file);
  if (content.size() != key.size()) throw std::runtime_error(file.string() + " is not a key of ours");
  std::copy(content.begin(), content.end(), key.begin());
  return key;
}

namespace {
using Days = std::chrono::duration<int, std::ratio<86'400>>;
}

net::CertificateAuthority own_authority(const std::filesystem::path& data) {
  const std::filesystem::path folder = data / "tls";
  std::filesystem::create_directories(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  if (std::filesystem::exists(folder / "ca.key"))
    return net::CertificateAuthority::load({read_file(folder / "ca.pem"), read_file(folder / "ca.key")});
  auto made = net::CertificateAuthority::make("Tranche CA", net::Validity::lasting(Days(3650)));
  write_private_file(folder / "ca.key", made.identity().key_pem);
  write_private_file(folder / "ca.pem", made.certificate_pem());
  return made;
}

net::TlsServerOptions own_certificate(const net::CertificateAuthority& authority,
                                      const std::string& address,
                                      const std::vector<std::string>& more) {
  // Made anew at every start: a server that is restarted once a year never shows one that has run out.
  std::vector<std::string> names{address, "localhost", "127.0.0.1"};
  names.insert(names.end(), more.begin(), more.end());
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0) names.emplace_back(host.data());
  if (address == "0.0.0.0" || address == "::") names.erase(names.begin());
  const net::Identity identity = authority.issue_server(names, net::Validity::lasting(Days(397)));
  net::TlsServerOptions options;
  options.certificate_pem = identity.certificate_pem + authority.certificate_pem();  // Joiners pin the CA.
  options.key_pem = identity.key_pem;
  return options;
}

}  // namespace tranche::app
