# SPDX-License-Identifier: Apache-2.0
"""A real server and a real agent: jobs run in the sandbox, and nothing is lost whoever is killed, and when."""
import atexit
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

from tranche_platform import TRANCHE, Client, Platform, main, make_user

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"
PATIENCE = 120  # Seconds that anything may take on a loaded machine before it counts as never.


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Agent:
    """`tranche agent` with a folder of its own; may be killed and started again."""
    prefix = ()  # Where it runs, if not here.

    def __init__(self, site, name):
        self.site, self.name, self.process = site, name, None
        self.data = site.platform.folder / f"agent-{name}"
        invite = site.operator.post("/v1/nodes", {"name": name})
        assert invite.status == 201, invite
        self.invite = invite.json

    def start(self, *more):
        words = [TRANCHE, "agent", "--server", self.invite["address"], "--name", self.name, "--data", self.data]
        if not (self.data / "node.pem").exists():
            words += ["--token", self.invite["token"], "--ca-pin", self.invite["ca_pin"]]
        self.log = open(self.site.platform.folder / f"agent-{self.name}.log", "ab")
        self.process = subprocess.Popen([*self.prefix, *words, *more], stdout=self.log, stderr=self.log,
                                        env={**os.environ, **self.site.agent_environment})
        return self

    def log_text(self):
        return (self.site.platform.folder / f"agent-{self.name}.log").read_text(errors="replace")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()


class Site:
    """One server with short leases, its agents, one tenant with a user."""

    def __init__(self, lease="30s", devices=True, command="server", acceptance="quick", more=()):
        # New devices of this machine are tested for seconds, and not in full, unless the case is about that.
        self.platform = Platform(command=command, acceptance=acceptance, arguments=["--agents", f"127.0.0.1:{free_port()}", "--heartbeat", "300ms",
                                                             "--lease", lease, "--lease-grace", "1s", *more])
        self.agents = []
        # Without devices: the machine's own are not found, and not tested before their first use.
        nothing = self.platform.folder / "no-drivers"
        nothing.mkdir()
        self.agent_environment = {} if devices else {"OCL_ICD_VENDORS": str(nothing)}
        if command == "up":
            self.platform.environment.update(self.agent_environment)

    def __enter__(self):
        self.platform.start()
        self.operator = self.platform.client()
        assert self.operator.post("/v1/tenants", {"name": "acme"}).status == 201
        _, token = make_user(self.operator, "acme", "ana", ["member"])
        self.token = token
        self.ana = Client(self.platform.port, token)
        return self

    def restart(self):
        self.platform.start()
        self.operator = self.platform.client()
        self.ana = Client(self.platform.port, self.token)

    def __exit__(self, *unused):
        for agent in self.agents:
            agent.stop()
        self.platform.__exit__(*unused)

    def agent(self, name="here", *more):
        agent = Agent(self, name)
        self.agents.append(agent)
        agent.start("--drain-on-exit", *more)
        self.until(lambda: self.node(name)["state"] not in ("joining", "lost") and self.node(name)["connected"], agent.log_text)
        return agent

    def node(self, name):
        return self.operator.get(f"/v1/nodes/{name}").json

    def submit(self, run, **more):
        answer = self.ana.post("/v1/jobs", {"run": run, **more})
        assert answer.status == 201, answer
        return answer.json["id"]

    def job(self, job):
        return self.ana.get(f"/v1/jobs/{job}").json

    def state(self, job):
        return self.job(job)["job"]["state"]

    def logs(self, job, stream="stdout"):
        return self.ana.get(f"/v1/jobs/{job}/logs?stream={stream}").body

    def until(self, condition, story=lambda: ""):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"never happened; {story()[-3000:]}"
            time.sleep(0.02)

    def until_state(self, job, *states):
        self.until(lambda: self.state(job) in states, lambda: json.dumps(self.job(job)) + self.agents[-1].log_text())

    def clear(self):
        """Ends all services and jobs."""
        for service in self.ana.get("/v1/services").json["items"]:
            self.ana.call("DELETE", f"/v1/services/{service['name']}")

        def at_work():
            jobs = self.ana.get("/v1/jobs?limit=200").json["items"]
            return [job["id"] for job in jobs if job["state"] not in ("succeeded", "failed", "stopped")]

        for job in at_work():
            self.ana.post(f"/v1/jobs/{job}/stop")
        self.until(lambda: not at_work(), lambda: json.dumps(at_work()))


SHARED = {}


