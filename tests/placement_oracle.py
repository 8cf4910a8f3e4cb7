#!/usr/bin/env python3
"""`tranche sim pack --policy fgd` against the independent simulator, decision by decision, on the openb traces.

The reference is compiled from ../shared/oracle into the build folder; without it the comparison is skipped. Bad
files are tried as well. `--all` (or TRANCHE_LONG=1) compares every trace and all ten seeds: two million decisions."""
import argparse
import gzip
import os
import pathlib
import shutil
import subprocess
import sys

BUILD = pathlib.Path(os.environ.get("TRANCHE_BUILD_DIR", "build/dev"))
SHARED = pathlib.Path("../shared")
TRACES = SHARED / "data/traces/openb"
ORACLE = SHARED / "oracle/gpusim.cpp"
WORK = BUILD / "placement_oracle"
SEEDS = range(42, 52)
passed = failed = skipped = decisions = 0


def verdict(ok, name):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    print(f"[{'ok' if ok else 'FAILED'}] {name}", flush=True)


def tranche(*words, timeout=1800):
    return subprocess.run([BUILD / "tranche", "sim", "pack", *words], text=True, capture_output=True, timeout=timeout)


def compare(oracle, nodes, trace, seeds):
    global decisions
    tasks = WORK / f"{trace}.csv"
    tasks.write_bytes(gzip.decompress((TRACES / f"openb_pod_list_{trace}.csv.gz").read_bytes()))
    compared = 0
    for seed in map(str, seeds):
        theirs, ours = WORK / f"{trace}.oracle", WORK / f"{trace}.tranche"
        subprocess.run([oracle, nodes, tasks, "--policy", "fgd", "--seeds", seed, "--dump", theirs], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=1800)
        run = tranche("--nodes", str(TRACES / "openb_node_list_gpu_node.csv.gz"), "--tasks",
                      str(TRACES / f"openb_pod_list_{trace}.csv.gz"), "--policy", "fgd", "--seeds", seed,
                      "--dump", str(ours))
        if run.returncode != 0:
            return verdict(False, f"{trace}, seed {seed}: {run.stderr.strip()}")
        expected, made = theirs.read_text().splitlines(), ours.read_text().splitlines()
        differ = next((i for i, pair in enumerate(zip(expected, made)) if pair[0] != pair[1]), None)
        if differ is not None or not len(expected) == len(made) > 1000:
            where = "their numbers differ" if differ is None else \
                f"arrival {differ + 1}: expected {expected[differ]}, got {made[differ]}"
            return verdict(False, f"{trace}, seed {seed}: {len(expected)} and {len(made)} decisions; {where}")
        compared += len(expected)
    decisions += compared
    verdict(True, f"{trace}, seeds {seeds[0]}-{seeds[-1]}: {compared} decisions are the oracle's")


def bad_files():
    good_nodes = WORK / "nodes.csv"
    good_nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,8000,1000,1,T4\n")
    bad = WORK / "bad.csv"
    bad.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,10,1,500\nb,lots,10,1,500\n")
    run = tranche("--nodes", str(good_nodes), "--tasks", str(bad))
    verdict(run.returncode == 1 and "bad.csv:3: column 'cpu_milli': 'lots' is not a whole number" in run.stderr,
            "a bad cell is named by file, line and column")
    broken = WORK / "broken.csv.gz"
    broken.write_bytes(gzip.compress(b"name,cpu_milli\n" * 500)[:40])
    run = tranche("--nodes", str(good_nodes), "--tasks", str(broken))
    verdict(run.returncode == 1 and "damaged" in run.stderr, "a damaged gzip file is refused")
    run = tranche("--nodes", str(good_nodes), "--tasks", str(bad), "--policy", "magic")
    verdict(run.returncode == 2 and "magic" in run.stderr, "an unknown policy is a usage error")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("traces", nargs="*", help="names such as gpuspec33; default, gpuspec33 and multigpu20 unless told")
parser.add_argument("--all", action="store_true", help="every trace unless some are named, all ten seeds")
options = parser.parse_args()
everything = options.all or os.environ.get("TRANCHE_LONG") == "1"
WORK.mkdir(parents=True, exist_ok=True)
bad_files()
compiler = shutil.which("c++") or shutil.which("g++")
if not ORACLE.exists() or not TRACES.exists() or compiler is None:
    skipped += 1
    print("[skipped] comparison with the oracle: ../shared or a compiler is absent")
else:
    binary = WORK / "gpusim"
    subprocess.run([compiler, "-std=c++17", "-O2", "-o", binary, ORACLE], check=True, timeout=300)
    node_list = WORK / "nodes_openb.csv"
    node_list.write_bytes(gzip.decompress((TRACES / "openb_node_list_gpu_node.csv.gz").read_bytes()))
    names = sorted(p.name[len("openb_pod_list_"):-len(".csv.gz")] for p in TRACES.glob("openb_pod_list_*.csv.gz"))
    few = names if everything else ["default", "gpuspec33", "multigpu20"]
    for name in options.traces or few:
        compare(binary, node_list, name, SEEDS if everything else SEEDS[:1])
    print(f"{decisions} decisions compared")
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(failed > 0)
