# SPDX-License-Identifier: Apache-2.0
"""Trainings that are stopped and go on, from what they saved: the same result, on whatever node."""
import json
import os
import subprocess

from node_test import PATIENCE, Site, shared_site
from tranche_platform import TRANCHE, Client, main, make_user
from units_test import EXAMPLES, over, show, submit, tranche, until


def results_of(site, job, client=None):
    """What the training said itself, over all its attempts: where it began each time, its steps, its result."""
    client = client or site.ana
    lines = []
    for attempt in range(1, client.get(f"/v1/jobs/{job}").json["attempts"] + 1):
        lines += client.get(f"/v1/jobs/{job}/logs?attempt={attempt}").body.splitlines()
    return lines


def settings(site, **change):
    operator = site.platform.client()  # A connection that was idle for long is closed by the server.
    answer = operator.put("/v1/settings", {**operator.get("/v1/settings").json, **change})
    assert answer.status == 200, answer


def a_checkpoint_cut_in_the_middle():
    """Killed while it writes a checkpoint, the training goes on from the last whole one, to the same result."""
    code = (EXAMPLES / "training/train.py").read_text()
    job = {"run": 'exec python3 -c "$CODE"', "kind": "training", "envs": {"CODE": code, "STEPS": "30", "PAUSE": "0"}}
    cut = code.replace("        json.dump(state, file)\n",
                       "        text = json.dumps(state)\n"
                       "        if state['step'] == 20 and os.environ['TRANCHE_ATTEMPT'] == '1':\n"
                       "            file.write(text[:len(text) // 2]); file.flush(); os.kill(os.getpid(), 9)\n"
                       "        file.write(text)\n")
    assert cut != code
    with shared_site() as site:
        whole = submit(site, **job)
        torn = submit(site, **{**job, "retry": 1, "envs": {**job["envs"], "CODE": cut}})
        for one in (whole, torn):
            assert until(site, one, over)["job"]["state"] == "succeeded"
        said = results_of(site, torn)
        assert [line for line in said if line.startswith("from")] == ["from step 0", "from step 10"], said
        assert said[-1].startswith("result") and said[-1] == results_of(site, whole)[-1], said


def a_training_goes_on_where_it_stopped():
    """Preempted again and again the training ends with the same bits as without, and says its steps."""
    code = (EXAMPLES / "training/train.py").read_text()
    job = {"run": 'exec python3 -c "$CODE"', "kind": "training", "envs": {"CODE": code, "STEPS": "12"}}
    with shared_site() as site:
        alone = submit(site, **job)
        assert until(site, alone, over)["job"]["state"] == "succeeded"
        wanted = [line for line in site.logs(alone).splitlines() if line.startswith("result")]
        # Every attempt is asked to stop after its first step, so each gets a little further.
        interrupted = ('python3 -c "$CODE" > out & child=$!; until grep -q "tranche: step" out || ! kill -0 $child; do sleep 0.01; done; '
                       'kill -USR1 $child; wait $child; code=$?; cat out; exit $code')
        cut = submit(site, **{**job, "retry": 100, "run": interrupted})
        detail = until(site, cut, over)
        assert detail["job"]["state"] == "succeeded" and detail["attempts"] > 1, detail
        assert [line for line in site.logs(cut).splitlines() if line.startswith("result")] == wanted
        assert detail["progress"]["done"] == 12 and detail["progress"]["unit"] == "step", detail
        return f"{detail['attempts']} attempts"