@contextlib.contextmanager
def shared_site(devices=True):
    """The one server and agent of all cases of a file that change neither: starting them is most of a short case. What
    needs no devices says so, and none is tested for it."""
    if devices not in SHARED:
        SHARED[devices] = Site(devices=devices).__enter__()
        atexit.register(SHARED[devices].__exit__, None, None, None)
        SHARED[devices].agent("n1")
    site = SHARED[devices]
    site.operator, site.ana = site.platform.client(), Client(site.platform.port, site.token)
    try:
        yield site
    finally:
        site.clear()


def a_job_runs_and_its_end_is_told():
    """Output, exit code, signal and message of a job come back as they were."""
    with shared_site(devices=False) as site:
        good = site.submit("echo hello from $TRANCHE_JOB; echo trouble >&2")
        bad = site.submit("exit 7")
        shot = site.submit("kill -9 $$")
        for job in (good, bad, shot):
            site.until_state(job, "succeeded", "failed")
        assert site.state(good) == "succeeded", site.job(good)
        assert site.logs(good) == f"hello from {good}\n", site.logs(good)
        assert site.logs(good, "stderr") == "trouble\n"
        assert site.job(bad)["exit_code"] == 7 and site.state(bad) == "failed"
        assert site.job(shot)["exit_signal"] == 9 or site.job(shot)["exit_code"] == 137, site.job(shot)


def invitations_work_once_and_only_for_us():
    """A used, unknown or foreign invitation, and a wrong pin, bring nobody in."""
    with shared_site(devices=False) as site:
        agent = site.agent("first")
        agent.stop()
        shutil.rmtree(agent.data)
        again = agent.start()
        assert again.process.wait(PATIENCE) != 0, again.log_text()
        assert "was used already" in again.log_text() and '"type"' not in again.log_text(), again.log_text()
        other = Agent(site, "second")
        site.agents.append(other)
        other.invite["ca_pin"] = "sha256:" + "0" * 64
        assert other.start().process.wait(PATIENCE) != 0
        assert "pin" in other.log_text() or "certificate" in other.log_text(), other.log_text()
        assert site.node("second")["state"] == "joining"


def a_stop_reaches_the_process():
    """A running job is stopped in its own way, and a time limit ends what does not end by itself."""
    with shared_site(devices=False) as site:
        polite = site.submit("trap 'echo saved; exit 0' USR1 TERM; echo ready; while :; do sleep 0.05; done")
        site.until(lambda: "ready" in site.logs(polite), lambda: json.dumps(site.job(polite)))
        assert site.ana.post(f"/v1/jobs/{polite}/stop").status == 200
        site.until_state(polite, "stopped")
        site.until(lambda: "saved" in site.logs(polite), lambda: json.dumps(site.job(polite)) + site.logs(polite))
        late = site.submit("sleep 1000", limits={"time": "1s"})
        site.until_state(late, "failed")
        assert site.job(late)["end_reason"] == "time_limit", site.job(late)


def whoever_dies_the_work_goes_on():
    """The agent is killed and comes back: the job it ran is adopted. The server is killed: it learns the end."""
    with Site(devices=False) as site:
        agent = site.agent()
        job = site.submit("echo started; until [ -e /checkpoint/go ]; do sleep 0.05; done; echo finished")
        site.until(lambda: "started" in site.logs(job))
        agent.kill()
        agent.start("--drain-on-exit")
        site.platform.kill()
        (agent.data / "checkpoints" / job / "go").touch()  # Nobody is there to hear of its end.
        site.restart()
        site.until_state(job, "succeeded", "failed")
        detail = site.job(job)
        assert detail["job"]["state"] == "succeeded" and detail["attempts"] == 1, detail
        site.until(lambda: site.logs(job) == "started\nfinished\n", lambda: site.logs(job))


