# SPDX-License-Identifier: Apache-2.0
"""The training loop of train.py on as many workers as there are: each has a part of the points, all add up the same.

Told to save itself (SIGUSR1) it does, and ends; started again, with however many workers, it goes on from the last
whole checkpoint. The sums are exact, so the result is the same for every number of workers, bit for bit. The workers
meet in the checkpoint folder, which those on one node share; between nodes a real one would meet over the network.
"""
import json
import math
import os
import signal
import sys
import time

STEPS = int(os.environ.get("STEPS", "200"))
PAUSE = float(os.environ.get("PAUSE", "0.01"))
FOLDER = os.environ.get("TRANCHE_CHECKPOINT_DIR", ".")
RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
ATTEMPT = os.environ.get("TRANCHE_ATTEMPT", "1")
POINTS = [(x / 10, 3.0 * x / 10 + 1.0) for x in range(20)]
asked_to_stop = False


def on_signal(*_):
    global asked_to_stop
    asked_to_stop = True


def load():
    try:
        with open(os.path.join(FOLDER, "state.json")) as file:
            return json.load(file)
    except (OSError, ValueError):  # None yet, or one that was cut: begin anew.
        return {"step": 0, "slope": 0.0, "offset": 0.0}


def write(name, value, lasting=False):
    """Whole or not at all: nobody ever reads one that was cut in the middle."""
    part = os.path.join(FOLDER, f"{name}.part")
    with open(part, "w") as file:
        json.dump(value, file)
        if lasting:
            file.flush()
            os.fsync(file.fileno())
    os.replace(part, os.path.join(FOLDER, name))


def end_early(state):
    if RANK == 0:
        write("state.json", state, lasting=True)
    sys.exit(75)


def from_all(state, mine):
    """What every worker has to say of this step; no worker is further ahead than this."""
    name = f"attempt{ATTEMPT}.step{state['step']}.worker"
    write(name + str(RANK), mine)
    parts = []
    for worker in range(WORLD):
        path = os.path.join(FOLDER, name + str(worker))
        while not os.path.exists(path):
            if asked_to_stop:
                end_early(state)
            time.sleep(0.001)
        with open(path) as file:
            parts += json.load(file)
    if state["step"] > 0:  # All have read what was before this step.
        before = os.path.join(FOLDER, f"attempt{ATTEMPT}.step{state['step'] - 1}.worker{RANK}")
        if os.path.exists(before):
            os.remove(before)
    return parts


def main():
    signal.signal(signal.SIGUSR1, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    state = load()
    print(f"from step {state['step']} as {WORLD} workers", flush=True)
    while state["step"] < STEPS:
        mine = [(state["slope"] * x + state["offset"] - y, x) for x, y in POINTS[RANK::WORLD]]
        errors = from_all(state, mine)
        state["slope"] -= 0.1 * math.fsum(error * x for error, x in errors) / len(POINTS)
        state["offset"] -= 0.1 * math.fsum(error for error, _ in errors) / len(POINTS)
        state["step"] += 1
        loss = math.fsum(error * error for error, _ in errors) / len(POINTS)
        if RANK == 0:
            print(f"tranche: step {state['step']}/{STEPS} loss={loss:.6f}", flush=True)
            if state["step"] % 10 == 0:
                write("state.json", state, lasting=True)
        if asked_to_stop:
            end_early(state)
        time.sleep(PAUSE)
    if RANK == 0:
        write("state.json", state, lasting=True)
        print(f"result {state['slope'].hex()} {state['offset'].hex()}", flush=True)


main()
