#!/usr/bin/env python3
"""The guard's own declarations of driver structures lie where the driver's are: compared, by the compiler, with the
header of a CUDA toolkit where one is installed, and always with the stand-in's header."""
import pathlib
import subprocess
import tempfile

root = pathlib.Path(__file__).resolve().parent.parent
# Guard's structure, the driver's, and pairs of members that must lie at the same place.
LAYOUTS = {
    "LaunchConfig": ("CUlaunchConfig", "grid:gridDimX block:blockDimX shared_bytes:sharedMemBytes stream:hStream"),
    "MultiDeviceLaunch": ("CUDA_LAUNCH_PARAMS", "function:function grid:gridDimX block:blockDimX stream:hStream"),
    "Copy2D": ("CUDA_MEMCPY2D", "source_type:srcMemoryType source_pitch:srcPitch target_type:dstMemoryType "
                                "target_array:dstArray width_bytes:WidthInBytes height:Height"),
    "Copy3D": ("CUDA_MEMCPY3D", "source_type:srcMemoryType source_host:srcHost source_pitch:srcPitch "
                                "source_height:srcHeight target_x:dstXInBytes target_y:dstY target_z:dstZ "
                                "target_type:dstMemoryType target_array:dstArray width_bytes:WidthInBytes depth:Depth"),
    "Copy3DPeer": ("CUDA_MEMCPY3D_PEER", "width_bytes:WidthInBytes height:Height depth:Depth"),
    "ArrayDescriptor": ("CUDA_ARRAY_DESCRIPTOR", "width:Width height:Height format:Format channels:NumChannels"),
    "Array3DDescriptor": ("CUDA_ARRAY3D_DESCRIPTOR", "width:Width depth:Depth format:Format channels:NumChannels flags:Flags"),
    "AllocationProperties": ("CUmemAllocationProp", "type:type location:location"),
    "AllocNode": ("CUDA_MEM_ALLOC_NODE_PARAMS", "bytes:bytesize pointer:dptr"),
    "FillNode": ("CUDA_MEMSET_NODE_PARAMS", "pointer:dst value:value element_bytes:elementSize width:width height:height"),
    "IpcHandle": ("CUipcMemHandle", ""),
    "MemoryRequirements": ("CUDA_ARRAY_MEMORY_REQUIREMENTS", "size:size alignment:alignment"),
    "ExternalMemory": ("CUDA_EXTERNAL_MEMORY_HANDLE_DESC", "type:type size:size flags:flags"),
}
NUMBERS = {"kOutOfMemory": "CUDA_ERROR_OUT_OF_MEMORY", "kNoDevice": "CUDA_ERROR_NO_DEVICE",
           "kNotReady": "CUDA_ERROR_NOT_READY", "kNotSupported": "CUDA_ERROR_NOT_SUPPORTED",
           "kHostMemory": "CU_MEMORYTYPE_HOST", "kArrayMemory": "CU_MEMORYTYPE_ARRAY",
           "kLocationDevice": "CU_MEM_LOCATION_TYPE_DEVICE", "kGraphNodeMemAlloc": "CU_GRAPH_NODE_TYPE_MEM_ALLOC",
           "kPoolReleaseThreshold": "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD", "kStreamNonBlocking": "CU_STREAM_NON_BLOCKING"}


def source(header: pathlib.Path) -> str:
    text = header.read_text(errors="replace")
    lines = [f'#include "{header}"', '#include "guard/cuda/driver_types.hpp"', "namespace g = tranche::guard::cuda;"]
    for ours, (theirs, members) in LAYOUTS.items():
        if theirs not in text:
            continue
        lines.append(f'static_assert(sizeof(g::{ours}) == sizeof({theirs}), "{ours}: size");')
        for pair in members.split():
            a, b = pair.split(":")
            lines.append(f'static_assert(offsetof(g::{ours}, {a}) == offsetof({theirs}, {b}), "{ours}: {a}");')
    lines += [f'static_assert(static_cast<int>(g::{a}) == static_cast<int>({b}), "{a}");'
              for a, b in NUMBERS.items() if b in text]
    return "\n".join(lines) + "\n"


def main() -> int:
    passed = failed = skipped = 0
    toolkits = sorted(pathlib.Path("/usr/local").glob("cuda*/include/cuda.h")) + [pathlib.Path("/usr/include/cuda.h")]
    headers = [root / "tests/standin/standin_cuda.h"] + [path for path in toolkits if path.exists()]
    if len(headers) == 1:
        skipped += 1
        print("[skipped] no CUDA toolkit is installed: only the stand-in's header is compared")
    for header in headers:
        with tempfile.NamedTemporaryFile("w", suffix=".cpp") as file:
            file.write(source(header))
            file.flush()
            made = subprocess.run(["c++", "-std=c++20", "-fsyntax-only", f"-I{root / 'src'}", file.name], text=True,
                                  stderr=subprocess.PIPE)
        wrong = [line for line in made.stderr.splitlines() if "error" in line]
        passed += not wrong
        failed += bool(wrong)
        for line in wrong:
            print(f"FAILED {header.name}: {line.split('error: ')[-1]}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return bool(failed)


raise SystemExit(main())
