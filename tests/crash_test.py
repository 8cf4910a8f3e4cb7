# SPDX-License-Identifier: Apache-2.0
"""Bad days of the server: kill -9 anywhere, two servers on one folder, damage on disk, a full disk."""
import http.client
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time

from tranche_platform import JOB, LONG, TRANCHE, Platform, main

FAILPOINTS = ["server.decided", "server.durable"]


def submit_until_dead(platform, acknowledged, stop):
    client = platform.client()
    number = 0
    while not stop.is_set():
        number += 1
        name = f"{platform.process.pid}-{threading.get_ident()}-{number}"
        try:
            answer = client.post("/v1/jobs", {**JOB, "name": name})
        except (http.client.HTTPException, OSError):
            return
        if answer.status == 201:
            acknowledged[answer.json["id"]] = name


def jobs_of(platform):
    jobs, cursor = {}, ""
    client = platform.client()
    while True:
        page = client.get(f"/v1/jobs?limit=10000&cursor={cursor}").json
        jobs.update((job["id"], job["name"]) for job in page["items"])
        cursor = page["next"]
        if not cursor:
            return jobs


def kill_at_random_loses_nothing():
    """kill -9 at any moment: nothing acknowledged is lost, and the chain is whole."""
    seed = int(os.environ.get("TRANCHE_SEED", random.randrange(1 << 30)))
    print(f"seed {seed}", flush=True)
    rng = random.Random(seed)
    cycles = 1000 if LONG else 50
    acknowledged = {}
    with Platform(arguments=["--snapshot-every", "40"]) as platform:
        for _ in range(cycles):
            stop = threading.Event()
            threads = [threading.Thread(target=submit_until_dead, args=(platform, acknowledged, stop)) for _ in range(4)]
            for thread in threads:
                thread.start()
            time.sleep(rng.uniform(0.0, 0.12))
            platform.kill()
            stop.set()
            for thread in threads:
                thread.join()
            platform.start()
        jobs = jobs_of(platform)
        lost = {job for job, name in acknowledged.items() if jobs.get(job) != name}
        assert not lost, f"{len(lost)} of {len(acknowledged)} acknowledged jobs are lost: {sorted(lost)[:5]}"
        verdict = platform.client().get("/v1/audit/verify").json
        assert verdict["intact"], verdict
        return f"{cycles} cycles, {len(acknowledged)} acknowledged, none lost"


def kill_at_failpoints_loses_nothing():
    """kill -9 between deciding, writing and answering: nothing acknowledged is lost."""
    outcomes = []
    for name in FAILPOINTS:
        acknowledged = {}
        with Platform() as platform:
            for cycle in range(20 if LONG else 4):
                platform.kill()
                platform.start({"TRANCHE_FAILPOINTS": f"{name}:kill:{3 + cycle}"})
                submit_until_dead(platform, acknowledged, threading.Event())
                assert platform.process.wait(60) == -signal.SIGKILL
                platform.start()
                jobs = jobs_of(platform)
                assert all(jobs.get(job) == text for job, text in acknowledged.items()), name
        outcomes.append(f"{name} {len(acknowledged)}")
    return ", ".join(outcomes)


def replay_gives_the_same_state():
    """A start from the snapshot and a start from the whole journal show the same world."""
    with Platform(arguments=["--snapshot-every", "10"]) as platform:
        operator = platform.client()
        operator.post("/v1/tenants", {"name": "acme"})
        for number in range(60):
            operator.post("/v1/jobs", {**JOB, "name": f"n{number}"})
        for number in range(1, 60, 3):
            operator.post(f"/v1/jobs/job_{number:06d}/stop") if number < 10 else None
        platform.stop()
        assert any((platform.data / "snapshots").iterdir())
        platform.start()
        with_snapshot = [platform.client().get(path).body for path in ("/v1/jobs?limit=1000", "/v1/tenants", "/v1/quotas/platform")]
        platform.stop()
        shutil.rmtree(platform.data / "snapshots")
        platform.start()
        without = [platform.client().get(path).body for path in ("/v1/jobs?limit=1000", "/v1/tenants", "/v1/quotas/platform")]
        assert with_snapshot == without


