# SPDX-License-Identifier: Apache-2.0
"""Server and nodes as hosts of their own: each in a network namespace, joined by wires that are cut in one direction or in
both. Whatever is cut: one lease at a time, one result, nothing left over."""
import atexit
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse

from node_test import Agent, Site, free_port
from partition_test import TICKS, never_two_at_once, ticks
from tranche_platform import LONG, main

SERVER = "10.213.0.1"


def run(*words, given=None):
    subprocess.run([str(word) for word in words], check=True, input=given, text=True, stdout=subprocess.DEVNULL)


class Host:
    """A network of its own with one wire to the server's. Packets to other hosts go through the server's."""

    def __init__(self, name, number):
        self.name, self.wire, self.address = name, f"to-{name}", f"10.213.{number}.2"
        self.holder = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo up; exec sleep infinity"], stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        run("ip", "link", "add", self.wire, "type", "veth", "peer", "name", "eth0", "netns", self.holder.pid)
        run("ip", "addr", "add", f"10.213.{number}.1/24", "dev", self.wire)
        run("ip", "link", "set", self.wire, "up")
        self.inside("ip", "link", "set", "lo", "up")
        self.inside("ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
        self.inside("ip", "link", "set", "eth0", "up")
        self.inside("ip", "route", "add", "default", "via", f"10.213.{number}.1")

    def prefix(self):
        return ["nsenter", "-t", str(self.holder.pid), "-n", "--"]

    def inside(self, *words):
        run(*self.prefix(), *words)

    def close(self):
        self.holder.kill()
        self.holder.wait()


class HostAgent(Agent):
    """An agent that runs on a host, and not beside the server."""

    def __init__(self, site, host):
        super().__init__(site, host.name)
        self.prefix = host.prefix()


class Hosts(Site):
    """The test process is on the server's host."""

    def __init__(self, *names, lease="2s", serves=False):
        super().__init__(lease, devices=False)
        self.platform.arguments[1] = f"{SERVER}:{free_port()}"
        self.serves = serves
        self.hosts = {name: Host(name, number + 1) for number, name in enumerate(names)}

    def __enter__(self):
        super().__enter__()
        for host in self.hosts.values():
            agent = HostAgent(self, host)
            self.agents.append(agent)
            agent.start("--drain-on-exit", *self.serving(host.name))
        for agent in self.agents:
            self.until(lambda agent=agent: self.node(agent.name)["connected"] and self.node(agent.name)["state"] == "ready",
                       agent.log_text)
        return self

    def __exit__(self, *unused):
        self.heal()
        super().__exit__(*unused)
        for host in self.hosts.values():
            host.close()
            subprocess.run(["ip", "link", "del", host.wire], stderr=subprocess.DEVNULL, check=False)

    def serving(self, name):
        return ("--service-address", self.hosts[name].address) if self.serves else ()

    def cut(self, name, direction):
        """What comes from the host, what goes to it, or both, is lost without a word."""
        wire = self.hosts[name].wire
        rules = [f'{hook} {way} "{wire}" drop' for hook, way in (("input", "iifname"), ("output", "oifname"))
                 if direction == "both" or direction == {"input": "from", "output": "to"}[hook]]
        chains = "".join(f"chain {rule.split()[0]} {{ type filter hook {rule.split()[0]} priority 0; "
                         f"{rule.split(' ', 1)[1]}; }}\n" for rule in rules)
        run("nft", "-f", "-", given=f"table inet cuts {{\n{chains}}}\n")

    def heal(self):
        subprocess.run(["nft", "delete", "table", "inet", "cuts"], stderr=subprocess.DEVNULL, check=False)


SHARED = []


@contextlib.contextmanager
def patient_hosts():
    """Two hosts whose leases last longer than any cut here, the same for all cases that leave them as they were."""
    if not SHARED:
        SHARED.append(Hosts("one", "two", lease="60s", serves=True).__enter__())
        atexit.register(SHARED[0].__exit__, None, None, None)
    try:
        yield SHARED[0]
    finally:
        SHARED[0].heal()
        SHARED[0].clear()


def runs_on(site, job):
    """The agent of the host that has the job."""
    site.until_state(job, "running")
    return next(agent for agent in site.agents if agent.name == site.job(job)["job"]["node"])


def a_host_that_is_cut_off_loses_its_job_once():
    """Cut from the server, to it, and both: the job goes on elsewhere after the lease, never twice at once."""
    with Hosts("one", "two") as site:
        for direction in ("from", "to", "both") * (5 if LONG else 1):
            job = site.submit(TICKS)
            site.until(lambda: ticks(site, job, 1))
            here = site.job(job)["job"]["node"]
            site.cut(here, direction)
            site.until(lambda: site.job(job)["attempts"] == 2 and ticks(site, job, 2))
            assert site.job(job)["job"]["node"] != here, site.job(job)
            site.heal()
            site.until(lambda: site.node(here)["connected"] and site.node(here)["state"] == "ready",
                       lambda: "".join(agent.log_text() for agent in site.agents))
            assert site.ana.post(f"/v1/jobs/{job}/stop").status == 200
            site.until_state(job, "stopped")
            assert site.job(job)["attempts"] == 2, (direction, site.job(job))
            never_two_at_once(site, job, 2)


def a_cut_shorter_than_the_lease_disturbs_nothing():
    """The wire is cut and mended within a lease, in every direction: the same attempt goes on, and its words come whole."""
    with patient_hosts() as site:
        job = site.submit("n=0; while :; do n=$((n+1)); echo $n; sleep 0.05; done")
        agent = runs_on(site, job)
        for direction in ("from", "to", "both"):
            site.until(lambda: site.node(agent.name)["connected"], agent.log_text)
            seen = site.logs(job).count("\n")
            site.until(lambda seen=seen: site.logs(job).count("\n") > seen)
            breaks = agent.log_text().count("link broke")
            site.cut(agent.name, direction)
            if direction == "both":  # Until the link is given up; the others last for some heartbeats.
                site.until(lambda breaks=breaks: site.state(job) == "running" and
                           (agent.log_text().count("link broke") > breaks or not site.node(agent.name)["connected"]),
                           agent.log_text)
            else:
                time.sleep(1)
            site.heal()
        site.until(lambda: site.node(agent.name)["connected"], agent.log_text)
        assert site.ana.post(f"/v1/jobs/{job}/stop").status == 200
        site.until_state(job, "stopped")
        assert site.job(job)["attempts"] == 1, site.job(job)
        lines = site.logs(job).split()
        assert lines == [str(n + 1) for n in range(len(lines))], lines[-5:]


def a_killed_agent_behind_a_cut_comes_back_with_its_job():
    """The agent is killed and started again while nothing reaches the server: its job goes on, and is told about once."""
    with patient_hosts() as site:
        job = site.submit("echo begin $$; while [ ! -e /checkpoint/end ]; do sleep 0.05; done; echo end $$")
        agent = runs_on(site, job)
        site.until(lambda: "begin" in site.logs(job), agent.log_text)
        site.cut(agent.name, "both")
        agent.kill()
        agent.start("--drain-on-exit", *site.serving(agent.name))
        site.until(lambda: "adopted" in agent.log_text(), agent.log_text)
        (agent.data / "checkpoints" / job / "end").touch()
        site.heal()
        site.until_state(job, "succeeded", "failed")
        assert site.job(job)["attempts"] == 1 and site.state(job) == "succeeded", site.job(job)
        site.until(lambda: site.logs(job).count("\n") == 2)
        first, last = site.logs(job).split("\n")[:2]
        assert first.split()[1] == last.split()[1], site.logs(job)


GANG = """exec python3 - <<'P'
import os, socket, time
rank, size, master = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["MASTER_ADDR"]
print("peers", os.environ["TRANCHE_PEERS"], flush=True)
if rank == 0:
    server = socket.create_server(("", int(os.environ["MASTER_PORT"])))
    other, _ = server.accept()
    data = b""
    while len(data) < 3_000_000: data += other.recv(1 << 16)
    other.sendall(b"got all")
    print("heard", len(data), set(data) == {7}, flush=True)
    time.sleep(600)
for _ in range(600):
    try: wire = socket.create_connection((master, int(os.environ["MASTER_PORT"])), 5); break
    except OSError: time.sleep(0.1)
wire.sendall(bytes([7]) * 3_000_000)
print("told", wire.recv(100).decode(), flush=True)
for what, place in (("the node", "10.213.1.2"), ("the server", "10.213.0.1"), ("the world", "203.0.113.7")):
    port = int(os.environ["SERVER_PORT"]) if what == "the server" else 22
    try: socket.create_connection((place, port), 2); print("reached", what)
    except ConnectionRefusedError: print("reached", what)
    except OSError: print("closed:", what)
print("looked", flush=True)
time.sleep(600)
P"""
LOOK = """exec python3 - <<'P'
import os, socket
for n in range(1, 9):
    try: socket.create_connection((f"10.117.0.{n}", int(os.environ["MASTER_PORT"])), 1); print("reached", n)
    except ConnectionRefusedError: print("refused by", n)
    except OSError: pass
print("looked")
P"""


def members_of_a_gang_reach_each_other_and_nobody_else():
    """Over two hosts whose jobs have networks of their own: members talk, others do not hear them, nor they others."""
    with patient_hosts() as site:
        port = site.platform.arguments[1].rsplit(":", 1)[1]
        gang = site.submit(GANG, num_nodes=2, network="gang", resources={"cpus": 1.5}, envs={"SERVER_PORT": port})
        stories = [lambda: json.dumps(site.job(gang)) + "".join(agent.log_text() for agent in site.agents)]

        def words(rank):
            return site.ana.get(f"/v1/jobs/{gang}/logs?rank={rank}").body + \
                site.ana.get(f"/v1/jobs/{gang}/logs?rank={rank}&stream=stderr").body

        site.until(lambda: "heard" in words(0) and "looked" in words(1), lambda: stories[0]() + words(0) + words(1))
        assert "heard 3000000 True" in words(0) and "told got all" in words(1), words(0) + words(1)
        assert "peers 10.117.0.1,10.117.0.2" in words(0), words(0)
        assert "reached" not in words(1) and words(1).count("closed:") == 3, words(1)
        nodes = {lease["node"] for lease in site.job(gang)["leases"]}
        # Neither another gang nor a job with nothing, nor the node, reaches a member.
        for other in (site.submit(LOOK, resources={"cpus": 0.2}), site.submit(LOOK, network="internet", resources={"cpus": 0.2})):
            site.until_state(other, "succeeded", "failed")
            assert site.logs(other) == "looked\n", site.logs(other) + site.logs(other, "stderr")
        for host in site.hosts.values():
            knock = "import socket; socket.create_connection(('10.117.0.1', 29500), 2)"
            done = subprocess.run([*host.prefix(), "python3", "-c", knock], stderr=subprocess.DEVNULL, check=False)
            assert done.returncode != 0
        assert site.ana.post(f"/v1/jobs/{gang}/stop").status == 200
        site.until_state(gang, "stopped")
        return f"on {len(nodes)} nodes"


# Answers with what it was sent, and with a word of its own.
ECHO = """exec python3 - <<'P'
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *unused): pass
    def do_GET(self):
        text = b"ANSWER-IN-THE-CLEAR " + self.headers.get("X-Word", "").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
P"""


class Wiretap:
    """Everything that passes on a wire."""

    def __init__(self, wire):
        self.tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.tap.bind((wire, 0))
        self.tap.settimeout(0.2)
        self.heard, self.going = b"", True
        self.thread = threading.Thread(target=self.listen)
        self.thread.start()

    def listen(self):
        while self.going:
            try:
                self.heard += self.tap.recv(65535)
            except (TimeoutError, OSError):  # The wire goes when the hosts do.
                pass

    def end(self):
        self.going = False
        self.thread.join()
        self.tap.close()
        return self.heard


def requests_between_machines_are_sealed():
    """The gateway reaches a replica on another host under mutual TLS: the wire tells nothing, and nobody else comes in."""
    with patient_hosts() as site:
        body = {"name": "echo", "ready": "/", "job": {"run": ECHO, "port": 8000, "resources": {"cpus": "0.25+"}}}
        assert site.ana.put("/v1/services", body).status == 200
        site.until(lambda: site.ana.get("/v1/services/echo").json["ready"] == 1,
                   lambda: site.ana.get("/v1/services/echo").body + site.agents[0].log_text())
        view = site.ana.get("/v1/services/echo").json
        url, door = urllib.parse.urlsplit(view["url"]), view["copies"][0]["address"]
        at = [host for host in site.hosts.values() if door.startswith(host.address + ":")]
        assert len(at) == 1, view
        tap = Wiretap(at[0].wire)
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=30)  # The gateway is on this host.
        for _ in range(3):
            connection.request("GET", url.path + "/", headers={"Authorization": f"Bearer {site.token}", "X-Word": "QUESTION-IN-THE-CLEAR"})
            answer = connection.getresponse().read()
            assert answer == b"ANSWER-IN-THE-CLEAR QUESTION-IN-THE-CLEAR", answer
        heard = tap.end()
        assert len(heard) > 1000 and b"IN-THE-CLEAR" not in heard and b"HTTP/1.1" not in heard, heard[:300]
        # Whoever else reaches the door is not let in: without TLS, and with a certificate of nobody's.
        host, port = door.rsplit(":", 1)
        plain = socket.create_connection((host, int(port)), 5)
        plain.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        plain.settimeout(10)
        try:
            assert b"ANSWER" not in plain.recv(4096)
        except ConnectionResetError:
            pass
        try:
            sealed = ssl._create_unverified_context().wrap_socket(socket.create_connection((host, int(port)), 5))
            sealed.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert b"ANSWER" not in sealed.recv(4096)
        except (ssl.SSLError, ConnectionResetError):
            pass
        # Another node's own certificate opens nothing either.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.load_cert_chain(site.agents[0].data / "node.pem", site.agents[0].data / "node.key")
        try:
            node = context.wrap_socket(socket.create_connection((host, int(port)), 5))
            node.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert b"ANSWER" not in node.recv(4096)
        except (ssl.SSLError, ConnectionResetError):
            pass


if __name__ == "__main__":
    able = os.geteuid() == 0 and all(map(shutil.which, ("ip", "nft", "nsenter", "unshare")))
    if not able:
        print("[skipped] hosts in network namespaces need root, iproute2 and nft")
        print("0 passed, 0 failed, 1 skipped")
        sys.exit(0)
    if "TRANCHE_HOSTS_INSIDE" not in os.environ:  # Once more, on a host of its own.
        os.environ["TRANCHE_HOSTS_INSIDE"] = "1"
        os.execvp("unshare", ["unshare", "-n", sys.executable, *sys.argv])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    run("ip", "link", "set", "lo", "up")
    run("ip", "addr", "add", f"{SERVER}/32", "dev", "lo")
    run("sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
    main([a_host_that_is_cut_off_loses_its_job_once, a_cut_shorter_than_the_lease_disturbs_nothing,
          a_killed_agent_behind_a_cut_comes_back_with_its_job, members_of_a_gang_reach_each_other_and_nobody_else,
          requests_between_machines_are_sealed])