def a_training_gives_way_again_and_again():
    """Work that goes first takes its device several times: no step is done twice, and the result is the same."""
    times = 3
    job = {"run": 'exec python3 -c "$CODE"', "kind": "training", "priority": 10, "preemptible": True,
           "envs": {"CODE": (EXAMPLES / "training/train.py").read_text(), "STEPS": "60", "PAUSE": "0.2"},
           "checkpoint": {"signal": "SIGUSR1", "grace": "60s"}, "resources": {"gpus": "gpu:0.9"}, "limits": {"vram": "100MB"},
           "pause": False}
    with shared_site() as site:
        site.until(lambda: site.operator.get("/v1/devices").json["items"])
        settings(site, minimum_run="0s")
        alone = submit(site, **{**job, "envs": {**job["envs"], "PAUSE": "0"}})
        assert until(site, alone, over)["job"]["state"] == "succeeded"
        cut = submit(site, **job)
        for attempt in range(1, times + 1):
            until(site, cut, lambda d, n=attempt: d["attempts"] == n and d["job"]["state"] == "running")
            site.until(lambda: "tranche: step" in site.ana.get(f"/v1/jobs/{cut}/logs").body)
            first = submit(site, priority=90, resources={"gpus": "gpu:0.9"}, limits={"vram": "100MB"})
            assert until(site, first, over)["job"]["state"] == "succeeded"
        detail = until(site, cut, over)
        settings(site, minimum_run="10m")
        assert detail["job"]["state"] == "succeeded" and detail["attempts"] == times + 1, detail
        assert len(detail["interruptions"]) == times, detail
        said = results_of(site, cut)
        steps = [int(line.split()[2].split("/")[0]) for line in said if line.startswith("tranche: step")]
        assert steps == list(range(1, 61)), steps
        assert [line for line in said if line.startswith("result")] == \
            [line for line in results_of(site, alone) if line.startswith("result")]


def a_training_is_paused_and_goes_on():
    """Without a word against it, it stands still for work that goes first, off its device, and is never started again."""
    job = {"run": 'exec python3 -c "$CODE"', "kind": "training", "priority": 10, "preemptible": True,
           "envs": {"CODE": (EXAMPLES / "training/train.py").read_text(), "STEPS": "20", "PAUSE": "0.2"},
           "checkpoint": {"signal": "SIGUSR1", "grace": "60s"}, "resources": {"gpus": "gpu:0.9"}, "limits": {"vram": "100MB"}}
    with shared_site() as site:
        site.until(lambda: site.operator.get("/v1/devices").json["items"])
        settings(site, minimum_run="0s")
        paused = submit(site, **job)
        site.until(lambda: "tranche: step" in site.ana.get(f"/v1/jobs/{paused}/logs").body)
        first = submit(site, run="sleep 600", priority=90, resources={"gpus": "gpu:0.9"}, limits={"vram": "100MB"})
        until(site, first, lambda d: d["job"]["state"] == "running")
        assert show(site, paused)["job"]["state"] == "paused", show(site, paused)
        before = site.ana.get(f"/v1/jobs/{paused}/logs").body
        assert "paused" in tranche(site, "ps").stdout
        assert site.ana.get(f"/v1/jobs/{paused}/logs").body == before
        site.ana.post(f"/v1/jobs/{first}/stop")
        detail = until(site, paused, over)
        settings(site, minimum_run="10m")
        assert detail["job"]["state"] == "succeeded" and detail["attempts"] == 1, detail
        steps = [int(line.split()[2].split("/")[0]) for line in results_of(site, paused) if line.startswith("tranche: step")]
        assert steps == list(range(1, 21)), steps


