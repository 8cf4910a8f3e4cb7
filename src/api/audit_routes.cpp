// SPDX-License-Identifier: Apache-2.0
// The audit log is a view of the journal: every record that changed something, and every denial.
#include <algorithm>
#include <charconv>

#include "api/api.hpp"
#include "api/audit_view.hpp"
#include "api/problem.hpp"
#include "base/wall_clock.hpp"
#include "engine/record.hpp"
#include "wire/api_job.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;
constexpr std::uint64_t kScannedMax = 20'000;  // Records one request looks at; the cursor goes on from there.

bool audits_anything(const State& state, const Actor& actor) {
  for (const engine::Party* at = state.party(actor.party); at != nullptr; at = state.party(at->parent)) {
    if (engine::may(state, actor, engine::Action::kViewAudit, at->id)) return true;
  }
  return false;
}

engine::Refusal no_auditor(std::string where) {
  return {.reason = wire::Reason::kForbidden,
          .rule = "role",
          .where = where,
          .message = "only an auditor or administrator may read the audit log",
          .fix = "ask for the role auditor at " + where};
}

void list_audit(Api& api, Call call) {
  const auto page = page_of(call);
  if (!page) return call.reply.send(problem(page.error(), call.envelope.request_id));
  const std::string actor_name(call.query_value("actor"));
  const std::string action(call.query_value("action"));
  api.view(std::move(call),
           [&api, page = *page, actor_name, action](
               const State& state, const Actor& actor) -> Result<net::Response, wire::Refusal> {
             if (!audits_anything(state, actor))
               return refuse(no_auditor(engine::path_of(state, actor.party)));
             const PartyId wanted = actor_name.empty() ? PartyId{} : engine::find_path(state, actor_name);
             if (!actor_name.empty() && (wanted == PartyId{} || !engine::can_see(state, actor, wanted)))
               return refuse(engine::not_found());
             wire::AuditList out;
             const std::uint64_t from =
                 page.after == 0 ? state.sequence : std::min(page.after - 1, state.sequence);
             std::uint64_t scanned = 0;
             api.loop().store().scan_back(from, 1, [&](std::uint64_t sequence, std::string_view body) {
               if (++scanned > kScannedMax || out.items.size() == page.limit) {
                 out.next = std::to_string(sequence + 1);
                 return false;
               }
               const auto record = engine::decode_record(body);
               if (!record || record->events.empty() || record->command == "tick" ||
                   !can_audit(state, actor, *record))
                 return true;
               if (wanted != PartyId{} && record->envelope.actor != wanted) return true;
               auto entry = audit_entry(state, actor, sequence, *record);
               if (action.empty() || entry.action == action) out.items.push_back(std::move(entry));
               return true;
             });
             return json(out);
           });
}

void verify_audit(Api& api, Call call) {
  api.loop().read([&api, call = std::move(call)](const State& state) mutable {
    call.envelope.at = clock_at_least(state.now);
    const auto actor = engine::actor_of(state, call.envelope);
    if (!actor) return call.reply.send(unauthenticated(call.envelope.request_id));
    if (!audits_anything(state, *actor)) {
      const auto refusal = no_auditor(engine::path_of(state, actor->party));
      api.note_denial(call.envelope, "audit.verify", refusal);
      return call.reply.send(problem(refusal, call.envelope.request_id));
    }
    api.later(std::move(call), [&api](Call next) { next.reply.send(json(api.loop().verify())); });
  });
}

void export_audit(Api& api, Call call) {
  api.loop().read([&api, call = std::move(call)](const State& state) mutable {
    call.envelope.at = clock_at_least(state.now);
    const auto actor = engine::actor_of(state, call.envelope);
    if (!actor) return call.reply.send(unauthenticated(call.envelope.request_id));
    if (!engine::may(state, *actor, engine::Action::kViewAudit, kPlatform)) {
      const auto refusal = no_auditor("platform");
      api.note_denial(call.envelope, "audit.export", refusal);
      return call.reply.send(problem(refusal, call.envelope.request_id));
    }
    api.later(std::move(call), [&api, now = clock_at_least(state.now)](Call next) {
      net::Response response = json_response(200, api.loop().exported(now));
      response.content_type = "application/jsonl";
      next.reply.send(std::move(response));
    });
  });
}

void follow_events(Api& api, Call call) {
  follow(api, std::move(call), tell_events);
}

}  // namespace

std::vector<Route> audit_routes() {
  return {
      {.method = "GET",
       .path = "/v1/audit",
       .id = "list_audit",
       .tag = "audit",
       .summary = "Who did what, newest first",
       .gives = body<wire::AuditList>(),
       .query = {"limit", "cursor", "actor", "action"},
       .handle = list_audit},
      {.method = "GET",
       .path = "/v1/audit/verify",
       .id = "verify_audit",
       .tag = "audit",
       .summary = "Check the whole hash chain",
       .gives = body<wire::AuditVerdict>(),
       .handle = verify_audit},
      {.method = "GET",
       .path = "/v1/audit/export",
       .id = "export_audit",
       .tag = "audit",
       .summary = "Every record with its hash and signatures, as JSON Lines",
       .handle = export_audit},
      {.method = "GET",
       .path = "/v1/events",
       .id = "follow_events",
       .tag = "events",
       .summary = "Live events (server-sent), resumable by Last-Event-ID",
       .query = {"from"},
       .handle = follow_events},
  };
}

}  // namespace tranche::api
