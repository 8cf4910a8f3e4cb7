# SPDX-License-Identifier: Apache-2.0
"""A small training loop: fits a line by gradient descent, checkpoints, and goes on where it stopped.

Preempted (SIGUSR1 by default, see `checkpoint` in the job file) it saves its state and ends; started again, on whatever
node, it goes on from the last checkpoint that is whole. The result is the same as without an interruption, bit for bit.
"""
import json
import os
import signal
import sys
import time

STEPS = int(os.environ.get("STEPS", "200"))
PAUSE = float(os.environ.get("PAUSE", "0.01"))
FOLDER = os.environ.get("TRANCHE_CHECKPOINT_DIR", ".")
POINTS = [(x / 10, 3.0 * x / 10 + 1.0) for x in range(20)]
asked_to_stop = False


def on_signal(*_):
    global asked_to_stop
    asked_to_stop = True


def checkpoints():
    """All there are, the newest first."""
    names = [name for name in os.listdir(FOLDER) if name.startswith("step-") and name.endswith(".json")]
    return sorted(names, key=lambda name: int(name[5:-5]), reverse=True)


def load():
    resume = os.environ.get("TRANCHE_RESUME")  # The newest that the platform knows to be whole.
    for path in [resume] if resume else [os.path.join(FOLDER, name) for name in checkpoints()]:
        try:
            with open(path) as file:
                return json.load(file)
        except (OSError, ValueError):  # One that was cut: the one before it.
            pass
    return {"step": 0, "slope": 0.0, "offset": 0.0}


def save(state):
    """Whole or not at all: a checkpoint that was cut in the middle is never seen."""
    name = f"step-{state['step']}.json"
    part = os.path.join(FOLDER, name + ".part")
    with open(part, "w") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, os.path.join(FOLDER, name))
    print(f"tranche: checkpoint {name}", flush=True)
    for old in checkpoints()[3:]:
        os.remove(os.path.join(FOLDER, old))


def main():
    signal.signal(signal.SIGUSR1, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    state = load()
    print(f"from step {state['step']}", flush=True)
    while state["step"] < STEPS:
        errors = [(state["slope"] * x + state["offset"] - y, x) for x, y in POINTS]
        state["slope"] -= 0.1 * sum(error * x for error, x in errors) / len(errors)
        state["offset"] -= 0.1 * sum(error for error, _ in errors) / len(errors)
        state["step"] += 1
        loss = sum(error * error for error, _ in errors) / len(errors)
        print(f"tranche: step {state['step']}/{STEPS} loss={loss:.6f}", flush=True)
        if asked_to_stop or state["step"] % 10 == 0:
            save(state)
        if asked_to_stop:
            sys.exit(75)
        time.sleep(PAUSE)
    save(state)
    print(f"result {state['slope'].hex()} {state['offset'].hex()}", flush=True)


main()