def a_new_agent_adopts_every_job():
    """Twenty jobs run while the agent is killed and replaced: each goes on in the same process, and misses nothing, neither
    of its words nor of its files."""
    with Site(devices=False) as site:
        agent = site.agent()
        count = 20
        run = ("echo begin $$; n=0; until [ -e /checkpoint/go ]; do n=$((n+1)); echo line $n; "
               "sleep 0.1; done; cat /etc/passwd > /dev/null && echo end $$")
        jobs = [site.submit(run, resources={"cpus": "0.1"}) for _ in range(count)]
        for job in jobs:
            site.until(lambda job=job: "line 3\n" in site.logs(job), lambda job=job: json.dumps(site.job(job)))
        agent.kill()
        agent.start("--drain-on-exit")
        site.until(lambda: agent.log_text().count("adopted ") == count, agent.log_text)
        for job in jobs:
            seen = site.logs(job).count("\n")
            site.until(lambda job=job, seen=seen: site.logs(job).count("\n") > seen, agent.log_text)  # The new one hears it.
            (agent.data / "checkpoints" / job / "go").touch()
        for job in jobs:
            site.until_state(job, "succeeded", "failed")
            detail = site.job(job)
            assert detail["job"]["state"] == "succeeded" and detail["attempts"] == 1, detail
            site.until(lambda job=job: "end" in site.logs(job), lambda job=job: site.logs(job))
            lines = site.logs(job).splitlines()
            whole = ["begin"] + [f"line {n}" for n in range(1, len(lines) - 1)] + ["end"]
            assert len(lines) > 5, lines
            assert lines[0].split()[1] == lines[-1].split()[1], lines
            assert [lines[0].split()[0], *lines[1:-1], lines[-1].split()[0]] == whole, lines


def a_platform_that_was_killed_goes_on_with_its_jobs():
    """`tranche up` is killed, and its agent with it: no job is ended or begun again, and all are heard of. Nobody else may have
    the folder."""
    with Site(devices=False, command="up") as site:
        run = "echo begin $$; until [ -e /checkpoint/go ]; do sleep 0.05; done; echo end $$"
        jobs = [site.submit(run, resources={"cpus": "0.1"}) for _ in range(16)]
        for job in jobs:
            site.until(lambda job=job: "begin" in site.logs(job), lambda job=job: json.dumps(site.job(job)))
        second = subprocess.Popen([TRANCHE, "agent", "--data", site.platform.data / "agent"], stderr=subprocess.PIPE, text=True)
        assert "another agent (process" in second.stderr.readline()
        second.kill()
        second.communicate()
        site.platform.kill()
        site.restart()
        site.until(lambda: site.operator.get("/v1/nodes").json["items"][0]["connected"])
        for job in jobs:
            (site.platform.data / "agent/checkpoints" / job / "go").touch()
        for job in jobs:
            site.until(lambda job=job: site.state(job) in ("succeeded", "failed", "stopped"), site.platform.log_text)
            detail = site.job(job)
            assert detail["job"]["state"] == "succeeded" and detail["attempts"] == 1, detail
            site.until(lambda job=job: "end" in site.logs(job), lambda job=job: site.logs(job))
            begin, end = site.logs(job).splitlines()
            assert begin.split()[1] == end.split()[1], (begin, end)


def a_silent_node_is_lost_and_its_job_runs_elsewhere():
    """A stopped agent keeps nothing for ever: after its lease the job starts on another node, once."""
    with Site(lease="2s", devices=False) as site:
        first = site.agent("one")
        job = site.submit("echo attempt $TRANCHE_ATTEMPT; [ $TRANCHE_ATTEMPT -gt 1 ] || sleep 60", retry={"attempts": 0})
        site.until_state(job, "running")
        site.agent("two")
        first.process.send_signal(signal.SIGSTOP)
        site.until(lambda: site.node("one")["state"] == "lost")
        site.until_state(job, "succeeded", "failed")
        detail = site.job(job)
        assert detail["job"]["state"] == "succeeded" and detail["job"]["node"] == "two", detail
        first.process.send_signal(signal.SIGCONT)
        site.until(lambda: site.node("one")["state"] != "lost", first.log_text)
        assert site.job(job)["attempts"] == 2


def real_devices_are_shared_within_their_limits():
    """Two tenants on the one OpenCL device of this machine: each sees the size of its slice, who asks for more is refused at
    the limit, and the neighbour finds every byte as it wrote it and its results right."""
    with Site() as site:
        site.agent()
        devices = site.operator.get("/v1/devices").json["items"]
        if not devices:
            return "[skipped] no device was found on this machine"
        assert not devices[0]["simulated"]
        assert site.operator.post("/v1/tenants", {"name": "blue"}).status == 201
        _, token = make_user(site.operator, "blue", "lee", ["member"])
        lee = Client(site.platform.port, token)
        for tenant in ("acme", "blue"):
            assert site.operator.put(f"/v1/quotas/{tenant}", {"share_soft": True}).status == 200
        wish = {"run": 'exec python3 -c "$CODE"', "resources": {"gpus": "512MiB"}, "limits": {"compute": "30%"}}
        envs = {"CODE": (EXAMPLES / "sharing/slice.py").read_text(), "HOLD": "256"}
        good = site.submit(**wish | {"envs": envs | {"SECONDS": "5"}})
        site.until(lambda: "holds" in site.logs(good), lambda: site.logs(good, "stderr"))
        greedy = lee.post("/v1/jobs", wish | {"envs": envs | {"SECONDS": "0", "ASK": "257"}}).json["id"]
        site.until(lambda: lee.get(f"/v1/jobs/{greedy}").json["job"]["state"] == "failed",
                   lambda: lee.get(f"/v1/jobs/{greedy}").body)
        site.until_state(good, "succeeded", "failed")
        kept = ["my device has 512 MiB", "holds 256 MiB", "256 MiB read back: every byte as written"]
        lines = site.logs(good).splitlines()
        assert [*lines[:2], lines[-1]] == kept and lines[2].endswith("result verified"), (lines, site.logs(good, "stderr"))
        lines = lee.get(f"/v1/jobs/{greedy}/logs?stream=stdout").body.splitlines()
        assert [*lines[:2], lines[-1]] == kept, lines
        assert lines[2] == "asked for 257 MiB more: refused, OpenCL error -4", lines
    return None


