// SPDX-License-Identifier: Apache-2.0
#include "journal/verify.hpp"

#include <algorithm>
#include <fstream>

#include "journal/anchors.hpp"
#include "journal/error.hpp"
#include "journal/exported_file.hpp"
#include "journal/signing_key.hpp"
#include "journal/sqlite_store.hpp"

namespace tranche::journal {
namespace {

constexpr std::uint64_t kRecordsBetweenReports = 4'096;

// What ends a verification early.
struct Bad {
  std::uint64_t sequence = 0;
  std::string why{};
};
struct Cancelled {};

std::string record(std::uint64_t sequence) {
  return "record " + std::to_string(sequence);
}

bool same(const Checkpoint& one, const Checkpoint& other) {
  return one.sequence == other.sequence && one.head == other.head && one.at == other.at &&
         one.signature == other.signature;
}

// Follows the chain and holds it against everything that was signed.
class Walk {
 public:
  Walk(const VerifyOptions& options, const PublicKey& key, std::uint64_t total)
      : options_(options), key_(key), total_(total) {}

  // Statements of the external copy, oldest first.
  void load_anchors(const std::filesystem::path& file) {
    read_anchors(file, [&](const Checkpoint& anchor) {
      anchors_.push_back(anchor);
      return true;
    });
  }
  void set_total(std::uint64_t total) { total_ = total; }
  void skip_before(std::uint64_t from) {
    good_through_ = from - 1;
    while (next_anchor_ < anchors_.size() && anchors_[next_anchor_].sequence < from) ++next_anchor_;
  }

  void pass(std::uint64_t sequence, const Hash& hash) {
    verification_.records++;
    verification_.head = hash;
    if (verification_.records % kRecordsBetweenReports == 0) report(sequence);
  }

  // A statement met at its record.
  void meet(const Checkpoint& checkpoint, const Hash& hash) {
    const std::string where = "the checkpoint at " + record(checkpoint.sequence);
    if (checkpoint.head != hash) {
      throw Bad{good_through_ + 1,
                "records " + std::to_string(good_through_ + 1) + " to " +
                    std::to_string(checkpoint.sequence) + " were rewritten: " + where + " does not match"};
    }
    if (!signed_by(checkpoint, key_))
      throw Bad{checkpoint.sequence, where + " is not signed by the trusted key"};
    meet_anchors_before(checkpoint.sequence);
    if (next_anchor_ < anchors_.size() && anchors_[next_anchor_].sequence == checkpoint.sequence) {
      if (!same(anchors_[next_anchor_], checkpoint))
        throw Bad{checkpoint.sequence, where + " differs from its anchor"};
      ++next_anchor_;
    }
    good_through_ = checkpoint.sequence;
    verification_.checkpoints++;
    verification_.signed_through = checkpoint.sequence;
  }

  // Anchors up to `sequence` must all have been met as checkpoints by then.
  void meet_anchors_before(std::uint64_t sequence) {
    if (next_anchor_ < anchors_.size() && anchors_[next_anchor_].sequence < sequence) throw_unmet();
  }
  void meet_last_anchors() {
    if (next_anchor_ < anchors_.size()) throw_unmet();
  }

  [[nodiscard]] Verification& result() { return verification_; }

 private:
  [[noreturn]] void throw_unmet() {
    const Checkpoint& anchor = anchors_[next_anchor_];
    if (!signed_by(anchor, key_)) {
      throw Bad{anchor.sequence,
                "the anchor at " + record(anchor.sequence) + " is not signed by the trusted key"};
    }
    if (anchor.sequence > total_) {
      throw Bad{total_ + 1,
                "the journal was cut off after " + record(total_) + ": an anchor vouches for " +
                    record(anchor.sequence)};
    }
    throw Bad{good_through_ + 1,
              "the checkpoint at " + record(anchor.sequence) + " was removed: an anchor vouches for it"};
  }

  void report(std::uint64_t sequence) const {
    if (options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed)) throw Cancelled{};
    if (options_.progress) options_.progress(sequence, total_);
  }