def a_paused_job_goes_on_where_it_was():
    """A person puts it aside and takes it up again, over deaths of agent and server: no step is lost or done twice."""
    job = {"run": 'exec python3 -c "$CODE"', "kind": "training",
           "envs": {"CODE": (EXAMPLES / "training/train.py").read_text(), "STEPS": "30", "PAUSE": "0.2"},
           "checkpoint": {"signal": "SIGUSR1", "grace": "60s"}, "resources": {"gpus": "gpu:0.9"}, "limits": {"vram": "100MB"}}
    with shared_site() as site:
        site.until(lambda: site.operator.get("/v1/devices").json["items"])
        aside = submit(site, **job)
        assert tranche(site, "resume", aside).returncode != 0
        until(site, aside, lambda d: d.get("progress") and d["progress"]["done"] >= 2)
        said = tranche(site, "pause", aside)
        assert said.returncode == 0 and "pays for no device" in said.stderr, said
        again = tranche(site, "pause", aside)
        assert again.returncode != 0 and "tranche resume" in again.stderr, again
        detail = until(site, aside, lambda d: d["job"]["state"] == "paused")
        assert detail["job"]["reason"].startswith("paused by request"), detail
        assert not detail["interruptions"] and not detail["job"]["node"], detail
        assert json.loads(tranche(site, "ps", "--state", "paused", "-o", "json").stdout)["items"][0]["id"] == aside
        assert "tranche resume" in tranche(site, "why", aside).stdout
        # Its place is there for whoever comes.
        other = submit(site, resources={"gpus": "gpu:0.9"}, limits={"vram": "100MB"})
        assert until(site, other, over)["job"]["state"] == "succeeded"
        agent = site.agents[0]
        agent.kill()
        agent.start("--drain-on-exit")
        site.platform.kill()
        site.restart()
        idle = submit(site)  # The node is there again, and works.
        assert until(site, idle, over)["job"]["state"] == "succeeded"
        assert show(site, aside)["job"]["state"] == "paused"
        assert tranche(site, "resume", aside).returncode == 0
        detail = until(site, aside, over)
        assert detail["job"]["state"] == "succeeded" and detail["attempts"] == 2, detail
        steps = [int(line.split()[2].split("/")[0]) for line in results_of(site, aside) if line.startswith("tranche: step")]
        assert steps == list(range(1, 31)), steps
        late = tranche(site, "pause", aside)
        assert late.returncode != 0 and "has ended" in late.stderr, late


def what_a_pause_would_lose_is_said_first():
    """A job that saves nothing is paused only if its owner says that it may begin again."""
    with shared_site() as site:
        job = submit(site, run="sleep 600")
        until(site, job, lambda d: d["job"]["state"] == "running")
        refused = tranche(site, "pause", job)
        assert refused.returncode != 0 and "--from-start" in refused.stderr, refused
        assert show(site, job)["job"]["state"] == "running"
        assert tranche(site, "pause", "--from-start", job).returncode == 0
        until(site, job, lambda d: d["job"]["state"] == "paused")
        stopped = tranche(site, "stop", job)
        assert stopped.returncode == 0 and show(site, job)["job"]["state"] == "stopped", stopped


