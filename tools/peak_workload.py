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
import datetime
import gzip
import math
import pathlib
import random
import sys

DAY = 86400
REPLICA_SECONDS = 900
# A replica by what `tranche size` gives for 7B and 13B at fp16, 4k context, 8 users; the share is what serving keeps busy.
REPLICAS = {"conv": (200, 18.0), "code": (350, 33.0)}


def rows_of(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def rate_curve(traces, name):
    """Tokens in each of 96 parts of the trace's hour, over their mean."""
    stamps, tokens = [], []
    for row in rows_of(traces / "azure" / f"AzureLLMInferenceTrace_{name}.csv.gz"):
        stamps.append(datetime.datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp())
        tokens.append(int(row["ContextTokens"]) + int(row["GeneratedTokens"]))
    first, last = min(stamps), max(stamps)
    slots = [0] * (DAY // REPLICA_SECONDS)
    for stamp, count in zip(stamps, tokens):
        slots[min(int((stamp - first) / (last - first) * len(slots)), len(slots) - 1)] += count
    mean = sum(slots) / len(slots)
    return [slot / mean for slot in slots]


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


def finetune(traces, amount, day, rng):
    shapes = []
    for row in rows_of(traces / "openb" / "openb_pod_list_default.csv.gz"):
        if int(row["num_gpu"]) == 0 or not row["scheduled_time"] or not row["deletion_time"]:
            continue
        seconds = float(row["deletion_time"]) - float(row["scheduled_time"])
        shapes.append((int(row["num_gpu"]), int(row["gpu_milli"]), int(min(max(seconds, 1800), 4 * 3600))))
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
    jobs = []
    for day in range(given.days):
        jobs += inference(curves, work / 2, day, rng)
        jobs += finetune(given.traces, work / 2, day, rng)
    jobs.sort()
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["submit", "duration", "tenant", "kind", "gpus", "milli", "vram_gb", "priority"])
    out.writerows(jobs)


main()
