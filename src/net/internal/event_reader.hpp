// SPDX-License-Identifier: Apache-2.0
#pragma once
// Cuts a text/event-stream into events.
#include <functional>
#include <string>
#include <string_view>

#include "net/client.hpp"

namespace tranche::net {

class EventReader {
 public:
  // False when `on_event` wants no more.
  bool read(std::string_view bytes, const std::function<bool(const ServerEvent&)>& on_event);

 private:
  bool take_line(std::string_view line, const std::function<bool(const ServerEvent&)>& on_event);

  std::string rest_;  // Of a line that has not ended.
  ServerEvent event_;
  bool has_data_ = false;
};

}  // namespace tranche::net
