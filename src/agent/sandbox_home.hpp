// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every sandbox of a node sees read-only beside /usr: a small /etc without the node's accounts and
// secrets, and the guard as the only OpenCL driver there is.
#include <filesystem>
#include <string>
#include <vector>

#include "agent/sandbox_plan.hpp"

namespace tranche::agent {

class SandboxHome {
 public:
  // Builds etc and run below the folder, unless the same were built before. `guard_library` may be empty:
  // then no device can be shown.
  SandboxHome(const std::filesystem::path& folder, const std::filesystem::path& guard_library);

  [[nodiscard]] std::vector<Bind> binds() const;
  // The file that says whom to ask for addresses; empty: nobody.
  [[nodiscard]] std::string name_servers(NetworkKind network) const;
  [[nodiscard]] std::string opencl_drivers() const { return (folder_ / "etc/OpenCL/vendors").string(); }
  // Beside them for a lease with devices: its broker socket, and for CUDA the preload that no variable
  // undoes.
  [[nodiscard]] std::vector<Bind> device_binds(const std::string& tenant_socket, bool cuda) const;
  [[nodiscard]] bool has_guard() const { return guarded_; }

 private:
  std::filesystem::path folder_;
  bool guarded_ = false;
};

}  // namespace tranche::agent
