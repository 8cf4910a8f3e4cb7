#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes days of serving with batch work beside it as CSV for `tranche sim whatif --forecast both`, from public traces.

    tools/peak_workload.py --traces TRACES --load 0.9 [--days 14] [--devices 16] [--seed 1] > peaks.csv

Half of the work is inference: replicas for a quarter of an hour each, as many as the Azure LLM inference trace of 2023 needs
(its one hour is stretched over a day, so its own ups and downs become those of a day), on weekends 0.7 of it, and every day
by up to a tenth more or less. The other half is fine-tuning with the shapes and run times of the Alibaba trace of 2023,
handed in at any time. Inference has priority 75, fine-tuning 50. TRACES is a folder with azure/ and openb/.
"""
import argparse
import csv
import math
import pathlib
import random
import sys

from public_traces import DAY, REPLICA_SECONDS, REPLICAS, openb_jobs, rate_curve


def inference(curves, amount, day, rng):
    jobs = []
    level = (0.7 if day % 7 >= 5 else 1.0) * rng.uniform(0.9, 1.1)
    each = sum(milli * REPLICA_SECONDS for milli, _ in REPLICAS.values())
    scale = amount * level / (each * DAY // REPLICA_SECONDS)
    for name, (milli, vram) in REPLICAS.items():
        owed = 0.0
        for slot, rate in enumerate(curves[name]):
            owed += rate * scale
            for _ in range(math.floor(owed)):
                start = day * DAY + slot * REPLICA_SECONDS + rng.randrange(60)
                jobs.append((start, REPLICA_SECONDS, "serving", "inference", 1, milli, vram, 75))
            owed -= math.floor(owed)
    return jobs


def finetune(shapes, amount, day, rng):
    jobs = []
    while amount > 0:
        devices, milli, seconds = rng.choice(shapes)
        jobs.append((day * DAY + rng.randrange(DAY), seconds, "research", "finetune", devices, milli, 0.07 * milli, 50))
        amount -= devices * milli * seconds
    return jobs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=pathlib.Path, required=True)
    parser.add_argument("--load", type=float, required=True)
    parser.add_argument("--days", type=int, default=14)
    parser.add_argument("--devices", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    work = given.load * given.devices * 1000 * DAY
    curves = {name: rate_curve(given.traces, name) for name in REPLICAS}
    shapes = openb_jobs(given.traces, 1800)
    jobs = []
    for day in range(given.days):
        jobs += inference(curves, work / 2, day, rng)
        jobs += finetune(shapes, work / 2, day, rng)
    jobs.sort()
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["submit", "duration", "tenant", "kind", "gpus", "milli", "vram_gb", "priority"])
    out.writerows(jobs)


main()