def second_server_refuses():
    """Of servers racing for one folder exactly one wins; the others say who holds it."""
    with Platform() as platform:
        refused = subprocess.run([TRANCHE, "server", "--data", platform.data, "--listen", "127.0.0.1:0"],
                                 capture_output=True, text=True, timeout=60, check=False)
        assert refused.returncode != 0 and str(platform.process.pid) in refused.stderr, refused
        platform.stop()
        racers = [subprocess.Popen([TRANCHE, "server", "--data", platform.data, "--listen", "127.0.0.1:0"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(6)]
        deadline = time.monotonic() + 60
        while sum(racer.poll() is None for racer in racers) > 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        alive = [racer for racer in racers if racer.poll() is None]
        for racer in racers:
            racer.kill()
            racer.wait()
        assert len(alive) == 1, f"{len(alive)} servers on one folder"


def flipped_snapshot_is_discarded():
    """A flipped byte in the snapshot: named, set aside, replayed from the journal."""
    with Platform() as platform:
        operator = platform.client()
        for number in range(20):
            operator.post("/v1/jobs", {**JOB, "name": f"n{number}"})
        platform.stop()
        snapshot = max((platform.data / "snapshots").glob("*.bin"))
        content = bytearray(snapshot.read_bytes())
        content[len(content) // 2] ^= 1
        snapshot.write_bytes(content)
        platform.start()
        assert "is not used" in platform.log_text() and snapshot.name in platform.log_text(), platform.log_text()
        assert len(jobs_of(platform)) == 20


def flipped_record_stops_the_server():
    """A changed record in the journal: named, and the server does not go on serving."""
    with Platform() as platform:
        operator = platform.client()
        for number in range(30):
            operator.post("/v1/jobs", {**JOB, "name": f"n{number}"})
        platform.stop()
        database = next(platform.data.glob("*.db"), None) or next(platform.data.glob("*.sqlite*"))
        with sqlite3.connect(database) as connection:
            tables = [row[0] for row in connection.execute("select name from sqlite_master where type='table'")]
            table = "journal" if "journal" in tables else "records"
            body = connection.execute(f"select body from {table} where sequence = 12").fetchone()[0]
            changed = bytearray(body)
            changed[-3] ^= 1
            connection.execute(f"update {table} set body = ? where sequence = 12", (bytes(changed),))
        connection.close()
        platform.start(wait=False)
        assert platform.process.wait(60) != 0
        assert "12" in platform.log_text().splitlines()[-3:][0] or "record 12" in platform.log_text(), platform.log_text()
        offline = subprocess.run([TRANCHE, "audit", "verify", "--file", platform.data], capture_output=True, text=True, check=False)
        assert offline.returncode != 0 and "12" in offline.stdout + offline.stderr, offline


def full_disk_answers_507_and_recovers():
    """Disk full: writes answer 507, reads and stops still work, and it recovers without a restart."""
    mount = pathlib.Path(tempfile.mkdtemp(prefix="tranche-full-"))
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", mount], stderr=subprocess.DEVNULL, check=False).returncode:
        mount.rmdir()
        return "[skipped] mounting a small disk is not permitted here"
    try:
        platform = Platform(folder=mount)
        with platform:
            operator = platform.client()
            first = operator.post("/v1/jobs", JOB)
            assert first.status == 201, first
            filler = mount / "filler"
            with open(filler, "wb") as file:
                try:
                    while True:
                        file.write(b"x" * 65536)
                        file.flush()
                except OSError:
                    pass
            full = operator.post("/v1/jobs", JOB)
            assert full.status == 507, full
            assert operator.get("/v1/jobs").status == 200
            stopped = operator.post(f"/v1/jobs/{first.json['id']}/stop")
            assert stopped.status == 200 and stopped.json["state"] == "stopped", stopped
            filler.unlink()
            again = operator.post("/v1/jobs", JOB)
            assert again.status == 201, again
            platform.stop()
            platform.start()
            jobs = platform.client().get("/v1/jobs").json["items"]
            assert [job["state"] for job in jobs] == ["stopped", "pending"], jobs
    finally:
        subprocess.run(["umount", "-l", mount], check=False)
        shutil.rmtree(mount, ignore_errors=True)


def memory_group():
    """A cgroup (v1) of our own that limits memory, or None where that is not permitted."""
    group = pathlib.Path("/sys/fs/cgroup/memory") / f"tranche-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").read_text()
    except OSError:
        return None
    return group


def set_memory_limit(group, amount):
    (group / "memory.limit_in_bytes").write_text(str(amount))


def out_of_memory_loses_nothing():
    """The kernel ends the server for want of memory: nothing acknowledged is lost, and it starts again."""
    group = memory_group()
    if group is None:
        return "[skipped] a memory cgroup of our own is not permitted here"
    acknowledged = {}
    rounds = 500 if LONG else 3
    try:
        with Platform() as platform:
            for number in range(rounds):
                (group / "cgroup.procs").write_text(str(platform.process.pid))
                # What the server holds already is charged elsewhere: the limit is for what it takes from here on.
                set_memory_limit(group, 12 << 20)
                client = platform.client()
                try:
                    for step in range(2000):
                        name = f"{number}-{step}"
                        heavy = {**JOB, "name": name, "env": {"PADDING": "x" * 200_000}}
                        answer = client.post("/v1/jobs", heavy)
                        assert answer.status == 201, answer
                        acknowledged[answer.json["id"]] = name
                except (http.client.HTTPException, OSError):
                    pass
                assert platform.process.wait(60) == -signal.SIGKILL, "the server outlived a limit of 12 MB"
                set_memory_limit(group, -1)
                platform.start()
            jobs = jobs_of(platform)
            assert acknowledged and all(jobs.get(job) == name for job, name in acknowledged.items())
            verdict = platform.client().get("/v1/audit/verify").json
            assert verdict["intact"], verdict
            return f"{rounds} ends, {len(acknowledged)} acknowledged, none lost"
    finally:
        group.rmdir()


def sigterm_finishes_what_is_in_flight():
    """SIGTERM under load: every request that was sent is answered, and the status is 0."""
    with Platform() as platform:
        acknowledged = {}
        stop = threading.Event()
        threads = [threading.Thread(target=submit_until_dead, args=(platform, acknowledged, stop)) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        assert platform.stop() == 0
        stop.set()
        for thread in threads:
            thread.join()
        platform.start()
        jobs = jobs_of(platform)
        assert all(jobs.get(job) == name for job, name in acknowledged.items())
        return f"{len(acknowledged)} acknowledged"


main([kill_at_random_loses_nothing, kill_at_failpoints_loses_nothing, replay_gives_the_same_state, second_server_refuses,
      flipped_snapshot_is_discarded, flipped_record_stops_the_server, full_disk_answers_507_and_recovers,
      out_of_memory_loses_nothing, sigterm_finishes_what_is_in_flight])
