# SPDX-License-Identifier: Apache-2.0
"""Bad days of the link: messages twice and out of turn, agents that stop and come back, and everybody killed in every
order. Whatever happens: one lease at a time, one result, nothing left over."""
import contextlib
import itertools
import os
import pathlib
import signal
import time

from fault_proxy import FaultProxy
from node_test import Agent, Site
from tranche_platform import LONG, main

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
    """A link that repeats a third of all messages and swaps a tenth: every job runs once, and its words come whole."""
    with Site(devices=False) as site:
        agent = site.agent()
        agent.stop()
        platform, port = site.platform, int(agent.invite["address"].rsplit(":", 1)[1])
        authority = (platform.data / "tls/ca.pem", platform.data / "tls/ca.key")
        seed = int(os.environ.get("TRANCHE_SEED", time.time_ns() % 1_000_000))
        proxy = FaultProxy(platform.folder, authority, port, (agent.data / "node.pem", agent.data / "node.key"),
                           repeat=0.3, swap=0.1, seed=seed)
        agent.invite["address"] = agent.invite["address"].replace(f":{port}", f":{proxy.port}")
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


def a_stopped_agent_is_fenced():
    """An agent that hears nothing for longer than its lease finds its job ended, and its late report is refused."""
    with Site(lease="2s", devices=False) as site:
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
    with Site(devices=False) as site:
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
    main([repeated_and_swapped_messages_change_nothing, a_stopped_agent_is_fenced,
          whoever_is_killed_in_whatever_order])
