#!/usr/bin/env python3
"""Every entry point of the CUDA driver is hooked, refused or passed through with a reason, and the library agrees."""
import csv
import os
import pathlib
import re
import subprocess

root = pathlib.Path(__file__).resolve().parent.parent
build = pathlib.Path(os.environ.get("TRANCHE_BUILD_DIR", root / "build/dev"))
passed = failed = skipped = 0


def check(claim: str, wrong) -> None:
    global passed, failed
    if wrong:
        failed += 1
        print(f"FAILED {claim}: {sorted(wrong)[:20]}")
    else:
        passed += 1


def base(symbol: str) -> str:
    return re.sub(r"_v\d+$", "", re.sub(r"_(ptsz|ptds)$", "", symbol))


table = {row["symbol"]: row for row in csv.DictReader((root / "src/guard/cuda/coverage.csv").open())}
hooks = set(re.findall(r"HOOK\((\w+)\)", (root / "src/guard/cuda/hooks.inc").read_text()))
cuda_hooks = {hook for hook in hooks if hook.startswith("cu")}
check("coverage: every hook has its row", cuda_hooks - {s for s, r in table.items() if r["treatment"] != "pass"})
check("coverage: every row that says hooked or refused is one",
      {s for s, r in table.items() if r["treatment"] != "pass"} - cuda_hooks)
check("coverage: what passes through says why",
      {s for s, r in table.items() if r["treatment"] != "hooked" and not r["reason"].strip()})
check("coverage: no launch, copy or allocation of today's interface passes unexplained",
      {s for s, r in table.items() if r["class"] in {"vram+", "compute", "copy"} and r["treatment"] == "pass"
       and r["reason"] == "neither takes device memory nor starts work on the device"})

exported = subprocess.run(["nm", "-D", "--defined-only", build / "libtranche-guard.so"], text=True, check=True,
                          stdout=subprocess.PIPE).stdout.split()
check("library: every hook is exported", hooks - set(exported))
needed = subprocess.run(["readelf", "-d", build / "libtranche-guard.so"], text=True, check=True,
                        stdout=subprocess.PIPE).stdout
check("library: needs libc and nothing else",
      set(re.findall(r"NEEDED.*\[(.*)\]", needed)) - {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"})

entry_points = root.parent / "shared/data/cuda_entry_points.csv"
if entry_points.exists():
    names = [row["name"] for row in csv.DictReader(entry_points.open())]
    bases = {base(symbol) for symbol in table}
    check("coverage: every entry point of CUDA 12 and 13 has a row", {n for n in names if base(n) not in bases})
else:
    skipped += 1
    print("[skipped] the list of entry points is not here")

print(f"{passed} passed, {failed} failed, {skipped} skipped")
raise SystemExit(bool(failed))
