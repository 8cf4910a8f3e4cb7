// SPDX-License-Identifier: Apache-2.0
#pragma once
// The words of the calendar: what kinds of claims there are, and what may be wanted on booked capacity.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace tranche::wire {

// A contract is what was bought on the exchange.
enum class ClaimKind : std::uint8_t { kBooking, kMaintenance, kContract };
BOOST_DESCRIBE_ENUM(ClaimKind, kBooking, kMaintenance, kContract)

enum class BookingState : std::uint8_t { kBooked, kCancelled, kOver };
BOOST_DESCRIBE_ENUM(BookingState, kBooked, kCancelled, kOver)

enum class WindowState : std::uint8_t { kPlanned, kOpen, kClosed };
BOOST_DESCRIBE_ENUM(WindowState, kPlanned, kOpen, kClosed)

// Who runs jobs on the booked capacity: this platform itself, or a scheduler the tenant brings.
enum class Layer : std::uint8_t { kEmbedded, kSlurm, kKubernetes };
BOOST_DESCRIBE_ENUM(Layer, kEmbedded, kSlurm, kKubernetes)

struct WantedEnvironment {
  Layer layer = Layer::kEmbedded;
  std::string driver{};                // Version or the beginning of one: "535", "535.104"; empty: any.
  std::string runtime{};               // As nodes label themselves: "cuda-12"; empty: any.
  std::vector<std::string> volumes{};  // Each must be offered by the node.
  bool operator==(const WantedEnvironment&) const = default;
};
BOOST_DESCRIBE_STRUCT(WantedEnvironment, (), (layer, driver, runtime, volumes))

}  // namespace tranche::wire