def a_gang_that_could_not_talk_is_refused():
    """Where no node lets members reach each other, they are told so at once, instead of waiting for each other."""
    with Site(devices=False) as site:
        site.agent("here", "--job-network", "none")
        wish = {"run": "true", "num_nodes": 2, "network": "gang", "resources": {"cpus": 0.1}}
        answer = site.ana.post("/v1/jobs", wish)
        assert answer.status == 422 and "reach each other" in answer.body, answer
        alone = site.submit("true", num_nodes=2, resources={"cpus": 0.1})  # That need not talk.
        site.until_state(alone, "succeeded", "failed")
        assert site.state(alone) == "succeeded", site.job(alone)


def simulated_nodes_say_so_everywhere():
    """A simulated job executes nothing, lasts as long as it declares, and is marked wherever it appears."""
    with shared_site(devices=False) as site:
        script = site.platform.folder / "fleet.yaml"
        script.write_text("devices:\n  - model: H100-SXM5-80GB\n    count: 8\n")
        site.agent("sim-a", "--simulated", script)
        devices = site.operator.get("/v1/devices").json["items"]
        assert len(devices) == 8 and all(device["simulated"] for device in devices), devices
        mark = site.platform.folder / "executed"
        job = site.submit(f"touch {mark}", resources={"gpus": "H100"}, infra="simulated", labels={"sim.duration": "1s"})
        real = site.ana.post("/v1/jobs", {"run": "true", "resources": {"gpus": "H100"}})
        assert real.status == 422 and "simulated devices take jobs that say infra: simulated" in real.body, real
        site.until_state(job, "succeeded", "failed")
        detail = site.job(job)
        assert detail["job"]["state"] == "succeeded" and detail["job"]["simulated"], detail
        assert not mark.exists()


def granted_partitions_fit_the_device():
    """What the scheduler grants, the device can be cut into: its own table refuses what is not legal, or overlaps."""
    with shared_site(devices=False) as site:
        script = site.platform.folder / "partitions.yaml"
        script.write_text("devices:\n  - {model: A100-80GB, mode: partitioned, partitions: [3g.40gb@4]}\n")  # Left over.
        agent = site.agent("sim-b", "--simulated", script)

        def cut(profile, length):
            return site.submit("true", resources={"gpus": f"A100-80GB:{profile}"}, infra="simulated", labels={"sim.duration": length})

        small = [cut("1g.10gb", "300s") for _ in range(7)]
        for job in small:
            site.until_state(job, "running", "failed")
            assert site.state(job) == "running", site.job(job)
        large = cut("3g.40gb", "1s")
        assert site.state(large) == "pending"
        for job in small:
            assert site.ana.post(f"/v1/jobs/{job}/stop").status == 200
        site.until_state(large, "succeeded", "failed")
        detail = site.job(large)
        assert detail["job"]["state"] == "succeeded", detail
        assert "refused" not in agent.log_text(), agent.log_text()[-2000:]


if __name__ == "__main__":
    main([a_job_runs_and_its_end_is_told, a_stop_reaches_the_process, simulated_nodes_say_so_everywhere,
          granted_partitions_fit_the_device, invitations_work_once_and_only_for_us,
          whoever_dies_the_work_goes_on, a_new_agent_adopts_every_job,
          a_platform_that_was_killed_goes_on_with_its_jobs, a_silent_node_is_lost_and_its_job_runs_elsewhere,
          real_devices_are_shared_within_their_limits, a_gang_that_could_not_talk_is_refused])
