// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the API says of storage: volumes, and working directories that were uploaded.
#include <boost/describe/class.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/money.hpp"
#include "wire/volume.hpp"

namespace tranche::wire {

struct VolumeCreate {
  std::string name{};
  Bytes size{};
  std::string owner{};  // Id or path of a tenant or a part of one; empty: what you belong to.
  std::string node{};   // Id or name; empty: where the first job that uses it runs.
  VolumeBackend backend = VolumeBackend::kNode;
  std::string pool{};  // Of a shared one; empty: the only one there is.
};
BOOST_DESCRIBE_STRUCT(VolumeCreate, (), (name, size, owner, node, backend, pool))

struct VolumeSnapshot {
  std::string name{};  // Of the copy, a volume of the same owner.
};
BOOST_DESCRIBE_STRUCT(VolumeSnapshot, (), (name))

struct VolumeView {
  VolumeId id{};
  std::string name{};
  std::string owner{};  // Path.
  Bytes size{};
  std::string node{};  // Empty: no job has used it yet, or it is shared.
  VolumeState state = VolumeState::kReady;
  VolumeId source{};       // Of a snapshot.
  bool encrypted = false;  // At rest, under a key of the tenant. See docs/volumes.md.
  Instant created{};
  std::vector<JobId> used_by{};
  std::optional<VolumeReceipt> receipt{};  // Of the copy or the wipe.
  VolumeBackend backend = VolumeBackend::kNode;
  std::string pool{};      // Of a shared one.
  Money hourly{};          // What keeping it costs now, used or not.
  Money charged{};         // So far.
  std::string currency{};  // Of both.
};
BOOST_DESCRIBE_STRUCT(VolumeView,
                      (),
                      (id,
                       name,
                       owner,
                       size,
                       node,
                       state,
                       source,
                       encrypted,
                       created,
                       used_by,
                       receipt,
                       backend,
                       pool,
                       hourly,
                       charged,
                       currency))

struct VolumeList {
  std::vector<VolumeView> items{};
};
BOOST_DESCRIBE_STRUCT(VolumeList, (), (items))

struct WorkdirView {
  std::string digest{};  // "sha256:…", which is what a job file then says under workdir.
  Bytes size{};
  Bytes held{};  // How much the server has; an upload goes on from here.
  bool complete = false;
};
BOOST_DESCRIBE_STRUCT(WorkdirView, (), (digest, size, held, complete))

}  // namespace tranche::wire
