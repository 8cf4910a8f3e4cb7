# SPDX-License-Identifier: Apache-2.0
"""What the makers of workloads take from public traces: when inference is asked for, and the shapes of jobs.

A folder of traces holds azure/ (Azure LLM inference 2023) and openb/ (Alibaba 2023).
"""
import csv
import datetime
import gzip

DAY = 86400
REPLICA_SECONDS = 900
# A replica by what `tranche size` gives for 7B and 13B at fp16, 4k context, 8 users; the share is what serving keeps busy.
REPLICAS = {"conv": (200, 18.0), "code": (350, 33.0)}


def rows_of(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def rate_curve(traces, name):
    """Tokens by 1/96 of the trace's hour, so that the hour's own ups and downs become those of a day."""
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


def openb_jobs(traces, seconds_least):
    """(devices, milli, seconds) of every job of the trace that used a device, four hours at most."""
    out = []
    for row in rows_of(traces / "openb" / "openb_pod_list_default.csv.gz"):
        if int(row["num_gpu"]) == 0 or not row["scheduled_time"] or not row["deletion_time"]:
            continue
        seconds = float(row["deletion_time"]) - float(row["scheduled_time"])
        out.append((int(row["num_gpu"]), int(row["gpu_milli"]), int(min(max(seconds, seconds_least), 4 * 3600))))
    return out