def an_elastic_training_gives_and_takes_workers():
    """It starts with all there is, goes on with half while the owner is there, then with all again; same result."""
    code = (EXAMPLES / "training/elastic.py").read_text()
    # Slow while it is watched, and as fast as it can once it has been given and taken from.
    job = {"run": 'PAUSE=$([ $TRANCHE_ATTEMPT -ge 3 ] && echo 0 || echo 1) exec python3 -c "$CODE"', "kind": "training",
           "envs": {"CODE": code, "STEPS": "60"}, "checkpoint": {"signal": "SIGUSR1", "grace": "60s"},
           "resources": {"gpus": "gpu:0.25"}, "limits": {"vram": "50MB"}}
    with shared_site() as site:
        site.until(lambda: site.operator.get("/v1/devices").json["items"])
        settings(site, minimum_run="1s")
        assert site.operator.post("/v1/tenants", {"name": "globex"}).status == 201
        _, token = make_user(site.operator, "globex", "bo", ["member"])
        bo = Client(site.platform.port, token)
        for tenant, quota in (("acme", {"gpu_milli": {"guaranteed": 500}}), ("globex", {})):
            assert site.operator.put(f"/v1/quotas/{tenant}", {"share_soft": True, **quota}).status == 200

        def seen(id_, wanted):
            site.until(lambda: wanted(bo.get(f"/v1/jobs/{id_}").json),
                       lambda: json.dumps({**bo.get(f"/v1/jobs/{id_}").json, "spec": {}}))
            return bo.get(f"/v1/jobs/{id_}").json

        alone = bo.post("/v1/jobs", {**job, "run": 'PAUSE=0 exec python3 -c "$CODE"', "workers": 1}).json["id"]
        assert seen(alone, over)["job"]["state"] == "succeeded"
        # Over before its slice is wiped: all of the device is free after that.
        site.until(lambda: bo.get(f"/v1/jobs/{alone}/receipts").json["verified"])
        asked = subprocess.run([TRANCHE, "run", "-f", "-", "--workers", "1..4", "-o", "name"], input=json.dumps(job), text=True,
                               capture_output=True, timeout=PATIENCE, check=False,
                               env={**os.environ, "TRANCHE_URL": f"http://127.0.0.1:{site.platform.port}", "TRANCHE_TOKEN": token})
        assert asked.returncode == 0, asked.stderr
        training = asked.stdout.strip()

        def at_work(workers, attempt):
            seen(training, lambda d: d["ask"]["nodes"] == workers and d["attempts"] == attempt and d["job"]["state"] == "running")
            site.until(lambda: "tranche: step" in bo.get(f"/v1/jobs/{training}/logs?attempt={attempt}").body)

        at_work(4, 1)
        owner = submit(site, run="sleep 600", resources={"gpus": "gpu:0.5"}, limits={"vram": "50MB"})
        until(site, owner, lambda d: d["job"]["state"] == "running")
        at_work(2, 2)
        shown = subprocess.run([TRANCHE, "show", training], text=True, capture_output=True, timeout=PATIENCE, check=True,
                               env={**os.environ, "TRANCHE_URL": f"http://127.0.0.1:{site.platform.port}", "TRANCHE_TOKEN": token}).stdout
        assert "workers     2 of 1..4" in shown and "goes on with fewer workers" in shown, shown
        site.ana.post(f"/v1/jobs/{owner}/stop")
        detail = seen(training, over)
        settings(site, minimum_run="10m")
        said = results_of(site, training, bo)
        assert detail["job"]["state"] == "succeeded" and detail["attempts"] == 3, \
            (detail["job"], detail["leases"], bo.get(f"/v1/jobs/{training}/logs?attempt=3&stream=stderr").body)
        begun = [line.split() for line in said if line.startswith("from step")]
        assert [words[4] for words in begun] == ["4", "2", "4"], begun
        assert 0 == int(begun[0][2]) < int(begun[1][2]) < int(begun[2][2]), begun
        assert [line for line in said if line.startswith("result")] == \
            [line for line in results_of(site, alone, bo) if line.startswith("result")]


# Saves two checkpoints and says so; in the first attempt it overwrites the second halfway, and dies.
SAVER = """
cd "$TRANCHE_CHECKPOINT_DIR"
echo "attempt $TRANCHE_ATTEMPT resumes from ${TRANCHE_RESUME:-nothing}"
if [ -n "$TRANCHE_RESUME" ]; then cat "$TRANCHE_RESUME"; echo "tranche: step 20/20"; exit 0; fi
echo "ten whole steps" > step-10; echo "tranche: step 10/20"; echo "tranche: checkpoint step-10"
until grep -q step-10 /checkpoint/told 2>/dev/null; do sleep 0.05; done
echo "fifteen whole steps" > step-15; echo "tranche: step 15/20"; echo "tranche: checkpoint step-15"
until grep -q step-15 /checkpoint/told 2>/dev/null; do sleep 0.05; done
printf "fift" > step-15
exit 9
"""


def a_registered_checkpoint_that_was_cut():
    """What the job said is whole is kept with its digest; one that is no longer what it was is passed over."""
    with Site(devices=False) as site:
        agent = site.agent("n1")
        job = submit(site, kind="training", run=SAVER, retry=1)
        for name in ("step-10", "step-15"):
            detail = until(site, job, lambda d, n=name: n in [c["name"] for c in d["checkpoints"]])
            with open(agent.data / "checkpoints" / job / "told", "a", encoding="ascii") as told:
                told.write(name + "\n")
        note = detail["checkpoints"][0]
        assert (note["unit"], note["done"], note["bytes"]) == ("step", 10, 16), note
        assert "checkpoint  step-1" in tranche(site, "show", job).stdout
        detail = until(site, job, over)
        assert detail["job"]["state"] == "succeeded" and detail["attempts"] == 2, detail
        said = site.ana.get(f"/v1/jobs/{job}/logs?attempt=2").body
        assert "resumes from /checkpoint/step-10" in said and "ten whole steps" in said, said
        platform = site.ana.get(f"/v1/jobs/{job}/logs?attempt=2&stream=platform").body
        assert "checkpoint step-15 is not what it was: it is passed over" in platform, platform


