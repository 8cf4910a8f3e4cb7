"""What the tests of the guard on the simulated device share: a scratch folder, checks, and small CUDA programs."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

root = pathlib.Path(__file__).resolve().parent.parent
build = pathlib.Path(os.environ.get("TRANCHE_BUILD_DIR", root / "build/dev"))
standin = build / "standin"
scratch = tempfile.TemporaryDirectory(prefix="tranche-guard-")
folder = pathlib.Path(scratch.name)


def memory_folder():
    """Where the simulated devices keep their VRAM: in memory where there is room, because a disk writes all of it back."""
    shared = pathlib.Path("/dev/shm")
    roomy = shared.is_dir() and os.access(shared, os.W_OK) and shutil.disk_usage(shared).free >= 6 << 30
    return tempfile.TemporaryDirectory(prefix="tranche-vram-", dir=shared if roomy else None)


vram = memory_folder()
passed = failed = 0
MIB = 1 << 20


def check(claim: str, holds, detail="") -> None:
    global passed, failed
    if holds:
        passed += 1
    else:
        failed += 1
        print(f"FAILED {claim} {detail}", flush=True)


def finish() -> None:
    print(f"{passed} passed, {failed} failed, 0 skipped")
    raise SystemExit(bool(failed))


def environment(device: str, **more) -> dict:
    return {**os.environ, "TRANCHE_STANDIN": str(pathlib.Path(vram.name) / device), "LD_LIBRARY_PATH": str(standin),
            "TRANCHE_GUARD_LIBRARY": str(build / "libtranche-guard.so"), **more}


def guard_command(options, command, broker="broker.sock"):
    return [build / "tranche", "guard", "run", "--socket", folder / broker, *options, "--", *command]


def run(device, options, command, timeout=120, **more):
    return subprocess.run(guard_command(options, command), env=environment(device, **more), text=True, timeout=timeout,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def start(device, options, command, broker="broker.sock", **more):
    return subprocess.Popen(guard_command(options, command, broker), env=environment(device, **more), text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def guard(device, *words, broker="broker.sock"):
    """`tranche guard WORDS` on the broker of this test."""
    return subprocess.run([build / "tranche", "guard", *words, "--socket", folder / broker], text=True, timeout=120,
                          env=environment(device), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def top(device, name, broker="broker.sock") -> list:
    """The words of a tenant's row in `guard top`; empty when there is none."""
    for line in guard(device, "top", "--once", broker=broker).stdout.splitlines():
        if line.split()[:1] == [name]:
            return line.split()
    return []


def device_stats(device) -> dict:
    return json.loads(subprocess.run([standin / "standin_stats", "1"], env=environment(device), text=True,
                                     stdout=subprocess.PIPE).stdout)


def driver_calls(device, name) -> int:
    """How often the driver itself was called so, by all processes."""
    return sum(process["calls"].get(name, 0) for process in device_stats(device)["processes"])


def eventually(holds, seconds=60) -> bool:
    """A fact that comes true at some load or other; only one that never does fails."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def probe(source: str, *libraries) -> pathlib.Path:
    """A small C program against the stand-in's header, linked to the driver like any CUDA program."""
    name = folder / f"probe{abs(hash(source))}"
    text = '#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n' \
           '#include <signal.h>\n#include <string.h>\n#include "standin_cuda.h"\n#include "standin_cuda_calls.h"\n' \
           '#define DEVICE CUcontext c; CUdevice d; cuInit(0); cuDeviceGet(&d,0); cuCtxCreate_v2(&c,0,d);\n' + source
    name.with_suffix(".c").write_text(text)
    subprocess.run(["cc", "-O1", f"-I{root / 'tests/standin'}", name.with_suffix(".c"), "-o", name, f"-L{standin}",
                    "-lcuda", "-ldl", "-lpthread", *libraries], check=True)
    return name
