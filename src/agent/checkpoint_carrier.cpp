// SPDX-License-Identifier: Apache-2.0
#include "agent/checkpoint_carrier.hpp"

#include <algorithm>
#include <stdexcept>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "agent/checkpoint_archive.hpp"
#include "agent/files.hpp"
#include "net/digest.hpp"
#include "wire/codec.hpp"

namespace tranche::agent {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPiece = 512 * 1024;
constexpr auto kPatience = 30min;  // For a node that sends, or comes back.
constexpr auto kFirstPause = 50ms, kLongestPause = 1000ms;
constexpr const char* kPath = "/v1/agent/checkpoint?lease=";

// In front of the folder: what of it the job said is whole.
std::string notes_in_front(const CheckpointNotes& notes) {
  std::string record;
  wire::encode(record, wire::ProgressReport{.checkpoints = notes});
  return std::to_string(record.size()) + "\n" + record;
}

// The other way round; false while it is not here as a whole.
bool take_notes(std::string& pending, CheckpointNotes& notes) {
  const auto line = pending.find('\n');
  if (line == std::string::npos) return false;
  const std::size_t size = std::stoul(pending.substr(0, line));
  if (pending.size() < line + 1 + size) return false;
  auto read = wire::decode<wire::ProgressReport>(pending.substr(line + 1, size));
  if (!read) throw std::runtime_error("checkpoint: what is known of it is damaged");
  notes = std::move(read->checkpoints);
  pending.erase(0, line + 1 + size);
  return true;
}

enum class Arrival { kWhole, kGone };

// From one node, into a folder that is there. Throws std::runtime_error with what is wrong.
Arrival receive(net::Client& client,
                const GatherWish& wish,
                const wire::CheckpointSource& source,
                const std::filesystem::path& folder,
                const std::function<bool()>& is_wanted,
                CheckpointNotes& notes,
                std::string& why_gone) {
  ArchiveReader reader(folder, wish.owner);
  net::Sha256 hash;
  std::string pending;
  bool has_notes = false;
  std::chrono::milliseconds pause = kFirstPause;
  const auto until = std::chrono::steady_clock::now() + kPatience;
  for (std::uint64_t offset = 0;;) {
    const auto answer = client.get(kPath + text(wish.lease) + "&source=" + text(source.lease) +
                                   "&offset=" + std::to_string(offset));
    if (!answer) throw std::runtime_error("the checkpoint could not be fetched: " + answer.error().message);
    if (answer->status == 410) {
      why_gone = answer->body;
      return Arrival::kGone;
    }
    if (answer->status == 202) {
      if (!is_wanted()) throw std::runtime_error("the lease ended while its checkpoint was on its way");
      if (std::chrono::steady_clock::now() > until)
        throw std::runtime_error("the checkpoint did not come: " + answer->body);
      std::this_thread::sleep_for(pause);
      pause = std::min<std::chrono::milliseconds>(pause * 2, kLongestPause);
      continue;
    }
    if (answer->status != 200) throw std::runtime_error("the checkpoint cannot be had: " + answer->body);
    if (answer->body.empty()) {
      if (!reader.is_whole() || hash.hex() != answer->header("X-Tranche-Digest"))
        throw std::runtime_error("the checkpoint came damaged");
      return Arrival::kWhole;
    }
    hash.add(answer->body);
    offset += answer->body.size();
    if (has_notes) {
      reader.feed(answer->body);
      continue;
    }
    pending += answer->body;
    has_notes = take_notes(pending, notes);
    if (has_notes) reader.feed(std::exchange(pending, {}));
  }
}

// What is on this node already, beside what comes from others.
void copy_own(const Checkpoints& saved, const std::filesystem::path& into, unsigned owner) {
  ArchiveWriter writer(saved.folder());
  ArchiveReader reader(into, owner);
  for (std::string piece = writer.next(kPiece); !piece.empty(); piece = writer.next(kPiece))
    reader.feed(piece);
}

void add_resume(const Checkpoints& saved, Gathered& out) {
  const Checkpoints::Resume resume = saved.last_good();
  for (const std::string& name : resume.damaged)
    out.lines.push_back("checkpoint " + name + " is not what it was: it is passed over");
  out.resume = resume.name;
}

}  // namespace

std::string send_checkpoint(const net::ClientOptions& server, const Checkpoints& saved, LeaseId lease) {
  const std::string path = kPath + text(lease);
  net::Client client(server);
  const auto post = [&](const std::string& query, std::string body) -> std::string {
    const auto answer = client.request("POST", path + query, {}, std::move(body));
    if (!answer) return answer.error().message;
    return answer->status == 200 ? "" : answer->body;
  };
  try {
    ArchiveWriter writer(saved.folder());
    net::Sha256 hash;
    std::uint64_t offset = 0;
    std::string piece = notes_in_front(saved.notes());
    for (; !piece.empty(); piece = writer.next(kPiece)) {
      hash.add(piece);
      const std::uint64_t at = std::exchange(offset, offset + piece.size());
      if (std::string problem = post("&offset=" + std::to_string(at), std::move(piece)); !problem.empty())
        return problem;
    }
    return post("&offset=" + std::to_string(offset) + "&digest=" + hash.hex(), "");
  } catch (const std::runtime_error& error) {
    static_cast<void>(post("&problem=" + net::percent_encode(error.what()), ""));
    return error.what();
  }
}

Gathered gather_checkpoints(const net::ClientOptions& server,
                            const Checkpoints& saved,
                            const GatherWish& wish,
                            const std::function<bool()>& is_wanted) {
  Gathered out;
  const bool is_here = std::any_of(
      wish.sources.begin(), wish.sources.end(), [](const auto& source) { return source.is_here; });
  const bool is_done = saved.attempt() == wish.attempt || (is_here && wish.sources.size() == 1);
  try {
    if (!is_done && !wish.sources.empty()) {
      const std::filesystem::path fresh = saved.new_folder();
      remove_tree(fresh);
      make_folder(fresh, 0700);
      if (wish.owner != 0 && ::chown(fresh.c_str(), wish.owner, wish.owner) != 0)
        throw std::runtime_error("cannot hand the checkpoint folder to the job's user");
      net::Client client(server);
      CheckpointNotes notes;
      // The first member's files count most, so they come last.
      for (auto source = wish.sources.rbegin(); source != wish.sources.rend(); ++source) {
        if (source->is_here) {
          copy_own(saved, fresh, wish.owner);
          notes = saved.notes();
          continue;
        }
        std::string why;
        if (receive(client, wish, *source, fresh, is_wanted, notes, why) == Arrival::kWhole)
          out.lines.push_back("its checkpoint was brought here from node " + source->node);
        else
          out.lines.push_back(why + ": it goes on without what was saved there");
      }
      saved.replace(fresh);
      saved.set_notes(notes);
    }
    saved.set_attempt(wish.attempt);
    add_resume(saved, out);
  } catch (const std::exception& error) {
    remove_tree(saved.new_folder());
    out.problem = error.what();
  }
  return out;
}

}  // namespace tranche::agent
