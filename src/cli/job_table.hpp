// SPDX-License-Identifier: Apache-2.0
#pragma once
// Jobs as rows. Ten thousand of them are read and printed while a person blinks.
#include <string>
#include <string_view>
#include <vector>

#include "base/time.hpp"
#include "cli/output.hpp"
#include "wire/api_job.hpp"

namespace tranche::cli {

Table job_table(const std::vector<wire::JobView>& jobs, Instant now);

// One page of the API straight to rows: no more than one job is held at a time.
class JobTable {
 public:
  JobTable(Instant now, Show most);
  void add(const wire::JobView& job);
  // Adds at most `most` jobs of a page. Throws Failure when it makes no sense.
  void add_page(std::string_view body, std::size_t most);
  [[nodiscard]] Table take() { return std::move(table_); }
  [[nodiscard]] std::size_t rows() const { return table_.rows(); }

 private:
  Instant now_;
  Show most_;
  Table table_;
};

std::string job_names(const std::vector<wire::JobView>& jobs);
std::string job_detail_text(const wire::JobDetail& detail, Instant now);

}  // namespace tranche::cli
