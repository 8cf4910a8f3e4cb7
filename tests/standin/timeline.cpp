// SPDX-License-Identifier: Apache-2.0
// When is work of this process done, when may the host know, and when do its effects on memory happen?
// Effects wait in a queue until the simulated end of their work, so an unsynchronised reader really sees old
// bytes.
#include <algorithm>
#include <atomic>
#include <condition_variable>

#include "driver.hpp"

namespace standin {
namespace {

struct EffectQueue {
  struct Effect {
    std::function<void()> run;
    bool runs_host_code;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::multimap<std::uint64_t, Effect> waiting;
  std::atomic<std::uint64_t> pending_from{
      ~0ULL};  // Earliest effect not yet done; no lock needed to see none.
  bool thread_started = false;
  bool running = false;

  void refresh() { pending_from.store(waiting.empty() ? ~0ULL : waiting.begin()->first); }

  // Runs what is due. Host code runs only where the caller allows it, and outside the lock.
  void apply(std::uint64_t until_ns, bool allow_host_code) {
    std::unique_lock lock(mutex);
    while (!waiting.empty() && waiting.begin()->first <= until_ns) {
      if (running) {
        changed.wait(lock);
        continue;
      }
      if (waiting.begin()->second.runs_host_code && !allow_host_code) return;
      const Effect effect = waiting.begin()->second;
      running = true;
      if (effect.runs_host_code) lock.unlock();
      effect.run();
      if (effect.runs_host_code) lock.lock();
      waiting.erase(waiting.begin());
      running = false;
      refresh();
      changed.notify_all();
    }
  }

  void serve() {
    std::unique_lock lock(mutex);
    for (;;) {
      if (waiting.empty() || running) {
        changed.wait(lock);
        continue;
      }
      const std::uint64_t next = waiting.begin()->first;
      lock.unlock();
      if (next > now_ns()) sleep_until(std::min(next, now_ns() + 1'000'000));
      apply(now_ns(), true);
      lock.lock();
    }
  }

  void add(std::uint64_t at_ns, Effect effect) {
    const std::lock_guard lock(mutex);
    waiting.emplace(at_ns, std::move(effect));
    refresh();
    if (!thread_started) {
      thread_started = true;
      std::thread([this] { serve(); }).detach();
    }
    changed.notify_all();
  }
};

EffectQueue& effects() {
  static EffectQueue* const queue = new EffectQueue;  // Outlives static destruction, like its thread.
  return *queue;
}

}  // namespace

void add_effect(std::uint64_t at_ns, std::function<void()> effect, bool runs_host_code) {
  effects().add(at_ns, {std::move(effect), runs_host_code});
}

void wait_until_known(std::uint64_t done_ns) {
  sleep_until(done_ns + driver().config().event_lag_ns);
  if (effects().pending_from.load() <= done_ns) effects().apply(done_ns, true);
}

bool is_known(std::uint64_t done_ns) {
  if (now_ns() < done_ns + driver().config().event_lag_ns) return false;
  if (effects().pending_from.load() > done_ns) return true;
  effects().apply(done_ns, false);
  return effects().pending_from.load() > done_ns;
}

bool has_ended(std::uint64_t end_ns) {
  return now_ns() >= end_ns && effects().pending_from.load() > end_ns;
}

std::uint64_t stream_front(CUstream stream) {
  const CUcontext context = stream->context;
  std::uint64_t front = stream->tail_ns;
  if (stream == context->legacy) {
    front = std::max(front, context->blocking_tail_ns);
  } else if ((stream->flags & CU_STREAM_NON_BLOCKING) == 0) {
    front = std::max(front, context->legacy->tail_ns);
  }
  return front;
}

std::uint64_t run_at(CUcontext context, const Work& work, std::uint64_t ready_ns) {
  Driver& all = driver();
  const std::uint64_t now = all.last_now_ns = now_ns();
  std::uint64_t end = std::max(ready_ns, now);
  if (work.length_ns != 0)
    end =
        enqueue(*all.shared, all.slot, context->device, work.engine, {ready_ns, now}, work.length_ns).end_ns;
  if (work.type == CU_GRAPH_NODE_TYPE_KERNEL)
    all.shared->slots[all.slot].kernels[context->device].fetch_add(1, std::memory_order_relaxed);
  if (work.effect) add_effect(end, work.effect, work.runs_host_code);
  return end;
}

void advance(CUstream stream, std::uint64_t end_ns) {
  const CUcontext context = stream->context;
  stream->tail_ns = end_ns;
  if ((stream->flags & CU_STREAM_NON_BLOCKING) == 0)
    context->blocking_tail_ns = std::max(context->blocking_tail_ns, end_ns);
  context->any_tail_ns = std::max(context->any_tail_ns, end_ns);
  if (stream->ring.empty()) stream->ring.resize(std::max(1U, driver().config().queue_depth));
  stream->ring[stream->ring_next] = end_ns;
  stream->ring_next = (stream->ring_next + 1) % stream->ring.size();
}

std::uint64_t schedule(CUstream stream, const Work& work) {
  const std::uint64_t end = run_at(stream->context, work, stream_front(stream));
  advance(stream, end);
  return end;
}

void wait_for_room(CUstream stream) {
  std::uint64_t oldest = 0;
  {
    const Guard guard(driver().mutex);
    if (!stream->ring.empty() && !stream->capture) oldest = stream->ring[stream->ring_next];
  }
  if (oldest > driver().last_now_ns && oldest > now_ns()) sleep_until(oldest);
}

CUstream resolve(CUstream stream) {
  const CUcontext context = current_context();
  if (stream == nullptr) stream = default_stream_is_per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  if (stream == CU_STREAM_LEGACY) return context == nullptr ? nullptr : context->legacy;
  if (stream != CU_STREAM_PER_THREAD) return stream;
  if (context == nullptr) return nullptr;
  static thread_local std::map<CUcontext, CUstream> own;
  CUstream& mine = own[context];
  if (mine == nullptr) {
    mine = new CUstream_st;
    mine->context = context;
    mine->id = driver().next_id++;
    context->streams.insert(mine);
  }
  return mine;
}

}  // namespace standin
