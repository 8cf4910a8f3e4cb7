// SPDX-License-Identifier: Apache-2.0
#pragma once
// A record: one command's envelope, its name, and the events it led to. The unit of the journal and of audit.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/envelope.hpp"
#include "base/result.hpp"
#include "engine/event.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

struct Record {
  Envelope envelope{};
  std::string command{};
  Events events{};
};

[[nodiscard]] std::string encode_record(const Envelope&, std::string_view command, const Events&);
// Any bytes give a record or a reason. An event of an unknown number is a reason: it was written by a newer
// version, and going on without it would be guessing.
[[nodiscard]] Result<Record, std::string> decode_record(std::string_view bytes);

// The name of an event as people see it ("job_submitted"), and the party it is about.
[[nodiscard]] std::string event_name(const Event&);
[[nodiscard]] PartyId party_concerned(const Event&);
// Its fields as JSON, without what must never leave the engine (hashes of passwords and tokens).
[[nodiscard]] std::string event_json(const Event&);

}  // namespace tranche::engine
