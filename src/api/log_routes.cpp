// SPDX-License-Identifier: Apache-2.0
// What a job wrote: as it is, or as it comes.
#include <charconv>

#include "api/api.hpp"
#include "api/problem.hpp"
#include "base/wall_clock.hpp"
#include "server/log_store.hpp"
#include "wire/api_telemetry.hpp"
#include "wire/fields.hpp"

namespace tranche::api {
namespace {

using engine::Actor;
using engine::State;

constexpr std::size_t kChunk = 64 * 1024;

// One reader that follows: sends what is new, from whichever thread noticed, and ends with the job.
class Follower : public std::enable_shared_from_this<Follower> {
 public:
  Follower(server::LogStore& store,
           server::LogName name,
           std::uint64_t from,
           std::shared_ptr<net::Stream> out)
      : store_(store), name_(name), at_(from), out_(std::move(out)) {}

  void listen() {
    handle_ = store_.listen(name_.job, [weak = weak_from_this()](const server::LogName& name) {
      if (const auto self = weak.lock(); self && name == self->name_) self->pump();
    });
    pump();
  }
  bool pump() {
    const std::lock_guard lock(mutex_);
    for (;;) {
      std::string bytes = store_.read(name_, at_, kChunk);
      if (bytes.empty()) return out_->open();
      at_ += bytes.size();
      if (!out_->write(std::move(bytes))) return false;
    }
  }
  void finish() {
    pump();
    out_->close();
  }
  [[nodiscard]] bool open() const { return out_->open(); }

 private:
  server::LogStore& store_;
  server::LogName name_;
  std::mutex mutex_;
  std::uint64_t at_ = 0;
  std::shared_ptr<net::Stream> out_;
  std::shared_ptr<void> handle_;
};

void logs(Api& api, Call call) {
  const JobId id{parse_id("job_", call.parameters.front()).value_or(0)};
  const std::string stream_name(call.query_value("stream"));
  const auto stream =
      stream_name.empty() ? wire::LogStream::kStdout : wire::from_name<wire::LogStream>(stream_name);
  if (!stream) {
    return call.reply.send(
        problem(wire::Problem{"stream", "there is no such stream", "stdout, stderr, platform or results"},
                call.envelope.request_id));
  }
  const auto number = [&](std::string_view name, std::uint64_t otherwise) {
    const std::string_view value = call.query_value(name);
    std::from_chars(value.data(), value.data() + value.size(), otherwise);
    return otherwise;
  };
  const std::uint64_t from = number("from", 0);
  const std::uint64_t rank = number("rank", 0);
  const std::uint64_t attempt = number("attempt", 0);
  const bool follow = call.query_value("follow") == "true";
  api.loop().read([&api, call = std::move(call), id, stream = *stream, from, rank, attempt, follow](
                      const State& state) mutable {
    call.envelope.at = clock_at_least(state.now);
    const auto actor = engine::actor_of(state, call.envelope);
    if (!actor) return call.reply.send(unauthenticated(call.envelope.request_id));
    const engine::Job* job = state.job(id);
    if (job == nullptr || !engine::can_see(state, *actor, *job)) {
      api.note_denial(call.envelope, "GET " + call.request.path, engine::not_found());
      return call.reply.send(problem(engine::not_found(), call.envelope.request_id));
    }
    server::LogStore& store = *api.options().logs;
    const server::LogName name{
        .job = id,
        .attempt = attempt != 0 ? static_cast<std::uint32_t>(attempt) : std::max(job->attempts, 1U),
        .rank = static_cast<std::uint32_t>(rank),
        .stream = stream};
    net::Response head{.status = 200, .content_type = "text/plain; charset=utf-8", .body = {}, .headers = {}};
    head.headers.emplace_back("X-Request-Id", call.envelope.request_id);
    if (!follow || is_over(job->state)) {
      const std::uint64_t size = store.size(name);
      constexpr std::uint64_t kMost = 16U << 20U;
      head.body = store.read(name, from, static_cast<std::size_t>(std::min(size, kMost)));
      return call.reply.send(std::move(head));
    }
    auto follower = std::make_shared<Follower>(store, name, from, call.reply.stream(std::move(head)));
    follower->listen();
    api.follow_until_over(id, [follower](bool over) {
      if (over) follower->finish();
      return follower->open();
    });
  });
}

// In the logs of jobs that the caller may see, newest job first; beside the engine, because it reads files.
void search(Api& api, Call call) {
  constexpr std::size_t kJobsMax = 1000;
  const std::string wanted(call.query_value("text"));
  const std::string owner(call.query_value("owner"));
  const auto page = page_of(call);
  if (!page) return call.reply.send(problem(page.error(), call.envelope.request_id));
  if (wanted.empty())
    return call.reply.send(
        problem(wire::Problem{"text", "say what to look for", ""}, call.envelope.request_id));
  api.loop().read(
      [&api, call = std::move(call), wanted, owner, most = page->limit](const State& state) mutable {
        call.envelope.at = clock_at_least(state.now);
        const auto actor = engine::actor_of(state, call.envelope);
        if (!actor) return call.reply.send(unauthenticated(call.envelope.request_id));
        const PartyId under = owner.empty() ? kPlatform : engine::find_path(state, owner);
        std::vector<JobId> jobs;
        for (auto at = state.jobs.rbegin(); at != state.jobs.rend() && jobs.size() < kJobsMax; ++at) {
          const engine::Job& job = at->second;
          if (engine::is_at_or_below(state, job.owner, under) && engine::can_see(state, *actor, job))
            jobs.push_back(job.id);
        }
        const server::LogStore* store = api.options().logs;
        api.later(std::move(call), [store, jobs = std::move(jobs), wanted, most](Call next) {
          wire::LogMatches out;
          for (const JobId job : jobs) {
            for (server::LogStore::Found& found : store->search(job, wanted, most + 1 - out.items.size()))
              out.items.push_back({.job = job,
                                   .attempt = found.name.attempt,
                                   .rank = found.name.rank,
                                   .stream = std::string(wire::name_of(found.name.stream)),
                                   .offset = found.offset,
                                   .line = std::move(found.line)});
            out.more = out.items.size() > most;
            if (out.more) break;
          }
          if (out.more) out.items.resize(most);
          next.reply.send(json(out));
        });
      });
}

}  // namespace

std::vector<Route> log_routes() {
  return {{.method = "GET",
           .path = "/v1/logs",
           .id = "search_logs",
           .tag = "jobs",
           .summary = "Lines of your jobs' logs with a text in them, newest job first",
           .gives = body<wire::LogMatches>(),
           .query = {"text", "owner", "limit"},
           .handle = search},
          {.method = "GET",
           .path = "/v1/jobs/{job}/logs",
           .id = "job_logs",
           .tag = "jobs",
           .summary = "What a job wrote; with follow=true as it comes",
           .query = {"stream", "from", "rank", "attempt", "follow"},
           .handle = logs}};
}

}  // namespace tranche::api