def a_training_goes_on_on_another_node():
    """Its node is drained: it goes on on the other one, from the checkpoint that was brought there, with the same result."""
    code = (EXAMPLES / "training/train.py").read_text()
    job = {"run": 'exec python3 -c "$CODE"', "kind": "training", "checkpoint": {"signal": "SIGUSR1", "grace": "60s"},
           "envs": {"CODE": code, "STEPS": "40", "PAUSE": "0.2"}, "resources": {"cpus": "0.25+"}}
    with Site(devices=False) as site:
        site.agent("n1")
        site.agent("n2")
        alone = submit(site, **{**job, "envs": {**job["envs"], "PAUSE": "0"}})
        assert until(site, alone, over)["job"]["state"] == "succeeded"
        moved = submit(site, **job)
        until(site, moved, lambda d: d.get("progress") and d["progress"]["done"] >= 2)
        here = show(site, moved)["job"]["node"]
        answer = site.operator.call("PATCH", f"/v1/nodes/{here}", {"draining": True})
        assert answer.status // 100 == 2, answer
        detail = until(site, moved, over)
        assert detail["job"]["state"] == "succeeded" and detail["attempts"] == 2, detail
        assert detail["job"]["node"] != here, detail
        said = results_of(site, moved)
        steps = [int(line.split()[2].split("/")[0]) for line in said if line.startswith("tranche: step")]
        assert steps == list(range(1, 41)), steps  # None was done twice.
        platform = site.ana.get(f"/v1/jobs/{moved}/logs?attempt=2&stream=platform").body
        assert f"its checkpoint was brought here from node {here}" in platform, platform
        assert [line for line in said if line.startswith("result")] == \
            [line for line in results_of(site, alone) if line.startswith("result")]


def workers_on_two_nodes_find_what_all_saved():
    """Each saves in the folder of its own node; when a node is drained, the one who goes on has what both saved."""
    run = ('cd "$TRANCHE_CHECKPOINT_DIR"; if [ "$TRANCHE_ATTEMPT" -ge 2 ]; then echo found $(ls); exit 0; fi; '
           'trap "exit 75" USR1; echo "$RANK" > "worker-$RANK"; echo "tranche: checkpoint worker-$RANK"; sleep 600 & wait')
    with Site(devices=False) as site:
        site.agent("n1")
        site.agent("n2")
        each = min(site.node(name)["cpus"] for name in ("n1", "n2")) * 0.75  # Of two, none has room for both.
        job = submit(site, run=run, kind="training", workers="1..2", checkpoint={"signal": "SIGUSR1", "grace": "60s"},
                     resources={"cpus": str(each)})
        both = until(site, job, lambda d: {"worker-0", "worker-1"} <= {one["name"] for one in d.get("checkpoints", [])})
        nodes = {lease["node"] for lease in both["leases"]}
        assert len(nodes) == 2, both
        for leaves in nodes - {both["job"]["node"]}:
            assert site.operator.call("PATCH", f"/v1/nodes/{leaves}", {"draining": True}).status // 100 == 2
        detail = until(site, job, over)
        assert detail["job"]["state"] == "succeeded", detail
        said = site.ana.get(f"/v1/jobs/{job}/logs?attempt=2").body
        assert "found worker-0 worker-1" in said, said


if __name__ == "__main__":
    main([a_checkpoint_cut_in_the_middle, a_training_goes_on_where_it_stopped, a_training_gives_way_again_and_again, a_training_is_paused_and_goes_on,
          a_paused_job_goes_on_where_it_was, what_a_pause_would_lose_is_said_first,
          an_elastic_training_gives_and_takes_workers, a_registered_checkpoint_that_was_cut,
          a_training_goes_on_on_another_node, workers_on_two_nodes_find_what_all_saved])
