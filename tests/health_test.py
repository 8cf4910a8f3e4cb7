#!/usr/bin/env python3
"""`tranche device test` on a real device (PoCL), healthy and with planted faults: every one must be found by the
standard test. The faults come from a layer between the program and the driver (tests/opencl/faulty_layer.c).
Prints `N passed, N failed, N skipped` last."""
import json
import os
import pathlib
import subprocess
import sys

BUILD = pathlib.Path(os.environ.get("TRANCHE_BUILD_DIR", "build/dev")).resolve()
LAYER = BUILD / "opencl" / "libfaulty-opencl.so"
results = []


def check(name, holds, told=""):
    results.append(bool(holds))
    print(f"{'ok' if holds else 'FAILED'}: {name}{'' if holds else f': {told}'}", flush=True)


def device_test(fault=None, *more):
    environment = dict(os.environ)
    if fault:
        environment |= {"OPENCL_LAYERS": str(LAYER), "TRANCHE_FAULT": fault}
    run = subprocess.run([BUILD / "tranche", "device", "test", "--level", "standard", "--memory", "16MiB", "-o", "json",
                          *more], env=environment, text=True, capture_output=True, timeout=500)
    try:
        return run.returncode, json.loads(run.stdout)["items"]
    except (json.JSONDecodeError, KeyError):
        print(run.stdout, run.stderr)
        return run.returncode, []


def rows(report):
    return {row["name"]: row["verdict"] for row in report["receipt"]["tests"]}


status, healthy = device_test()
if not healthy and status == 3:
    print("skipped: no OpenCL device on this machine\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)
check("a healthy device passes", status == 0 and healthy and healthy[0]["receipt"]["verdict"] == "pass", healthy)
check("the receipt names the table that was applied", healthy[0]["receipt"]["table_version"], healthy)
uuid = healthy[0]["uuid"]

for fault, found_by in (("stuck", "memory."), ("flip", "memory."), ("wrong", "compute.")):
    status, reports = device_test(fault)
    verdicts = rows(reports[0]) if reports else {}
    check(f"{fault}: found by {found_by}",
          any(name.startswith(found_by) and verdict == "critical" for name, verdict in verdicts.items()), verdicts)
    check(f"{fault}: the device is not fit", status == 1 and reports[0]["receipt"]["verdict"] == "critical", status)

status, reports = device_test("slow")
verdicts = rows(reports[0]) if reports else {}
for name in ("bandwidth.host_to_device", "bandwidth.within_device", "bandwidth.device_to_host", "latency.launch"):
    check(f"slow: {name} is below its floor", verdicts.get(name) in ("warning", "critical"), verdicts)
check("slow: nothing is called wrong that is only slow",
      all(verdict == "pass" for name, verdict in verdicts.items() if name.startswith("memory.")), verdicts)
check("slow: the device is not fit", status == 1, status)

status, reports = device_test(None, "--device", uuid)
check("one device can be named", status == 0 and [report["uuid"] for report in reports] == [uuid], reports)
status, reports = device_test(None, "--device", "GPU-nobody")
check("a device that is not there is an error of its own", status == 3, status)
listing = subprocess.run([BUILD / "tranche", "device", "list"], text=True, capture_output=True, timeout=60)
check("the list shows the device", uuid in listing.stdout, listing)

print(f"{sum(results)} passed, {len(results) - sum(results)} failed, 0 skipped")
sys.exit(not all(results))
