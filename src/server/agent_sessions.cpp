// SPDX-License-Identifier: Apache-2.0
// Commands inside running jobs: the hub passes their bytes between a person and an agent.
#include "server/agent_hub.hpp"
#include "server/agent_link.hpp"

namespace tranche::server {

std::uint64_t AgentHub::open_session(NodeId node, wire::SessionOpen open, SessionCallbacks callbacks) {
  const auto link = link_of(node);
  if (!link) return 0;
  {
    const std::lock_guard lock(mutex_);
    open.session = next_session_++;
    sessions_[open.session] = {node, std::move(callbacks)};
  }
  if (link->send(open)) return open.session;
  const std::lock_guard lock(mutex_);
  sessions_.erase(open.session);
  return 0;
}

bool AgentHub::send_session(std::uint64_t session, wire::SessionData data) {
  NodeId node{};
  {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(session);
    if (found == sessions_.end()) return false;
    node = found->second.node;
  }
  const auto link = link_of(node);
  data.session = session;
  return link && link->send(data);
}

void AgentHub::end_session(std::uint64_t session) {
  NodeId node{};
  {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(session);
    if (found == sessions_.end()) return;
    node = found->second.node;
    sessions_.erase(found);
  }
  if (const auto link = link_of(node)) link->send(wire::SessionEnd{.session = session});
}

void AgentHub::session_frame(const wire::AgentFrame& frame) {
  if (const auto data = wire::open_frame<wire::SessionData>(frame)) {
    std::function<void(const wire::SessionData&)> tell;
    {
      const std::lock_guard lock(mutex_);
      const auto found = sessions_.find(data->session);
      if (found != sessions_.end()) tell = found->second.callbacks.on_data;
    }
    if (tell) tell(*data);
    return;
  }
  const auto end = wire::open_frame<wire::SessionEnd>(frame);
  if (!end) return;
  std::function<void(const wire::SessionEnd&)> tell;
  {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(end->session);
    if (found == sessions_.end()) return;
    tell = found->second.callbacks.on_end;
    sessions_.erase(found);
  }
  tell(*end);
}

}  // namespace tranche::server
