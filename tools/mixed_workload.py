#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a day of mixed work as CSV for `tranche sim whatif`, from public traces.

    tools/mixed_workload.py --traces TRACES --load 0.9 [--devices 64] [--seed 1] > mixed.csv

Four kinds in fixed parts of the work: inference 40 %, fine-tuning 30 %, rendering 20 %, video 10 %. TRACES is a folder
with azure/ (Azure LLM inference 2023: when requests come, how long they are) and openb/ (Alibaba 2023: shapes and run
times of jobs). `load` is offered work over what the fleet can do in the day. This file was fixed before any policy ran on
its output; change it and every published figure of it has to be taken again.
"""
import argparse
import csv
import math
import pathlib
import random
import sys

from public_traces import DAY, REPLICA_SECONDS, REPLICAS, openb_jobs, rate_curve

TENANTS = {"atlas": 0, "borealis": 8 * 3600, "cirrus": 16 * 3600}  # Their day begins at another hour of the clock.
PARTS = {"inference": 0.4, "finetune": 0.3, "render": 0.2, "video": 0.1}


def inference(curves, amount):
    """Replicas for a quarter of an hour each, as many as the rate of the moment needs."""
    jobs = []
    each = sum(milli * REPLICA_SECONDS for milli, _ in REPLICAS.values())
    scale = amount / (each * len(TENANTS) * len(next(iter(curves.values()))))
    for tenant, shift in TENANTS.items():
        for name, (milli, vram) in REPLICAS.items():
            owed = 0.0
            for slot, rate in enumerate(curves[name]):
                owed += rate * scale
                start = (slot * REPLICA_SECONDS + shift) % DAY
                for _ in range(math.floor(owed)):
                    jobs.append((start, REPLICA_SECONDS, tenant, "inference", 1, milli, vram))
                owed -= math.floor(owed)
    return jobs


def finetune(shapes, amount, rng):
    jobs = []
    while amount > 0:
        devices, milli, seconds = rng.choice(shapes)
        jobs.append((rng.randrange(DAY), seconds, rng.choice(list(TENANTS)), "finetune", devices, milli, 0.07 * milli))
        amount -= devices * milli * seconds
    return jobs


def render(amount, rng):
    """Scenes of 120 frames, handed in between 18:00 and 22:00 of the tenant's own day."""
    jobs = []
    while amount > 0:
        tenant = rng.choice(list(TENANTS))
        start = (TENANTS[tenant] + 18 * 3600 + rng.randrange(4 * 3600)) % DAY
        seconds = rng.randrange(60, 180)
        for _ in range(120):
            jobs.append((start, max(1, int(seconds * rng.uniform(0.8, 1.2))), tenant, "render", 1, 500, 12.0))
            amount -= 500 * seconds
    return jobs


def video(curve, amount, rng):
    """Segments that come when people are awake, as the rate of requests does."""
    jobs = []
    total = sum(curve)
    slots = [value / total for value in curve]
    while amount > 0:
        slot = rng.choices(range(len(slots)), slots)[0]
        tenant = rng.choice(list(TENANTS))
        start = (slot * REPLICA_SECONDS + rng.randrange(REPLICA_SECONDS) + TENANTS[tenant]) % DAY
        seconds = rng.randrange(30, 90)
        jobs.append((start, seconds, tenant, "video", 1, 250, 6.0))
        amount -= 250 * seconds
    return jobs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=pathlib.Path, required=True)
    parser.add_argument("--load", type=float, required=True)
    parser.add_argument("--devices", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    work = given.load * given.devices * 1000 * DAY
    curves = {name: rate_curve(given.traces, name) for name in REPLICAS}
    jobs = inference(curves, work * PARTS["inference"])
    jobs += finetune(openb_jobs(given.traces, 300), work * PARTS["finetune"], rng)
    jobs += render(work * PARTS["render"], rng)
    jobs += video(curves["conv"], work * PARTS["video"], rng)
    jobs.sort()
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["submit", "duration", "tenant", "kind", "gpus", "milli", "vram_gb"])
    out.writerows(jobs)


main()
