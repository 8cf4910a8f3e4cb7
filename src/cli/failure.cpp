// SPDX-License-Identifier: Apache-2.0
#include "cli/failure.hpp"

#include "base/check.hpp"
#include "wire/amount_text.hpp"

namespace tranche::cli {
namespace {

std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  return text;
}

// Nothing is used up of what each job may have.
bool is_of_one_job(std::string_view rule) {
  return rule.starts_with("per_job.") || rule == "wall_time_max" || rule == "priority_max";
}

// Which rule it was, and where its numbers stand: limit, used, asked, in the unit of the rule.
std::string rule_text(const wire::Refusal& refusal) {
  std::string text = refusal.rule;
  if (!refusal.where.empty() && !refusal.rule.empty()) text += " of " + refusal.where;
  if (refusal.limit == 0 && refusal.used == 0 && refusal.asked == 0)
    return text.empty() || text.starts_with("rule '") ? text : "rule: " + text;
  text += ": limit " + wire::amount_text(refusal.rule, refusal.limit);
  if (!is_of_one_job(refusal.rule)) text += ", used " + wire::amount_text(refusal.rule, refusal.used);
  text += ", asked " + wire::amount_text(refusal.rule, refusal.asked);
  return text;
}

std::string reference_text(const wire::ProblemDetails& problem) {
  std::string text = problem.type.empty() ? "HTTP " + std::to_string(problem.status) : problem.type;
  if (!problem.request_id.empty()) text += ", request " + problem.request_id;
  return text;
}

}  // namespace

Failure::Failure(Exit code, std::vector<std::string> lines) : code_(code), lines_(std::move(lines)) {
  TRANCHE_CHECK(lines_.size() <= 3);
}

std::string Failure::text() const {
  std::string out;
  for (const std::string& line : lines_) {
    out += out.empty() ? "tranche: " : "  ";
    out += line;
    out += '\n';
  }
  return out;
}

Failure quiet_end(Exit code) {
  return {code, {}};
}

Failure usage_failure(std::string what, std::string next) {
  std::vector<std::string> lines{std::move(what)};
  if (!next.empty()) lines.push_back(std::move(next));
  return {kUsage, std::move(lines)};
}

Exit exit_code_of(const wire::ProblemDetails& problem) {
  for (const wire::Refusal& refusal : problem.reasons) {
    switch (refusal.reason) {
      case wire::Reason::kQuota:
      case wire::Reason::kPolicy:
      case wire::Reason::kBudget:
        return kRefused;
      default:
        break;
    }
  }
  if (problem.type.ends_with("no-capacity")) return kNoCapacity;
  switch (problem.status) {
    case 400:
    case 405:
    case 413:
    case 415:
    case 422:
      return kUsage;
    case 401:
    case 403:
      return kForbidden;
    case 404:
      return kNotFound;
    case 409:
    case 412:
    case 428:
      return kConflict;
    case 502:
    case 503:
    case 504:
      return kUnreachable;
    default:
      return kOther;
  }
}

Failure failure_of(const wire::ProblemDetails& problem) {
  std::string what, why, next = problem.fix;
  if (!problem.reasons.empty()) {
    const wire::Refusal& first = problem.reasons.front();
    what = first.message;
    why = rule_text(first);
    if (next.empty()) next = first.fix;
  }
  if (what.empty()) what = problem.detail;
  if (what.empty()) what = problem.title.empty() ? "the server refused" : problem.title;
  if (problem.status == 401) next = "log in: tranche login URL --token TOKEN";
  std::vector<std::string> lines{one_line(what)};
  if (!why.empty() && !next.empty()) why += "; ";
  if (const std::string more = why + (next.empty() ? "" : "next: " + next); !more.empty()) {
    lines.push_back(one_line(more));
  }
  lines.push_back(one_line("(" + reference_text(problem) + ")"));
  return {exit_code_of(problem), std::move(lines)};
}

Failure failure_of(const net::ClientFault& fault, std::string_view server) {
  std::string next;
  switch (fault.kind) {
    case net::FaultKind::kUnreachable:
      next = "is it running? start one with: tranche up; or name another with --server URL";
      break;
    case net::FaultKind::kTlsRefused:
      next = "give the server's authority: tranche login URL --ca-file ca.pem";
      break;
    case net::FaultKind::kTimedOut:
    case net::FaultKind::kBroken:
      next = "try again; a change that was sent takes effect once. Check with: tranche doctor";
      break;
  }
  return {kUnreachable, {one_line("no answer from " + std::string(server) + ": " + fault.message), next}};
}

}  // namespace tranche::cli
