// SPDX-License-Identifier: Apache-2.0
#include "wire/mount_place.hpp"

#include <doctest/doctest.h>

namespace tranche::wire {
namespace {

using namespace std::string_view_literals;

TEST_CASE("places: a job's own paths may be covered, the platform's never, however they are written") {
  for (const std::string_view path :
       {"/data", "/data/set", "/work/data", "/tmp/x", "/etcetera", "/home/me"}) {
    CAPTURE(path);
    CHECK(may_be_covered(path));
  }
  for (const std::string_view path : {""sv,
                                      "/"sv,
                                      "data"sv,
                                      "/etc"sv,
                                      "/etc/x"sv,
                                      "/usr/lib"sv,
                                      "/run/tranche"sv,
                                      "/dev/shm"sv,
                                      "/work"sv,
                                      "/tmp"sv,
                                      "//etc"sv,
                                      "/data/"sv,
                                      "/data//x"sv,
                                      "/./etc"sv,
                                      "/a/../etc"sv,
                                      "/a/.."sv,
                                      "/a\0b"sv}) {
    CAPTURE(path);
    CHECK_FALSE(may_be_covered(path));
  }
}

}  // namespace
}  // namespace tranche::wire
