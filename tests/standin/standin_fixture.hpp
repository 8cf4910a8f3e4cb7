// SPDX-License-Identifier: Apache-2.0
#pragma once
// One simulated device for this test program, and fresh ones for programs it starts.
#include <string>

#include "standin_cuda.h"

namespace standin_test {

// The device of this process: 256 MiB, 5 ms event lag. The first call makes it and opens a context.
CUcontext device();
CUfunction kernel(const std::string& name);
CUstream new_stream(unsigned flags = CU_STREAM_NON_BLOCKING);
CUevent new_event();
void launch(CUfunction function, CUstream stream, void** arguments = nullptr);
double elapsed_ms(CUevent from, CUevent to);
std::size_t free_bytes();

// A directory with a configuration for other processes; removed at the end of the program.
std::string fresh_state(const std::string& settings);
struct Outcome {
  int status = -1;
  std::string text;
};
// Runs a client program against a state; waits for it.
Outcome run(const std::string& state, const std::string& command);
// A number out of a flat JSON line; -1 when it is not there.
double number(const std::string& json, const std::string& name);

}  // namespace standin_test
