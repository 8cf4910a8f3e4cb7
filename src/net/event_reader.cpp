// SPDX-License-Identifier: Apache-2.0
#include "net/internal/event_reader.hpp"

#include <algorithm>

namespace tranche::net {

bool EventReader::read(std::string_view bytes, const std::function<bool(const ServerEvent&)>& on_event) {
  rest_.append(bytes);
  std::string_view left = rest_;
  bool more = true;
  while (more) {
    const std::size_t end = left.find('\n');
    if (end == std::string_view::npos) break;
    std::string_view line = left.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    more = take_line(line, on_event);
    left.remove_prefix(end + 1);
  }
  rest_.erase(0, rest_.size() - left.size());
  return more;
}

bool EventReader::take_line(std::string_view line, const std::function<bool(const ServerEvent&)>& on_event) {
  if (line.empty()) {
    const bool complete = std::exchange(has_data_, false);
    ServerEvent event = event_;
    event_.event = "message";
    event_.data.clear();
    return !complete || on_event(event);
  }
  const std::size_t colon = std::min(line.find(':'), line.size());
  const std::string_view field = line.substr(0, colon);
  std::string_view value = line.substr(std::min(line.size(), colon + 1));
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "data") {
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  } else if (field == "event") {
    event_.event = value;
  } else if (field == "id") {
    event_.id = value;
  }
  return true;
}

}  // namespace tranche::net
