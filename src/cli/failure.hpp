// SPDX-License-Identifier: Apache-2.0
#pragma once
// Failure: why a command ends early, as at most three lines for a person and an exit code for a script.
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "cli/output.hpp"
#include "net/client.hpp"
#include "wire/api_job.hpp"

namespace tranche::cli {

class Failure : public std::exception {
 public:
  // What happened; why, or what would help; where to look further. More than three lines is a bug.
  Failure(Exit code, std::vector<std::string> lines);
  [[nodiscard]] Exit code() const { return code_; }
  [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }
  [[nodiscard]] const char* what() const noexcept override { return lines_.empty() ? "" : lines_[0].c_str(); }
  // "tranche: …\n" and the rest indented below it. Empty for a quiet end (--explain-api).
  [[nodiscard]] std::string text() const;

 private:
  Exit code_;
  std::vector<std::string> lines_;
};

// A usage failure about one option; whoever reports it adds where the help of the command is.
class WrongValue : public Failure {
 public:
  WrongValue(const std::string& option, const std::string& why) : Failure(kUsage, {option + ": " + why}) {}
};

// A command that has done its work ends with a code of its own (`run --wait`), or early with kOk.
Failure quiet_end(Exit code);
Failure usage_failure(std::string what, std::string next = {});

Exit exit_code_of(const wire::ProblemDetails& problem);
Failure failure_of(const wire::ProblemDetails& problem);
Failure failure_of(const net::ClientFault& fault, std::string_view server);

}  // namespace tranche::cli
