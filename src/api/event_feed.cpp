// SPDX-License-Identifier: Apache-2.0
#include "api/event_feed.hpp"

#include <algorithm>
#include <charconv>

#include "api/api.hpp"
#include "api/problem.hpp"
#include "base/wall_clock.hpp"
#include "wire/api_job.hpp"

namespace tranche::api {
namespace {

constexpr std::uint64_t kRecordsPerTurn = 1'000;  // Catching up never holds the engine for long.
constexpr std::size_t kSubscribersMax = 1'000;

// What one must be allowed in order to be told of an event.
struct Needed {
  using Action = engine::Action;
  Action operator()(const engine::JobSubmitted&) const { return Action::kViewJob; }
  Action operator()(const engine::JobEnded&) const { return Action::kViewJob; }
  Action operator()(const engine::TokenIssued&) const { return Action::kIssueToken; }
  Action operator()(const engine::TokenRevoked&) const { return Action::kIssueToken; }
  Action operator()(const engine::Denied&) const { return Action::kViewAudit; }
  Action operator()(const engine::PasswordSet&) const { return Action::kManageParty; }
  Action operator()(const engine::Founded&) const { return Action::kManagePlatform; }
  Action operator()(const engine::SettingsChanged&) const { return Action::kManagePlatform; }
  Action operator()(const engine::Ticked&) const { return Action::kManagePlatform; }
  Action operator()(const engine::SkuSet&) const { return Action::kViewParty; }
  Action operator()(const engine::PartyCreated&) const { return Action::kViewParty; }
  Action operator()(const engine::PartyChanged&) const { return Action::kViewParty; }
  Action operator()(const engine::RoleGranted&) const { return Action::kViewParty; }
  Action operator()(const engine::RoleRevoked&) const { return Action::kViewParty; }
  Action operator()(const engine::QuotaSet&) const { return Action::kViewParty; }
  Action operator()(const engine::RulesSet&) const { return Action::kViewParty; }
  Action operator()(const engine::NodeAdded&) const { return Action::kManageCapacity; }
  Action operator()(const engine::NodeInvitationUsed&) const { return Action::kManageCapacity; }
  Action operator()(const engine::NodeReported&) const { return Action::kManageCapacity; }
  Action operator()(const engine::NodeStateChanged&) const { return Action::kManageCapacity; }
  Action operator()(const engine::NodeChanged&) const { return Action::kManageCapacity; }
  Action operator()(const engine::DeviceStateChanged&) const { return Action::kManageCapacity; }
  Action operator()(const engine::LeaseGranted&) const { return Action::kViewJob; }
  Action operator()(const engine::LeaseRevoked&) const { return Action::kViewJob; }
  Action operator()(const engine::LeaseReported&) const { return Action::kViewJob; }
  Action operator()(const engine::UsageMetered&) const { return Action::kManageCapacity; }
  Action operator()(const engine::ReceiptsKept&) const { return Action::kManageCapacity; }
  Action operator()(const engine::HealthSignalled&) const { return Action::kManageCapacity; }
  Action operator()(const engine::JobRequeued&) const { return Action::kViewJob; }
  Action operator()(const engine::JobResized&) const { return Action::kViewJob; }
  Action operator()(const engine::JobResliced&) const { return Action::kViewJob; }
  Action operator()(const engine::SliceChangeAsked&) const { return Action::kViewJob; }
  Action operator()(const engine::SliceChanged&) const { return Action::kViewJob; }
  Action operator()(const engine::LeaseParkAsked&) const { return Action::kViewJob; }
  Action operator()(const engine::LeaseReturned&) const { return Action::kViewJob; }
  Action operator()(const engine::StartForetold&) const { return Action::kViewJob; }
  Action operator()(const engine::JobStopRequested&) const { return Action::kViewJob; }
  Action operator()(const engine::DeviceOrdered&) const { return Action::kManageCapacity; }
  Action operator()(const engine::DevicesLeft&) const { return Action::kManageCapacity; }
  Action operator()(const engine::DeviceMarked&) const { return Action::kManageCapacity; }
  Action operator()(const engine::RepairOpened&) const { return Action::kManageCapacity; }
  Action operator()(const engine::RepairChanged&) const { return Action::kManageCapacity; }
  Action operator()(const engine::HealthPolicySet&) const { return Action::kManageCapacity; }
  Action operator()(const engine::BreakerChanged&) const { return Action::kManageCapacity; }
  Action operator()(const engine::WindowsBooked&) const { return Action::kViewJob; }
  Action operator()(const engine::BookingCancelled&) const { return Action::kViewJob; }
  Action operator()(const engine::WindowOpened&) const { return Action::kViewJob; }
  Action operator()(const engine::WindowClosed&) const { return Action::kViewJob; }
  Action operator()(const engine::WindowMoved&) const { return Action::kViewJob; }
  Action operator()(const engine::WindowsChanged&) const { return Action::kViewJob; }
  Action operator()(const engine::WindowShort&) const { return Action::kViewJob; }
  Action operator()(const engine::VolumeCreated&) const { return Action::kViewJob; }
  Action operator()(const engine::VolumeRemoved&) const { return Action::kViewJob; }
  Action operator()(const engine::VolumeWorked&) const { return Action::kViewJob; }
  Action operator()(const engine::StorageCharged&) const { return Action::kViewBilling; }
  Action operator()(const engine::JobHeld&) const { return Action::kViewJob; }
  Action operator()(const engine::HeldJobReleased&) const { return Action::kViewJob; }
  Action operator()(const engine::JobPauseRequested&) const { return Action::kViewJob; }
  Action operator()(const engine::JobPaused&) const { return Action::kViewJob; }
  Action operator()(const engine::JobResumed&) const { return Action::kViewJob; }
  Action operator()(const engine::ProgressNoted&) const { return Action::kViewJob; }
  Action operator()(const engine::GroupFormed&) const { return Action::kViewJob; }
  Action operator()(const engine::ChunkFormed&) const { return Action::kViewJob; }
  Action operator()(const engine::ChunkExtended&) const { return Action::kViewJob; }
  Action operator()(const engine::JobWaits&) const { return Action::kViewJob; }
  Action operator()(const engine::JobReleased&) const { return Action::kViewJob; }
  Action operator()(const engine::ServiceSet&) const { return Action::kViewJob; }
  Action operator()(const engine::ServiceRemoved&) const { return Action::kViewJob; }
  Action operator()(const engine::ReplicaAdded&) const { return Action::kViewJob; }
  Action operator()(const engine::ReplicaRetired&) const { return Action::kViewJob; }
  Action operator()(const engine::ServiceUsed&) const { return Action::kViewJob; }
  Action operator()(const engine::RecurringSet&) const { return Action::kViewJob; }
  Action operator()(const engine::RecurringRemoved&) const { return Action::kViewJob; }
  Action operator()(const engine::RecurringRan&) const { return Action::kViewJob; }
  Action operator()(const engine::RecurringPlanned&) const { return Action::kViewJob; }
  Action operator()(const engine::LevelSet&) const { return Action::kViewBilling; }
  Action operator()(const engine::LevelRemoved&) const { return Action::kViewBilling; }
  Action operator()(const engine::LevelJudged&) const { return Action::kViewJob; }
  Action operator()(const engine::GuaranteeNoted&) const { return Action::kViewBilling; }
  Action operator()(const engine::CapacityCostSet&) const { return Action::kManagePlatform; }
  Action operator()(const engine::ZoneResolved&) const { return Action::kManagePlatform; }
  Action operator()(const engine::TaxRateSet&) const { return Action::kManagePlatform; }
  // Money and market: whoever sees the party's bill.
  template <class Money>
  Action operator()(const Money&) const {
    constexpr std::uint16_t kNumber = engine::kEventNumber<Money>;
    static_assert((kNumber >= 60 && kNumber < 90) || (kNumber >= 120 && kNumber < 140));
    return Action::kViewBilling;
  }
};

engine::Action needed(const engine::Event& event) {
  return std::visit(Needed{}, event);
}

}  // namespace

bool can_see(const engine::State& state, const engine::Actor& actor, const engine::Event& event) {
  PartyId about = engine::party_concerned(event);
  if (about == PartyId{}) about = kPlatform;
  return engine::may(state, actor, needed(event), about);
}

engine::Event without_counterparty(const engine::State& state,
                                   const engine::Actor& actor,
                                   const engine::Event& event) {
  const auto is_hidden = [&](PartyId party) {
    return !state.market.rules.named && !engine::may(state, actor, engine::Action::kViewBilling, party);
  };
  if (const auto* filled = std::get_if<engine::OrderFilled>(&event); filled && is_hidden(filled->seller)) {
    engine::OrderFilled shown = *filled;
    shown.seller = {};
    shown.sell = 0;
    return shown;
  }
  if (const auto* kept = std::get_if<engine::QuoteKept>(&event)) {
    engine::QuoteKept shown = *kept;
    for (engine::MarketOrder& ask : shown.asks) {
      if (!is_hidden(ask.party)) continue;
      ask.party = ask.tenant = ask.payer = {};
      ask.piece = 0;
    }
    return shown;
  }
  return event;
}

bool EventFeed::send(const engine::State& state,
                     Subscriber& subscriber,
                     std::uint64_t sequence,
                     const Envelope& envelope,
                     const engine::Events& events) {
  subscriber.last_seen = sequence;
  subscriber.who.at = clock_at_least(state.now);
  const auto actor = engine::actor_of(state, subscriber.who);
  if (!actor) return false;  // The token was revoked or ran out meanwhile.
  return subscriber.tell(state, *actor, *subscriber.stream, sequence, envelope, events);
}

bool tell_events(const engine::State& state,
                 const engine::Actor& actor,
                 net::Stream& stream,
                 std::uint64_t sequence,
                 const Envelope& envelope,
                 const engine::Events& events) {
  for (const engine::Event& event : events) {
    if (!can_see(state, actor, event)) continue;
    const PartyId about = engine::party_concerned(event);
    const wire::LiveEvent live{
        .sequence = sequence,
        .at = envelope.at,
        .type = engine::event_name(event),
        .actor = engine::can_see(state, actor, envelope.actor) ? envelope.actor : PartyId{},
        .about = about,
        .about_path = engine::path_of(state, about),
        .data = {engine::event_json(without_counterparty(state, actor, event))}};
    if (!stream.write(net::sse_event(std::to_string(sequence), live.type, wire::to_json(live)))) return false;
  }
  return true;
}

void EventFeed::subscribe(const engine::State& state,
                          std::shared_ptr<net::Stream> stream,
                          Envelope who,
                          std::uint64_t last_seen,
                          Tell tell) {
  if (subscribers_.size() >= kSubscribersMax) {
    stream->write(": too many listen already; try again later\n\n");
    stream->close();
    return;
  }
  auto subscriber =
      std::make_shared<Subscriber>(Subscriber{std::move(stream), std::move(who), last_seen, std::move(tell)});
  subscriber->stream->write(": welcome\n\n");
  subscribers_.push_back(subscriber);
  catch_up(state, subscriber);
}

void EventFeed::catch_up(const engine::State& state, const std::shared_ptr<Subscriber>& subscriber) {
  const std::uint64_t until = std::min(state.sequence, subscriber->last_seen + kRecordsPerTurn);
  bool good = true;
  if (subscriber->last_seen < until) {
    loop_.store().scan(subscriber->last_seen + 1, until, [&](std::uint64_t sequence, std::string_view body) {
      const auto record = engine::decode_record(body);
      good = record && send(state, *subscriber, sequence, record->envelope, record->events);
      return good;
    });
  }
  if (!good) {
    subscriber->stream->close();
    std::erase(subscribers_, subscriber);
  } else if (subscriber->last_seen >= state.sequence) {
    subscriber->live = true;
  } else {
    loop_.read([this, subscriber](const engine::State& later) { catch_up(later, subscriber); });
  }
}

void EventFeed::publish(const server::Durable& durable) {
  std::erase_if(subscribers_, [&](const std::shared_ptr<Subscriber>& subscriber) {
    if (!subscriber->live) return false;
    if (send(*durable.state, *subscriber, durable.sequence, *durable.envelope, *durable.events)) return false;
    subscriber->stream->close();
    return true;
  });
}

void EventFeed::pulse() {
  loop_.read([this](const engine::State&) {
    std::erase_if(subscribers_,
                  [](const auto& subscriber) { return !subscriber->stream->write(": alive\n\n"); });
  });
}

void follow(Api& api, Call call, EventFeed::Tell tell) {
  std::string_view last = call.request.header("Last-Event-ID");
  if (last.empty()) last = call.query_value("from");
  std::uint64_t last_seen = UINT64_MAX;  // From now on.
  if (!last.empty()) {
    const auto [end, error] = std::from_chars(last.data(), last.data() + last.size(), last_seen);
    if (error != std::errc{} || end != last.data() + last.size()) {
      return call.reply.send(
          problem(wire::Problem{"Last-Event-ID", "an event's id is a number", ""}, call.envelope.request_id));
    }
  }
  api.loop().read(
      [&api, last_seen, tell = std::move(tell), call = std::move(call)](const engine::State& state) mutable {
        call.envelope.at = clock_at_least(state.now);
        if (!engine::actor_of(state, call.envelope))
          return call.reply.send(unauthenticated(call.envelope.request_id));
        net::Response head;
        head.content_type = "text/event-stream";
        head.headers.emplace_back("Cache-Control", "no-store");
        head.headers.emplace_back("X-Request-Id", call.envelope.request_id);
        auto stream = call.reply.stream(std::move(head));
        api.events().subscribe(
            state, std::move(stream), call.envelope, std::min(last_seen, state.sequence), std::move(tell));
      });
}

}  // namespace tranche::api
