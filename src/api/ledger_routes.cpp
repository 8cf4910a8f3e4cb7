// SPDX-License-Identifier: Apache-2.0
// The ledger itself, for the operator: accounts, entries made and reversed by people, holds in two phases.
#include "api/api.hpp"
#include "api/problem.hpp"
#include "base/text.hpp"
#include "base/wall_clock.hpp"
#include "engine/spend.hpp"
#include "wire/api_ledger.hpp"

namespace tranche::api {
namespace {

using engine::AccountId;
using engine::AccountKind;
using engine::Action;
using engine::Actor;
using engine::State;
using Shown = Result<net::Response, wire::Refusal>;

std::optional<wire::Refusal> look_problem(const State& state, const Actor& actor) {
  if (engine::may(state, actor, Action::kCorrectInvoices, kPlatform)) return std::nullopt;
  return engine::check_access(state, actor, Action::kManagePlatform, kPlatform);
}

// Whoever may not write here does not learn by an error which parties there are.
std::optional<wire::Refusal> write_problem(const State& state, const Call& call) {
  const auto actor = engine::actor_of(state, call.envelope);
  if (!actor) return engine::not_found();
  return engine::check_access(state, *actor, Action::kManagePlatform, kPlatform);
}

Result<AccountId, wire::Problem> account_of(const State& state,
                                            const std::string& party,
                                            const std::string& kind) {
  const auto known = wire::from_name<AccountKind>(kind);
  if (!known)
    return refuse(
        wire::Problem{"kind",
                      "there is no such kind of account",
                      "credit, receivable, payable, revenue, fees, taxes, escrow, rounding, clearing"});
  const PartyId owner = engine::find_path(state, party);
  if (owner == PartyId{})
    return refuse(
        wire::Problem{"party", "there is no party '" + party + "'", "an id or a path; or platform"});
  return AccountId::make(owner, *known, engine::currency_of(state));
}

wire::LegBody leg_view(const State& state, const engine::Leg& leg) {
  return {.party = engine::path_of(state, leg.account.owner()),
          .kind = std::string(wire::name_of(leg.account.kind())),
          .amount = leg.amount};
}

std::string id_or_none(engine::PostingId id) {
  return id == engine::PostingId{} ? "" : id_text("pst_", id.value);
}

wire::PostingView view_of(const State& state, const engine::Posting& posting) {
  wire::PostingView view{.id = id_text("pst_", posting.id.value),
                         .at = posting.at,
                         .memo = posting.memo,
                         .reference = posting.reference,
                         .reverses = id_or_none(posting.reverses),
                         .reversed_by = id_or_none(posting.reversed_by)};
  for (const engine::Leg& leg : posting.legs) view.legs.push_back(leg_view(state, leg));
  return view;
}

wire::HoldView view_of(const State& state, const engine::Hold& hold) {
  return {.id = id_text("hold_", hold.id.value),
          .party = engine::path_of(state, hold.account.owner()),
          .amount = hold.amount,
          .expires = hold.expires == Instant{} ? std::nullopt : std::optional(hold.expires),
          .purpose = hold.purpose};
}

void list_accounts(Api& api, Call call) {
  api.view(std::move(call), [](const State& state, const Actor& actor) -> Shown {
    if (auto refusal = look_problem(state, actor)) return refuse(*refusal);
    wire::LedgerAccounts out;
    for (const std::uint64_t id : state.ledger.accounts.ids()) {
      const engine::Account& one = *state.ledger.accounts.find(id);
      out.sum.micros += one.balance.micros;
      out.items.push_back({.party = engine::path_of(state, one.id.owner()),
                           .kind = std::string(wire::name_of(one.id.kind())),
                           .currency = one.id.currency().text(),
                           .balance = one.balance,
                           .held = one.held,
                           .overdraft = one.overdraft,
                           .bounded = engine::is_bounded(state.ledger, one.id)});
    }
    return json(out);
  });
}

// Newest first.
void list_postings(Api& api, Call call) {
  const auto page = page_of(call);
  if (!page) return call.reply.send(problem(page.error(), call.envelope.request_id));
  api.view(std::move(call), [page = *page](const State& state, const Actor& actor) -> Shown {
    if (auto refusal = look_problem(state, actor)) return refuse(*refusal);
    wire::PostingList out;
    for (auto at = state.ledger.postings.rbegin();
         at != state.ledger.postings.rend() && out.items.size() < page.limit;
         ++at)
      out.items.push_back(view_of(state, at->second));
    return json(out);
  });
}

net::Response posted(const server::Outcome& outcome) {
  const auto& event = std::get<engine::Posted>(outcome.events->front());
  return json(view_of(*outcome.state, outcome.state->ledger.postings.at(event.id)), 201);
}

void post_entry(Api& api, Call call) {
  const auto body = parse<wire::PostingBody>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  api.loop().read([&api, call = std::move(call), body = *body](const State& state) mutable {
    if (auto refusal = write_problem(state, call))
      return call.reply.send(problem(*refusal, call.envelope.request_id));
    engine::PostEntry entry{.memo = body.memo, .reference = body.reference};
    for (const wire::LegBody& leg : body.legs) {
      const auto account = account_of(state, leg.party, leg.kind);
      if (!account) return call.reply.send(problem(account.error(), call.envelope.request_id));
      entry.legs.push_back({*account, leg.amount});
    }
    api.run(std::move(call), std::move(entry), posted);
  });
}

void reverse(Api& api, Call call) {
  const auto body = parse<wire::ReverseBody>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  const auto id = parse_id("pst_", call.parameters.front());
  api.run(std::move(call), engine::ReversePosting{{id.value_or(0)}, body->memo}, posted);
}

void list_holds(Api& api, Call call) {
  api.view(std::move(call), [](const State& state, const Actor& actor) -> Shown {
    if (auto refusal = look_problem(state, actor)) return refuse(*refusal);
    wire::HoldList out;
    for (const auto& [id, hold] : state.ledger.holds) out.items.push_back(view_of(state, hold));
    return json(out);
  });
}

void place_hold(Api& api, Call call) {
  const auto body = parse<wire::HoldBody>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  api.loop().read([&api, call = std::move(call), body = *body](const State& state) mutable {
    const Instant expires =
        body.expires_in > Duration{} ? clock_at_least(state.now) + body.expires_in : Instant{};
    api.run(std::move(call),
            engine::PlaceHold{engine::find_path(state, body.party), body.amount, expires, body.purpose},
            [](const server::Outcome& outcome) {
              const auto& placed = std::get<engine::HoldPlaced>(outcome.events->front());
              return json(view_of(*outcome.state, outcome.state->ledger.holds.at(placed.id)), 201);
            });
  });
}

void end_hold(Api& api, Call call) {
  const auto body = parse<wire::EndHoldBody>(call);
  if (!body) return call.reply.send(problem(body.error(), call.envelope.request_id));
  const auto id = parse_id("hold_", call.parameters.front());
  api.loop().read([&api, call = std::move(call), body = *body, id](const State& state) mutable {
    if (auto refusal = write_problem(state, call))
      return call.reply.send(problem(*refusal, call.envelope.request_id));
    const auto to = account_of(state, body.party, body.kind);
    if (!to) return call.reply.send(problem(to.error(), call.envelope.request_id));
    api.run(std::move(call),
            engine::EndHold{{id.value_or(0)}, body.captured, *to},
            [](const server::Outcome&) { return no_content(); });
  });
}

}  // namespace

std::vector<Route> ledger_routes() {
  const auto route = [](std::string_view method,
                        std::string_view path,
                        std::string_view id,
                        std::string_view summary,
                        Body takes,
                        Body gives,
                        int status,
                        std::function<void(Api&, Call)> handle) {
    return Route{.method = method,
                 .path = path,
                 .id = id,
                 .tag = "money",
                 .summary = summary,
                 .takes = takes,
                 .gives = gives,
                 .status = status,
                 .handle = std::move(handle)};
  };
  using namespace wire;
  std::vector<Route> routes{
      route("GET",
            "/v1/ledger/accounts",
            "list_ledger_accounts",
            "Every account and its balance; they add up to zero",
            {},
            body<LedgerAccounts>(),
            200,
            list_accounts),
      route("GET",
            "/v1/ledger/postings",
            "list_postings",
            "Entries that people made, newest first",
            {},
            body<PostingList>(),
            200,
            list_postings),
      route("POST",
            "/v1/ledger/postings",
            "post_entry",
            "Make an entry whose legs add up to zero",
            body<PostingBody>(),
            body<PostingView>(),
            201,
            post_entry),
      route("POST",
            "/v1/ledger/postings/{posting}/reverse",
            "reverse_posting",
            "Take an entry back by a second one",
            body<ReverseBody>(),
            body<PostingView>(),
            201,
            reverse),
      route("GET",
            "/v1/ledger/holds",
            "list_holds",
            "Money set aside by people",
            {},
            body<HoldList>(),
            200,
            list_holds),
      route("POST",
            "/v1/ledger/holds",
            "place_hold",
            "Set credit of a party aside, until it is captured, released or expires",
            body<HoldBody>(),
            body<HoldView>(),
            201,
            place_hold),
      route("POST",
            "/v1/ledger/holds/{hold}/end",
            "end_hold",
            "Capture a part of what is set aside, which may be nothing; the rest is free again",
            body<EndHoldBody>(),
            {},
            204,
            end_hold)};
  routes[1].query = {"limit", "cursor"};
  return routes;
}

}  // namespace tranche::api
