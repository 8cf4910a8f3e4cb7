// SPDX-License-Identifier: Apache-2.0
#include "server/recovery.hpp"

#include "engine/engine.hpp"
#include "engine/record.hpp"
#include "engine/snapshot.hpp"
#include "journal/snapshot.hpp"

namespace tranche::server {

Recovered recover(const std::filesystem::path& folder, const journal::Reader& store, const Log& log) {
  Recovered recovered;
  const auto on_bad = [&](const std::filesystem::path& file, const std::string& why) {
    log("snapshot " + file.filename().string() + " is not used: " + why);
  };
  if (const auto snapshot = journal::newest_snapshot(folder, store, engine::kStateFormat, on_bad)) {
    auto state = engine::decode_state(snapshot->content);
    if (state && state->sequence == snapshot->label.sequence) {
      recovered.state = std::move(*state);
      recovered.snapshot_sequence = snapshot->label.sequence;
    } else {
      log("a snapshot could not be read (" + (state ? "wrong sequence" : state.error()) +
          "); replaying the journal");
    }
  }
  engine::State& state = recovered.state;
  store.scan(state.sequence + 1, UINT64_MAX, [&](std::uint64_t sequence, std::string_view body) {
    const auto record = engine::decode_record(body);
    if (!record) throw journal::Corrupt(sequence, record.error());
    engine::apply_record(state, sequence, record->envelope, record->events);
    return true;
  });
  return recovered;
}

}  // namespace tranche::server
