// SPDX-License-Identifier: Apache-2.0
#include "agent/spool.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include "agent/files.hpp"

namespace tranche::agent {
namespace {

struct Place {
  std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("tranche-spool-" + std::to_string(::getpid()));
  Place() { std::filesystem::remove(file); }
  ~Place() { std::filesystem::remove(file); }
};

wire::LeaseReport report(std::uint64_t lease) {
  return {.lease = {lease}, .epoch = 1, .state = wire::LeaseState::kRunning};
}

TEST_CASE("spool: what was added is there after a restart, until it is acknowledged") {
  const Place place;
  {
    Spool spool(place.file);
    CHECK(spool.add(report(1)) == 1);
    CHECK(spool.add(report(2)) == 2);
    CHECK(spool.add(report(3)) == 3);
    spool.acknowledge(1);
    spool.received(9);
  }
  Spool again(place.file);
  REQUIRE(again.waiting().size() == 2);
  CHECK(again.waiting().front().sequence == 2);
  CHECK(*wire::decode<wire::LeaseReport>(again.waiting().front().body) == report(2));
  CHECK(again.received() == 9);
  CHECK(again.add(report(4)) == 4);
}

TEST_CASE("spool: sequences go on even when everything was acknowledged") {
  const Place place;
  {
    Spool spool(place.file);
    spool.add(report(1));
    spool.acknowledge(1);
  }
  Spool again(place.file);
  CHECK(again.waiting().empty());
  CHECK(again.add(report(2)) == 2);
}

TEST_CASE("spool: every torn end is cut off, and what was whole before it stays") {
  const Place place;
  {
    Spool spool(place.file);
    spool.add(report(1));
  }
  const std::string whole = *read_whole(place.file);
  {
    Spool spool(place.file);
    spool.add(report(2));
  }
  const std::string longer = *read_whole(place.file);
  REQUIRE(longer.size() > whole.size());
  for (std::size_t cut = whole.size(); cut < longer.size(); ++cut) {
    write_whole(place.file, std::string_view(longer).substr(0, cut), 0600);
    Spool spool(place.file);
    CHECK(spool.waiting().size() == 1);
    CHECK(spool.add(report(3)) == 2);
  }
}

TEST_CASE("spool: a byte that changed ends what is believed") {
  const Place place;
  {
    Spool spool(place.file);
    spool.add(report(1));
  }
  std::string content = *read_whole(place.file);
  content.back() = static_cast<char>(content.back() ^ 1);
  write_whole(place.file, content, 0600);
  Spool again(place.file);
  CHECK(again.waiting().empty());
}

TEST_CASE("spool: a server that has seen more than this disk knows moves the sequence on") {
  const Place place;
  Spool spool(place.file);
  spool.skip_past(40);
  CHECK(spool.add(report(1)) == 41);
  spool.acknowledge(99);  // More than was ever sent is not believed.
  CHECK(spool.acknowledged() == 41);
}

TEST_CASE("spool: a long life leaves a small file") {
  const Place place;
  Spool spool(place.file);
  for (std::uint64_t i = 1; i <= 30'000; ++i) spool.acknowledge(spool.add(report(i)));
  CHECK(std::filesystem::file_size(place.file) < 1'200'000);
  CHECK(Spool(place.file).add(report(1)) == 30'001);
}

}  // namespace
}  // namespace tranche::agent
