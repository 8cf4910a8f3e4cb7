# SPDX-License-Identifier: Apache-2.0
"""Bad days of the link: messages twice and out of turn, networks cut in one or both directions, agents that stop and
come back, and everybody killed in every order. Whatever happens: one lease at a time, one result, nothing left over."""
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from fault_proxy import FaultProxy
from node_test import Agent, Site
from tranche_platform import LONG, TRANCHE, main

TICKS = "while :; do read up rest < /proc/uptime; echo $TRANCHE_ATTEMPT $up; sleep 0.05; done"


def ticks(site, job, attempt):
    body = site.ana.get(f"/v1/jobs/{job}/logs?attempt={attempt}").body
    return [float(line.split()[1]) for line in body.splitlines() if line.endswith(tuple("0123456789")) and " " in line]


def never_two_at_once(site, job, attempts):
    """By the clock of the machine that both nodes are on: an attempt has written its last before the next begins."""
    spans = [(min(all_of), max(all_of)) for attempt in range(1, attempts + 1) if (all_of := ticks(site, job, attempt))]
    for before, after in itertools.pairwise(spans):
        assert before[1] < after[0], spans


def repeated_and_swapped_messages_change_nothing():
    """A link that repeats a third of all messages and swaps others: every job runs once, and its words come whole."""
    with Site() as site:
        agent = site.agent()
        agent.stop()
        platform, port = site.platform, int(agent.invite["address"].rsplit(":", 1)[1])
        authority = (platform.data / "tls/ca.pem", platform.data / "tls/ca.key")
        seed = int(os.environ.get("TRANCHE_SEED", time.time_ns() % 1_000_000))
        proxy = FaultProxy(platform.folder, authority, port, (agent.data / "node.pem", agent.data / "node.key"),
                           repeat=0.3, swap=0.03, seed=seed)
        for file in agent.data.iterdir():
            if file.is_file() and f":{port}" in (text := file.read_text(errors="replace")):
                file.write_text(text.replace(f":{port}", f":{proxy.port}"))
        agent.start("--drain-on-exit")
        count = 200 if LONG else 12
        jobs = [site.submit(f"echo begin {i}; seq 1 2000; echo end; exit {i % 3}") for i in range(count)]
        words = "".join(f"{i}\n" for i in range(1, 2001))
        for i, job in enumerate(jobs):
            site.until_state(job, "succeeded", "failed")
            detail = site.job(job)
            story = f"seed {seed}: {proxy.counts} {detail}"
            assert detail["attempts"] == 1 and detail["exit_code"] == i % 3, story
            site.until(lambda job=job: site.logs(job).endswith("end\n"), lambda: story)
            assert site.logs(job) == f"begin {i}\n{words}end\n", story
        assert proxy.counts["repeated"] > 0 and proxy.counts["swapped"] > 0, proxy.counts
        proxy.close()
    return f"{proxy.counts['passed']} messages, {proxy.counts['repeated']} repeated, {proxy.counts['swapped']} swapped"


def networks():
    """Whether this machine lets us make network namespaces."""
    return os.geteuid() == 0 and shutil.which("ip") and subprocess.run(
        ["ip", "netns", "list"], capture_output=True, check=False).returncode == 0


SERVER = "10.213.255.1"  # Where agents find the server: one address, reached over a wire of each host's own.


class Host:
    """A machine of its own as far as the network goes: a namespace with one wire to the server."""

    def __init__(self, number):
        self.space = f"tranche-{os.getpid()}-{number}"
        self.wire = f"tr{os.getpid() % 100000}{number}"
        self.ours, self.theirs = f"10.213.{number}.1", f"10.213.{number}.2"

    def run(self, *words, inside=False):
        subprocess.run(["ip", *(["-n", self.space] if inside else []), *words], check=True, capture_output=True)

    def __enter__(self):
        self.run("netns", "add", self.space)
        self.run("link", "add", self.wire, "type", "veth", "peer", "name", "up0", "netns", self.space)
        self.run("addr", "add", f"{self.ours}/24", "dev", self.wire)
        self.run("link", "set", self.wire, "up")
        self.run("addr", "add", f"{self.theirs}/24", "dev", "up0", inside=True)
        self.run("link", "set", "up0", "up", inside=True)
        self.run("link", "set", "lo", "up", inside=True)
        self.run("route", "add", f"{SERVER}/32", "via", self.ours, inside=True)
        return self

    def __exit__(self, *unused):
        for words in (["route", "del", "blackhole", f"{self.theirs}/32"], ["link", "del", self.wire],
                      ["netns", "del", self.space]):
            subprocess.run(["ip", *words], capture_output=True, check=False)

    def cut(self, way):
        if way in ("both", "up"):
            self.run("route", "replace", "blackhole", f"{SERVER}/32", inside=True)
        if way in ("both", "down"):
            self.run("route", "add", "blackhole", f"{self.theirs}/32")

    def mend(self, way):
        if way in ("both", "up"):
            self.run("route", "del", "blackhole", f"{SERVER}/32", inside=True)
            self.run("route", "replace", f"{SERVER}/32", "via", self.ours, inside=True)
        if way in ("both", "down"):
            self.run("route", "del", "blackhole", f"{self.theirs}/32")


