// SPDX-License-Identifier: Apache-2.0
#pragma once
// A fuzz target takes any bytes and aborts when a promise is broken. With preset fuzz each becomes a
// libFuzzer binary; elsewhere the replay driver runs its corpus and random changes of it.
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tranche::fuzz {

using Target = void (*)(std::string_view input);

void fuzz_json(std::string_view input);
void fuzz_job_file(std::string_view input);
void fuzz_gpu_string(std::string_view input);
void fuzz_record(std::string_view input);
void fuzz_journal_record(std::string_view input);
void fuzz_http(std::string_view input);
void fuzz_image(std::string_view input);

}  // namespace tranche::fuzz

#ifdef TRANCHE_LIBFUZZER
#define TRANCHE_FUZZ_ENTRY(target)                                                      \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {   \
    tranche::fuzz::target(std::string_view(reinterpret_cast<const char*>(data), size)); \
    return 0;                                                                           \
  }                                                                                     \
  static_assert(true)
#else
#define TRANCHE_FUZZ_ENTRY(target) static_assert(true)
#endif
