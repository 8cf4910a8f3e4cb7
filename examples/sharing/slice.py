# SPDX-License-Identifier: Apache-2.0
"""Works on a slice of an OpenCL device, with nothing but Python's own library: takes memory and writes a pattern of its
own into it, asks for more if told so, computes for a while, and looks whether every byte is still what it wrote.

    HOLD=256 ASK=768 SECONDS=6 python3 slice.py       # MiB
"""
import ctypes
import os
import sys
import time

MIB = 1 << 20
HOLD, ASK, SECONDS = (int(os.environ.get(name, default)) for name, default in (("HOLD", 256), ("ASK", 0), ("SECONDS", 6)))
READ_WRITE, WAIT, GLOBAL_MEMORY = 1, 1, 0x101F
IN_FLIGHT = 8
SOURCE = b"""
kernel void turn(global uint* out, uint rounds) {
  uint x = get_global_id(0) + 1;
  for (uint i = 0; i < rounds; ++i) { x ^= x << 13; x ^= x >> 17; x ^= x << 5; }
  out[get_global_id(0)] = x;
}"""

cl = ctypes.CDLL("libOpenCL.so.1")
for function in ("clCreateContext", "clCreateCommandQueue", "clCreateBuffer", "clCreateProgramWithSource", "clCreateKernel"):
    getattr(cl, function).restype = ctypes.c_void_p


def pointer(value):
    return ctypes.c_void_p(value)


def must(error, what):
    if error != 0:
        sys.exit(f"{what} was refused: OpenCL error {error}")


def made(function, *words):
    """What the function makes, and its error."""
    error = ctypes.c_int(0)
    return pointer(getattr(cl, function)(*words, ctypes.byref(error))), error.value


def open_device():
    platform, device, count = pointer(None), pointer(None), ctypes.c_uint(0)
    must(cl.clGetPlatformIDs(1, ctypes.byref(platform), ctypes.byref(count)), "a platform")
    must(cl.clGetDeviceIDs(platform, ctypes.c_ulong(0xFFFFFFFF), 1, ctypes.byref(device), None), "a device")
    size = ctypes.c_ulong(0)
    must(cl.clGetDeviceInfo(device, GLOBAL_MEMORY, ctypes.c_size_t(8), ctypes.byref(size), None), "its size")
    print(f"my device has {size.value // MIB} MiB")
    context, error = made("clCreateContext", None, 1, ctypes.byref(device), None, None)
    must(error, "a context")
    queue, error = made("clCreateCommandQueue", context, device, ctypes.c_ulong(0))
    must(error, "a queue")
    return device, context, queue


def buffer(context, size):
    return made("clCreateBuffer", context, ctypes.c_ulong(READ_WRITE), ctypes.c_size_t(size), None)


def kernel(device, context):
    program, error = made("clCreateProgramWithSource", context, 1, ctypes.byref(ctypes.c_char_p(SOURCE)), None)
    must(error, "a program")
    must(cl.clBuildProgram(program, 1, ctypes.byref(device), None, None, None), "building it")
    turn, error = made("clCreateKernel", program, b"turn")
    must(error, "a kernel")
    return turn


def compute(queue, turn, out, items, rounds):
    must(cl.clSetKernelArg(turn, 0, ctypes.c_size_t(8), ctypes.byref(out)), "an argument")
    must(cl.clSetKernelArg(turn, 1, ctypes.c_size_t(4), ctypes.byref(ctypes.c_uint(rounds))), "an argument")
    done, end = 0, None
    while end is None or time.monotonic() < end:
        for _ in range(IN_FLIGHT):  # So that the device never waits for this program.
            must(cl.clEnqueueNDRangeKernel(queue, turn, 1, None, ctypes.byref(ctypes.c_size_t(items)), None, 0, None, None), "work")
        must(cl.clFinish(queue), "waiting for it")
        done += IN_FLIGHT
        end = end or time.monotonic() + SECONDS  # The first time includes making the kernel ready.
    got = (ctypes.c_uint * items)()
    must(cl.clEnqueueReadBuffer(queue, out, WAIT, ctypes.c_size_t(0), ctypes.c_size_t(4 * items), got, 0, None, None), "reading")
    for item in range(0, items, 512):  # The same, computed here.
        x = item + 1
        for _ in range(rounds):
            x ^= x << 13 & 0xFFFFFFFF
            x ^= x >> 17
            x ^= x << 5 & 0xFFFFFFFF
        if got[item] != x:
            sys.exit(f"item {item} is {got[item]}, not {x}")
    print(f"computed {done} times, result verified")


def still_ours(queue, held, pattern):
    """Whether every byte of the memory is what this job wrote."""
    piece = 16 * MIB
    wanted = pattern * (piece // len(pattern))
    got = ctypes.create_string_buffer(piece)
    for offset in range(0, HOLD * MIB, piece):
        size = min(piece, HOLD * MIB - offset)
        must(cl.clEnqueueReadBuffer(queue, held, WAIT, ctypes.c_size_t(offset), ctypes.c_size_t(size), got, 0, None, None), "reading")
        if got.raw[:size] != wanted[:size]:
            return False
    return True


def main():
    sys.stdout.reconfigure(line_buffering=True)
    device, context, queue = open_device()
    held, error = buffer(context, HOLD * MIB)
    must(error, f"memory of {HOLD} MiB")
    pattern = os.urandom(4)
    must(cl.clEnqueueFillBuffer(queue, held, pattern, ctypes.c_size_t(4), ctypes.c_size_t(0),
                                ctypes.c_size_t(HOLD * MIB), 0, None, None), "writing")
    must(cl.clFinish(queue), "writing")
    print(f"holds {HOLD} MiB")
    refused = False
    if ASK:
        _, error = buffer(context, ASK * MIB)
        refused = error != 0
        print(f"asked for {ASK} MiB more: " + (f"refused, OpenCL error {error}" if refused else "granted"))
    items = 4096
    out, error = buffer(context, 4 * items)
    must(error, "memory for the result")
    compute(queue, kernel(device, context), out, items, 2000)
    if not still_ours(queue, held, pattern):
        sys.exit("somebody wrote into this job's memory")
    print(f"{HOLD} MiB read back: every byte as written")
    sys.exit(1 if refused else 0)


if __name__ == "__main__":
    main()