@contextlib.contextmanager
def server_address():
    """On the loopback interface, for as long as the test lasts."""
    subprocess.run(["ip", "addr", "add", f"{SERVER}/32", "dev", "lo"], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["ip", "addr", "del", f"{SERVER}/32", "dev", "lo"], check=False, capture_output=True)


class FarAgent(Agent):
    """An agent on a host of its own."""

    def __init__(self, site, name, host):
        self.host = host
        super().__init__(site, name)

    def start(self, *more):
        words = ["ip", "netns", "exec", self.host.space, TRANCHE, "agent", "--server", self.invite["address"], "--name",
                 self.name, "--data", self.data]
        if not (self.data / "node.pem").exists():
            words += ["--token", self.invite["token"], "--ca-pin", self.invite["ca_pin"]]
        self.log = open(self.site.platform.folder / f"agent-{self.name}.log", "ab")
        self.process = subprocess.Popen([*words, *more], stdout=self.log, stderr=self.log)
        return self


def a_cut_network_never_gives_two_leases():
    """Cut off in one or both directions, a node's job ends before it begins elsewhere; what comes late is refused."""
    if not networks():
        return "[skipped] network namespaces need root and iproute2"
    with contextlib.ExitStack() as stack:
        site = Site(lease="2s")
        stack.enter_context(server_address())
        hosts = [stack.enter_context(Host(number)) for number in (1, 2)]
        at = site.platform.arguments.index("--agents") + 1
        site.platform.arguments[at] = site.platform.arguments[at].replace("127.0.0.1", SERVER)
        stack.enter_context(site)
        agents = {}
        for host, name in zip(hosts, ("one", "two")):
            agents[name] = FarAgent(site, name, host)
            site.agents.append(agents[name])
            agents[name].start("--drain-on-exit")
            site.until(lambda name=name: site.node(name)["connected"], agents[name].log_text)
        for way in ("both", "up", "down") * (10 if LONG else 1):
            job = site.submit(TICKS)
            site.until_state(job, "running")
            site.until(lambda: ticks(site, job, 1))
            here = site.job(job)["job"]["node"]
            there = "two" if here == "one" else "one"
            host = agents[here].host
            host.cut(way)
            site.until(lambda: site.job(job)["attempts"] == 2 and ticks(site, job, 2), agents[there].log_text)
            assert site.job(job)["job"]["node"] == there, site.job(job)
            host.mend(way)
            site.until(lambda: site.node(here)["connected"] and site.node(here)["state"] == "ready", agents[here].log_text)
            assert site.ana.post(f"/v1/jobs/{job}/stop").status == 200
            site.until_state(job, "stopped")
            assert site.job(job)["attempts"] == 2, site.job(job)
            never_two_at_once(site, job, 2)
    return None


def a_stopped_agent_is_fenced():
    """An agent that hears nothing for longer than its lease finds its job ended, and its late report is refused."""
    with Site(lease="2s") as site:
        agents = {name: site.agent(name) for name in ("one", "two")}
        for _ in range(10 if LONG else 1):
            job = site.submit(TICKS)
            site.until(lambda: ticks(site, job, 1))
            here = site.job(job)["job"]["node"]
            agents[here].process.send_signal(signal.SIGSTOP)
            site.until(lambda: site.job(job)["attempts"] == 2 and ticks(site, job, 2))
            agents[here].process.send_signal(signal.SIGCONT)
            site.until(lambda: site.node(here)["connected"] and site.node(here)["state"] == "ready", agents[here].log_text)
            assert site.ana.post(f"/v1/jobs/{job}/stop").status == 200
            site.until_state(job, "stopped")
            assert site.job(job)["attempts"] == 2, site.job(job)
            never_two_at_once(site, job, 2)


def whoever_is_killed_in_whatever_order():
    """Agent, server and job are killed in every order: each job ends once, and no process is left over."""
    with Site() as site:
        agent = site.agent()
        for number, order in enumerate(itertools.permutations(("agent", "server", "job"))):
            mark = f"{31000 + number}.{os.getpid()}"
            job = site.submit(f"echo up; sleep {mark}")
            site.until(lambda: site.logs(job) == "up\n", agent.log_text)
            for who in order:
                if who == "agent":
                    agent.kill()
                elif who == "server":
                    site.platform.kill()
                else:
                    for pid in processes_with(mark):
                        os.kill(pid, signal.SIGKILL)
            site.restart()
            agent.start("--drain-on-exit")
            site.until_state(job, "failed", "succeeded", "stopped")
            detail = site.job(job)
            assert detail["attempts"] == 1 and detail["exit_code"] == 137, (order, detail)
            site.until(lambda mark=mark: not processes_with(mark))


def processes_with(mark):
    """Of any user, by their command lines: the job's own sleep, wherever it runs."""
    found = []
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (place / "cmdline").read_bytes().split(b"\0")
            if words[:1] == [b"sleep"] and mark.encode() in words:
                found.append(int(place.name))
    return found


if __name__ == "__main__":
    main([repeated_and_swapped_messages_change_nothing, a_cut_network_never_gives_two_leases, a_stopped_agent_is_fenced,
          whoever_is_killed_in_whatever_order])
