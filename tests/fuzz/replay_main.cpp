// SPDX-License-Identifier: Apache-2.0
// Runs every fuzz target on its corpus and on random changes of it, without libFuzzer.
//   fuzz_replay CORPUS_FOLDER [CHANGES] [SEED]    TRANCHE_LONG=1: a hundred times as many changes
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "target.hpp"

namespace tranche::fuzz {
namespace {

const std::map<std::string, Target>& targets() {
  static const std::map<std::string, Target> known{{"json", fuzz_json},
                                                   {"job_file", fuzz_job_file},
                                                   {"gpu_string", fuzz_gpu_string},
                                                   {"record", fuzz_record},
                                                   {"journal_record", fuzz_journal_record},
                                                   {"http", fuzz_http},
                                                   {"image", fuzz_image}};
  return known;
}

std::vector<std::string> corpus(const std::filesystem::path& folder) {
  std::map<std::filesystem::path, std::string> files;  // In order of names: the same run everywhere.
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ostringstream bytes;
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    files[entry.path()] = bytes.str();
  }
  std::vector<std::string> out;
  for (auto& [path, bytes] : files) out.push_back(std::move(bytes));
  return out;
}

std::string_view current_input;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

// The last words of a broken promise: what to put into the corpus.
void print_input(int) {
  std::fputs("input in hex: ", stderr);
  for (const char c : current_input) std::fprintf(stderr, "%02x", static_cast<unsigned char>(c));
  std::fputs("\n", stderr);
}

std::string changed(const std::vector<std::string>& seeds, Random& random) {
  std::string out = seeds[random.below(seeds.size())];
  for (std::uint64_t steps = 1 + random.below(6); steps > 0; --steps) {
    const std::size_t at = random.below(out.size() + 1);
    const std::string& other = seeds[random.below(seeds.size())];
    const std::size_t from = random.below(other.size() + 1);
    switch (random.below(6)) {
      case 0:
        if (at < out.size()) out[at] = static_cast<char>(out[at] ^ static_cast<char>(1U << random.below(8)));
        break;
      case 1:
        if (at < out.size()) out[at] = static_cast<char>(random.next());
        break;
      case 2:
        out.erase(at, 1 + random.below(8));
        break;
      case 3:
        out.insert(at, 1 + random.below(4), static_cast<char>(random.next()));
        break;
      case 4:
        out.insert(at, other, from, random.below(24));
        break;
      default:
        out = out.substr(0, at) + other.substr(from);
    }
  }
  return out;
}

}  // namespace
}  // namespace tranche::fuzz

int main(int argc, char** argv) {
  using namespace tranche;
  if (argc < 2) return std::fputs("usage: fuzz_replay CORPUS_FOLDER [CHANGES] [SEED]\n", stderr), 2;
  std::uint64_t changes = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 3000;
  const std::uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  if (std::getenv("TRANCHE_LONG") != nullptr) changes *= 100;
  std::signal(SIGABRT, fuzz::print_input);
  int passed = 0;
  for (const auto& [name, target] : fuzz::targets()) {
    const auto seeds = fuzz::corpus(std::filesystem::path(argv[1]) / name);
    if (seeds.empty())
      return std::printf("%s has no corpus\n0 passed, 1 failed, 0 skipped\n", name.c_str()), 1;
    for (const std::string& input : seeds) {
      fuzz::current_input = input;
      target(input);
    }
    for (std::uint64_t i = 0; i < changes; ++i) {
      Random random(seed * 1'000'003 + i);
      const std::string input = fuzz::changed(seeds, random);
      fuzz::current_input = input;
      target(input);
    }
    std::printf("%s: %zu inputs and %llu changes, seed %llu\n",
                name.c_str(),
                seeds.size(),
                static_cast<unsigned long long>(changes),
                static_cast<unsigned long long>(seed));
    ++passed;
  }
  std::printf("%d passed, 0 failed, 0 skipped\n", passed);
  return 0;
}