  const VerifyOptions& options_;
  PublicKey key_{};
  std::uint64_t total_ = 0;
  std::uint64_t good_through_ = 0;
  std::vector<Checkpoint> anchors_{};
  std::size_t next_anchor_ = 0;
  Verification verification_{};
};

void walk_store(const Reader& store, std::uint64_t from, std::uint64_t total, Walk& walk) {
  const auto checkpoints = store.checkpoints(from, total);
  auto next = checkpoints.begin();
  store.scan_with_hash(from, total, [&](std::uint64_t sequence, std::string_view, const Hash& hash) {
    walk.pass(sequence, hash);
    for (; next != checkpoints.end() && next->sequence == sequence; ++next) walk.meet(*next, hash);
    return true;
  });
}

// One place turns every way of ending into a Verification.
template <class Check>
Verification outcome_of(Walk& walk, Check&& check) {
  try {
    check();
  } catch (const Bad& bad) {
    walk.result().outcome = Verification::Outcome::kBad;
    walk.result().first_bad = bad.sequence;
    walk.result().why = bad.why;
  } catch (const Corrupt& corrupt) {
    walk.result().outcome = Verification::Outcome::kBad;
    walk.result().first_bad = corrupt.sequence;
    walk.result().why = corrupt.what();
  } catch (const Cancelled&) { walk.result().outcome = Verification::Outcome::kCancelled; }
  return walk.result();
}

void check_mark(const Mark& mark, const Reader& store, std::uint64_t total) {
  if (mark.sequence > total) {
    throw Bad{total + 1,
              "the journal was cut off after " + record(total) + ": records up to " +
                  std::to_string(mark.sequence) + " were acknowledged"};
  }
  if (store.hash_at(mark.sequence) != mark.head)
    throw Bad{mark.sequence, record(mark.sequence) + " is not the one that was acknowledged"};
}

Verification verify_folder(const std::filesystem::path& folder, VerifyOptions options) {
  // What lies outside is read before the journal, which a running server may be extending.
  const auto mark = read_mark(folder);
  if (options.anchor_file.empty() && std::filesystem::exists(folder / "anchors.jsonl"))
    options.anchor_file = folder / "anchors.jsonl";
  if (!options.public_key) options.public_key = load_public_key(folder);
  std::unique_ptr<Reader> store;
  try {
    store = open_sqlite_reader(folder);
    if (!options.public_key) options.public_key = store->public_key();
  } catch (const Corrupt& corrupt) { return {.outcome = Verification::Outcome::kBad, .why = corrupt.what()}; }
  Walk walk(options, *options.public_key, 0);
  return outcome_of(walk, [&] {
    if (!options.anchor_file.empty()) walk.load_anchors(options.anchor_file);
    const std::uint64_t total = store->last_sequence();
    walk.set_total(total);
    walk_store(*store, 1, total, walk);
    walk.meet_last_anchors();
    if (mark) check_mark(*mark, *store, total);
    if (store->public_key() != *options.public_key) throw Bad{0, "the journal belongs to another key"};
  });
}

class ExportWalk {
 public:
  ExportWalk(Walk& walk, const ExportHeader& header, const PublicKey& key)
      : walk_(walk), header_(header), key_(key), hash_(header.previous), next_(header.from) {}

  void take_line(const std::string& line) {
    if (ended_) throw Bad{next_, "there is more after the end of the export"};
    ExportedRecord exported{};
    if (parse_record_line(line, exported)) {
      take_record(exported);
    } else if (const auto checkpoint = parse_checkpoint_line(line)) {
      if (checkpoint->sequence != next_ - 1)
        throw Bad{next_, "a checkpoint is out of place before " + record(next_)};
      walk_.meet(*checkpoint, hash_);
    } else if (const auto seal = parse_end_line(line)) {
      take_end(*seal);
    } else {
      throw Bad{next_, "the line of " + record(next_) + " is damaged"};
    }
  }
  void finish() const {
    if (!ended_) throw Bad{next_, "the export was cut off before " + record(next_)};
  }

 private:
  void take_record(const ExportedRecord& exported) {
    if (exported.sequence != next_)
      throw Bad{next_, record(next_) + " is missing; " + record(exported.sequence) + " stands in its place"};
    const Hash hash = chain_hash(hash_, next_, exported.body);
    if (hash != exported.hash) throw Bad{next_, record(next_) + " is not what was written"};
    hash_ = hash;
    walk_.pass(next_++, hash);
  }
  void take_end(const Checkpoint& seal) {
    if (next_ != header_.to + 1) throw Bad{next_, record(next_) + " is missing"};
    if (seal.sequence != header_.to || seal.head != hash_ || !sealed_by(seal, header_.from, key_))
      throw Bad{next_, "the end of the export is not signed by the trusted key for these records"};
    walk_.result().signed_through = header_.to;
    ended_ = true;
  }

  Walk& walk_;
  ExportHeader header_{};
  PublicKey key_{};
  Hash hash_{};
  std::uint64_t next_ = 1;
  bool ended_ = false;
};

Verification verify_file(const std::filesystem::path& file, const VerifyOptions& options) {
  std::ifstream in(file);
  if (!in) throw DiskFailed("cannot read " + file.string());
  std::string line;
  std::getline(in, line);
  const auto header = parse_header_line(line);
  if (!header || header->from == 0) {
    return {.outcome = Verification::Outcome::kBad,
            .why = file.string() + " does not begin as an exported journal"};
  }
  const PublicKey key = options.public_key.value_or(header->public_key);
  Walk walk(options, key, header->to);
  return outcome_of(walk, [&] {
    if (header->public_key != key) throw Bad{0, "the export belongs to another key"};
    if (header->from == 1 && header->previous != kGenesis)
      throw Bad{1, "the export does not begin at the beginning"};
    if (!options.anchor_file.empty()) walk.load_anchors(options.anchor_file);
    walk.skip_before(header->from);
    ExportWalk exported(walk, *header, key);
    while (std::getline(in, line)) exported.take_line(line);
    exported.finish();
    walk.meet_anchors_before(header->to + 1);
  });
}

}  // namespace

Verification verify(const std::filesystem::path& folder_or_file, const VerifyOptions& options) {
  if (std::filesystem::is_directory(folder_or_file)) return verify_folder(folder_or_file, options);
  return verify_file(folder_or_file, options);
}

Verification verify(const Reader& store, std::uint64_t from, const VerifyOptions& options) {
  from = std::max<std::uint64_t>(from, 1);
  Walk walk(options, options.public_key.value_or(store.public_key()), 0);
  return outcome_of(walk, [&] {
    if (!options.anchor_file.empty()) walk.load_anchors(options.anchor_file);
    walk.skip_before(from);
    const std::uint64_t total = store.last_sequence();
    walk.set_total(total);
    walk_store(store, from, total, walk);
    walk.meet_last_anchors();
  });
}

}  // namespace tranche::journal
