#!/usr/bin/env python3
"""The OpenCL front of the guard on a real device (PoCL), with programs that know nothing of it. Each test starts
`tranche guard run` with a broker of its own. Prints `N passed, N failed, N skipped` last."""
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ.get("TRANCHE_BUILD_DIR", "build/dev")).resolve()
PROGRAMS = BUILD / "opencl"
MIB = 1 << 20
folder = tempfile.TemporaryDirectory(prefix="tranche-opencl-")
os.environ["XDG_RUNTIME_DIR"] = folder.name
results = []


def guarded(command, *limits, name="job", **options):
    vram = [] if "--vram" in limits else ["--vram", "64MiB"]
    line = [str(BUILD / "tranche"), "guard", "run", "--name", name, *vram, "--compute", "100%", *limits, "--"]
    return subprocess.Popen([*line, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            **options)


def answer(command, *limits, **options):
    out, err = guarded(command, *limits, **options).communicate(timeout=240)
    lines = [line for line in out.splitlines() if line.startswith("{")]
    return (json.loads(lines[-1]) if lines else {}), out, err


def used(name):
    top = subprocess.run([str(BUILD / "tranche"), "guard", "top", "--once"], text=True, stdout=subprocess.PIPE,
                         timeout=60).stdout
    for line in top.splitlines():
        words = line.split()
        if words and words[0] == name:
            return words[2]
    return None


def check(name, holds, told=""):
    results.append(bool(holds))
    print(f"{'ok' if holds else 'FAILED'}: {name}{'' if holds else f': {told}'}", flush=True)


def memory_is_exact():
    for kind in ("buffer", "image", "svm"):
        got, _, err = answer([PROGRAMS / "cl_memory", "--kind", kind, "--release", "1"])
        check(f"{kind}: the last byte is granted, the next refused with the API's own error",
              got.get("taken") == 64 * MIB and got.get("error") == -4, got)
        check(f"{kind}: the log names limit, use and request",
              f"limit {64 * MIB} bytes, in use {64 * MIB}, asked for {MIB}" in err, err)
    got, _, _ = answer([PROGRAMS / "cl_memory", "--kind", "buffer", "--step", str(64 * MIB + 1)])
    check("buffer: one byte more than the slice is refused", got.get("count") == 0, got)
    got, _, _ = answer([PROGRAMS / "cl_memory", "--kind", "sub", "--step", str(64 * MIB)])
    check("sub-buffer: costs nothing beside its parent", got.get("count", 0) > 1000, got)


def pipes_are_charged_or_not_there():
    line = [PROGRAMS / "cl_memory", "--kind", "pipe", "--most", str(128 * MIB)]
    plain = json.loads(subprocess.run([*map(str, line)], text=True, stdout=subprocess.PIPE, timeout=240).stdout)
    got, _, err = answer(line)
    if plain["count"] == 0:
        check("pipe: a device without pipes says so",
              got.get("error") == plain["error"], (plain, got, err))
    else:
        check("pipe: the last byte is granted, the next refused", got.get("taken") == 64 * MIB, got)


def every_shape_is_right_and_charged():
    """Rectangles, images, local memory: 65,536 bytes hold all that is there at once, so local memory costs nothing."""
    got, _, err = answer([PROGRAMS / "cl_shapes"], "--vram", "65536")
    check("shapes: rectangles, images and local memory give what the host expects",
          [got.get(key) for key in ("rectangles", "images", "local")] == [1, 1, 1], (got, err))
    check("shapes: every copy and fill is charged by its bytes", f"copied {got.get('moved')} bytes" in err, (got, err))


def device_shows_the_slice():
    _, out, _ = answer(["clinfo"])
    check("clinfo: the device has the size of the slice", f"{64 * MIB} (64MiB)" in out, out[:400])


def cannot_be_switched_off():
    icd = pathlib.Path(folder.name) / "vendors"
    icd.mkdir()
    (icd / "guard.icd").write_text(f"{BUILD / 'libtranche-guard.so'}\n")
    bare = ["env", "-u", "LD_PRELOAD", "-u", "OPENCL_LAYERS", f"OCL_ICD_VENDORS={icd}"]
    got, _, _ = answer([*bare, PROGRAMS / "cl_memory"])
    check("as the driver: limits hold with every variable of the guard unset",
          got.get("taken") == 64 * MIB and got.get("total") == 64 * MIB, got)
    got, _, _ = answer(["env", f"OCL_ICD_VENDORS={icd}", PROGRAMS / "cl_memory"])
    check("as the driver and as a layer: nothing is charged twice", got.get("taken") == 64 * MIB, got)
    alone = subprocess.run([*bare, str(PROGRAMS / "cl_memory")], text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=120)
    check("without a broker there is no device", alone.returncode != 0 and "gets no device" in alone.stderr, alone.stderr)


def measuring_is_not_seen():
    plain = subprocess.run([str(PROGRAMS / "cl_questions")], text=True, stdout=subprocess.PIPE, timeout=240).stdout
    got, _, err = answer([PROGRAMS / "cl_questions"])
    check("queues, timestamps, events and references answer as without the guard", got == json.loads(plain), (got, err))


def pause_gives_back(sharing):
    arguments = [PROGRAMS / "cl_steps", "--steps", "60", "--mib", "8", "--step-ms", "20"]
    expected = subprocess.run([*map(str, arguments[:1]), "--steps", "60", "--mib", "8", "--step-ms", "1"], text=True,
                              stdout=subprocess.PIPE, timeout=240).stdout.splitlines()[-1]
    neighbour = guarded([PROGRAMS / "cl_steps", "--steps", "100000", "--mib", "1", "--step-ms", "50"],
                        name="neighbour") if sharing else None
    if neighbour:
        neighbour.stdout.readline()
    job = guarded(arguments, name="paused")
    job.stdout.readline()
    before = used("paused")
    change = [str(BUILD / "tranche"), "guard", "limit", "paused", "--pause"]
    subprocess.run([*change, "on"], check=True, timeout=60)
    after, until = None, time.monotonic() + 60
    while time.monotonic() < until and after != "0B":
        after = used("paused")
    subprocess.run([*change, "off"], check=True, timeout=60)
    out, err = job.communicate(timeout=240)
    where = "beside a neighbour" if sharing else "alone"
    check(f"pause {where}: all memory is given back", before not in ("0B", None) and after == "0B", (before, after, err))
    check(f"pause {where}: the result is identical", out.splitlines()[-1] == expected, (out, expected, err))
    if neighbour:
        neighbour.terminate()
        neighbour.communicate(timeout=60)


def resume_says_what_it_waits_for():
    job = guarded([PROGRAMS / "cl_steps", "--steps", "20", "--mib", "8", "--step-ms", "20"], name="waits")
    job.stdout.readline()

    def change(*words):
        subprocess.run([str(BUILD / "tranche"), "guard", *words], check=True, timeout=60, stdout=subprocess.PIPE)
    change("pause", "waits")
    change("limit", "waits", "--vram", "4MiB")
    change("resume", "waits")
    told = ""
    while "resume waits" not in told and select.select([job.stderr], [], [], 60)[0]:
        told += os.read(job.stderr.fileno(), 4096).decode()
    change("limit", "waits", "--vram", "64MiB")
    _, err = job.communicate(timeout=240)
    check("resume: where there is no room the log says so, and the job goes on when there is",
          f"resume waits: device 0: out of memory: limit {4 * MIB} bytes" in told and "resumed" in err and job.returncode == 0,
          (told, err))


def handover_is_verified():
    got, _, err = answer([PROGRAMS / "cl_verify"])
    check("zero_and_verify: zeroes exactly its range and finds nothing left",
          [got.get(key) for key in ("done", "left", "inside", "outside")] == [0, 0, 0, 2], (got, err))
    check("zero_and_verify: nothing, and more than there is, are refused",
          got.get("nothing", 0) != 0 and got.get("beyond", 0) != 0, got)
    # The fault lies between the guard and the device.
    layers = f"OPENCL_LAYERS={PROGRAMS / 'libfaulty-opencl.so'}:{BUILD / 'libtranche-guard.so'}"
    got, _, err = answer(["env", layers, "TRANCHE_FAULT=unfilled", PROGRAMS / "cl_verify"])
    check("zero_and_verify: a byte that the device left is counted",
          [got.get(key) for key in ("done", "left", "inside")] == [0, 1, 1], (got, err))


def nobody_finds_what_was_left():
    """On a device whose memory keeps what it held, which PoCL's does not: a layer under the guard sees to that."""
    def found(broker, *, fault="used", **options):
        layers = f"OPENCL_LAYERS={PROGRAMS / 'libfaulty-opencl.so'}:{BUILD / 'libtranche-guard.so'}"
        got, _, err = answer(["env", layers, f"TRANCHE_FAULT={fault}", PROGRAMS / "cl_found"], "--socket", broker, **options)
        return [got.get(where) for where in ("buffer", "image", "shared")], sorted(
            int(line.split()[1]) for line in err.splitlines() if line.startswith("faulty-opencl:")), err

    size = 64 * 64 * 4
    all_of_it, nothing = [size, size, 2 * size], [0, 0, 0]
    # What the first tenant finds on a clean device, how much it leaves in what goes back, and what the next one finds.
    copied = {}
    ways = {"alone": [all_of_it, [size] * 4, nothing], "sharing": [all_of_it, [], all_of_it],
            "sharing, and the device fills nothing": [[None] * 3, [size] * 2, nothing]}
    for way, expected in ways.items():
        socket = pathlib.Path(folder.name) / f"contents-{len(results)}.sock"
        broker = subprocess.Popen([str(BUILD / "tranche"), "broker", "--socket", str(socket)])
        while not socket.exists():
            time.sleep(0.01)
        neighbour = guarded([PROGRAMS / "cl_steps", "--steps", "100000", "--mib", "1", "--step-ms", "50"], "--socket",
                            str(socket), name="neighbour") if way != "alone" else None
        if neighbour:
            neighbour.stdout.readline()
        first = found(str(socket), fault="used,unfillable" if expected[0] == [None] * 3 else "used")
        second = found(str(socket))
        copied[way] = int(first[2].split("copied ")[1].split()[0])
        check(f"contents, {way}: nobody finds what another left, and a clean device is not zeroed",
              [*first[:2], second[0]] == expected, (first, second))
        if expected[0] == [None] * 3:
            check("contents: memory that cannot be zeroed is not given out on a dirty device", "status = -4" in first[2], first)
        for process in filter(None, (neighbour, broker)):
            process.terminate()
            process.communicate(timeout=60)
    check("contents: zeroing is charged by its bytes to whoever frees", copied["sharing"] == copied["alone"] + 4 * size, copied)


def filters_of_ffmpeg_run():
    """Not in the bootstrap everywhere: it asks more of a driver than our own programs do."""
    if shutil.which("ffmpeg") is None:
        print("[skipped] ffmpeg is not installed")
        return
    line = ["ffmpeg", "-hide_banner", "-loglevel", "error", "-init_hw_device", "opencl=ocl:0.0", "-filter_hw_device", "ocl",
            "-f", "lavfi", "-i", "testsrc=size=320x240:rate=10:duration=1", "-vf",
            "format=yuv420p,hwupload,avgblur_opencl=sizeX=5,hwdownload,format=yuv420p", "-f", "md5", "-"]
    plain = subprocess.run(line, text=True, stdout=subprocess.PIPE, timeout=240).stdout
    _, out, err = answer(line)
    check("ffmpeg: its filters run unmodified, with the same result", plain.startswith("MD5=") and out == plain, (out, err))
    sharing = [guarded(line, name=f"clip{i}") for i in range(3)]
    ends = [one.communicate(timeout=240) for one in sharing]
    well = all(out == plain for out, _ in ends) and not any(one.returncode for one in sharing)
    check("ffmpeg: ends well while what it frees is zeroed for its neighbours", well, ends)
    _, out, err = answer(line, "--vram", "100000")
    check("ffmpeg: meets the limit as its own out-of-memory error", "Cannot allocate memory" in err and "MD5" not in out, err)


def foreign_programs_run():
    if shutil.which("clpeak") is None:
        print("[skipped] clpeak is not installed")
        return
    _, out, err = answer(["clpeak", "--kernel-latency"], "--vram", "2GiB")
    check("clpeak: runs unmodified", "Kernel launch latency" in out, out + err)


def main():
    if not shutil.which("clinfo") or "Portable Computing" not in subprocess.run(
            ["clinfo", "-l"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout:
        print("[skipped] no PoCL device here")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    device_shows_the_slice()
    memory_is_exact()
    pipes_are_charged_or_not_there()
    every_shape_is_right_and_charged()
    cannot_be_switched_off()
    measuring_is_not_seen()
    handover_is_verified()
    nobody_finds_what_was_left()
    filters_of_ffmpeg_run()
    pause_gives_back(sharing=False)
    pause_gives_back(sharing=True)
    resume_says_what_it_waits_for()
    if os.environ.get("TRANCHE_LONG"):
        foreign_programs_run()
    failed = results.count(False)
    print(f"{results.count(True)} passed, {failed} failed, 0 skipped")
    return bool(failed)


sys.exit(main())
