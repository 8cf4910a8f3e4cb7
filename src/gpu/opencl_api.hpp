// SPDX-License-Identifier: Apache-2.0
#pragma once
// The calls of OpenCL that we use, from whatever loader is on the machine, and its devices with the names by
// which the rest of the platform knows them.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <memory>
#include <string>
#include <vector>

#include "wire/agent_message.hpp"

namespace tranche::gpu {

struct OpenClApi {
  decltype(&clGetPlatformIDs) platforms = nullptr;
  decltype(&clGetPlatformInfo) platform_info = nullptr;
  decltype(&clGetDeviceIDs) devices = nullptr;
  decltype(&clGetDeviceInfo) device_info = nullptr;
  decltype(&clCreateContext) create_context = nullptr;
  decltype(&clReleaseContext) release_context = nullptr;
  decltype(&clCreateCommandQueue) create_queue = nullptr;
  decltype(&clReleaseCommandQueue) release_queue = nullptr;
  decltype(&clCreateProgramWithSource) create_program = nullptr;
  decltype(&clBuildProgram) build_program = nullptr;
  decltype(&clGetProgramBuildInfo) build_info = nullptr;
  decltype(&clReleaseProgram) release_program = nullptr;
  decltype(&clCreateKernel) create_kernel = nullptr;
  decltype(&clSetKernelArg) set_argument = nullptr;
  decltype(&clReleaseKernel) release_kernel = nullptr;
  decltype(&clCreateBuffer) create_buffer = nullptr;
  decltype(&clReleaseMemObject) release_buffer = nullptr;
  decltype(&clSetMemObjectDestructorCallback) when_buffer_gone = nullptr;
  decltype(&clEnqueueNDRangeKernel) launch = nullptr;
  decltype(&clEnqueueReadBuffer) read_buffer = nullptr;
  decltype(&clEnqueueWriteBuffer) write_buffer = nullptr;
  decltype(&clEnqueueCopyBuffer) copy_buffer = nullptr;
  decltype(&clEnqueueFillBuffer) fill_buffer = nullptr;
  decltype(&clFinish) finish = nullptr;
};

// nullptr when there is no OpenCL loader on this machine, or it is too old.
const OpenClApi* opencl();

struct OpenClDevice {
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  bool is_cpu = false;
  wire::DeviceFacts facts{};
};
// Every device of every platform, in the loader's order.
std::vector<OpenClDevice> opencl_devices();

}  // namespace tranche::gpu
