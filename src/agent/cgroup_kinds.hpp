// SPDX-License-Identifier: Apache-2.0
#pragma once
// The two kernel interfaces behind agent/cgroup.hpp.
#include <map>
#include <set>

#include "agent/cgroup.hpp"

namespace tranche::agent {

class CgroupsV1 final : public Cgroups {
 public:
  // The agent's own folder of each controller.
  CgroupsV1(const std::map<std::string, std::string>& folders, const std::string& parent);
  [[nodiscard]] std::string version() const override { return folders_.empty() ? "none" : "v1"; }
  bool create(const std::string& name, const CgroupLimits& limits, std::string& problem) override;
  bool enter(const std::string& name) override;
  bool freeze(const std::string& name, bool frozen) override;
  bool kill(const std::string& name) override;
  [[nodiscard]] std::uint64_t memory_kills(const std::string& name) const override;
  [[nodiscard]] std::vector<int> processes(const std::string& name) const override;
  [[nodiscard]] CgroupUse use(const std::string& name) const override;
  bool remove(const std::string& name) override;

 private:
  [[nodiscard]] std::string at(const char* controller, const std::string& name) const;
  void make_plain_devices();
  std::map<std::string, std::string> folders_;
  // The group of every lease without a device of its own: such a list holds nothing that differs between
  // them.
  std::string plain_devices_;
};

class CgroupsV2 final : public Cgroups {
 public:
  CgroupsV2(const std::string& own_folder, const std::string& parent);
  [[nodiscard]] std::string version() const override { return folder_.empty() ? "none" : "v2"; }
  bool create(const std::string& name, const CgroupLimits& limits, std::string& problem) override;
  bool enter(const std::string& name) override;
  bool freeze(const std::string& name, bool frozen) override;
  bool kill(const std::string& name) override;
  [[nodiscard]] std::uint64_t memory_kills(const std::string& name) const override;
  [[nodiscard]] std::vector<int> processes(const std::string& name) const override;
  [[nodiscard]] CgroupUse use(const std::string& name) const override;
  bool remove(const std::string& name) override;

 private:
  bool lists_devices_ = false;
  std::string folder_;
  std::set<std::string> controllers_;
};

}  // namespace tranche::agent
