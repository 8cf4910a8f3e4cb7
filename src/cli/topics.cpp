// SPDX-License-Identifier: Apache-2.0
#include "cli/topics.hpp"

#include <array>
#include <string>
#include <string_view>

namespace tranche::cli {
namespace {

struct Topic {
  std::string_view heading{};
  std::string_view commands{};  // With a space between them.
};
constexpr std::array kTopics{
    Topic{"Getting in", "login logout whoami context doctor completion help"},
    Topic{
        "Work",
        "run sbatch ps show why pause resume stop release wait logs results exec cp shell notebook recurring "
        "behaviour size"},
    Topic{"Services", "serve service"},
    Topic{"Storage", "volume"},
    Topic{"Capacity and time", "gpus node top device book maintenance forecast advise sim level"},
    Topic{"Health", "health repair receipts"},
    Topic{"People and limits", "tenant subscriber user service-account role token quota rules sku settings"},
    Topic{"Money and market", "price cost invoice account ledger tax margin market"},
    Topic{"Records", "events audit"},
    Topic{"This machine", "up server agent broker guard"},
};

}  // namespace

void arrange_by_topic(const Command& root) {
  for (const Topic& topic : kTopics) root.gather(std::string(topic.heading), topic.commands);
}

}  // namespace tranche::cli
