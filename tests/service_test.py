# SPDX-License-Identifier: Apache-2.0
"""Services behind the gateway, on a real server and agent: ready, balanced, replaced, changed, gone and back."""
import http.client
import json
import os
import pathlib
import subprocess
import threading
import time
import urllib.parse

from node_test import PATIENCE, shared_site
from tranche_platform import TRANCHE, main, make_user

SERVER = (pathlib.Path(__file__).parent.parent / "examples/service/server.py").read_text()

# Debian's own WebSocket server as a replica: nothing of ours is at that end.
TALKER = """
import asyncio, http, os, websockets
async def talk(socket):
    async for message in socket:
        await socket.send(message[::-1])
async def health(path, headers):
    return (http.HTTPStatus.OK, [], b"ok") if path == "/health" else None
async def main():
    async with websockets.serve(talk, "127.0.0.1", int(os.environ["PORT"]), process_request=health, max_size=None):
        await asyncio.Future()
asyncio.run(main())
"""
# The same package as the client. Says what it was answered, and stays until its input ends.
CALLER = """
import asyncio, sys, websockets
async def main(url, token):
    try:
        async with websockets.connect(url, extra_headers={"Authorization": "Bearer " + token}, max_size=None) as socket:
            for message in ("hello", bytes(range(256)) * 4096, "again"):
                await socket.send(message)
                assert await socket.recv() == message[::-1]
            print(101, socket.response_headers["X-Tranche-Version"], flush=True)
            await asyncio.to_thread(sys.stdin.read)
    except websockets.exceptions.InvalidStatusCode as refused:
        print(refused.status_code, flush=True)
asyncio.run(main(*sys.argv[1:]))
"""
DEBIAN_PYTHON = "/usr/bin/python3"  # The one that Debian's packages are for.
# Answers one request after the other, each after a while.
SLOW = """
import http.server, json, os, time
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *unused): pass
    def do_GET(self):
        time.sleep(0 if self.path == "/health" else 0.1)
        body = json.dumps({"job": os.environ["TRANCHE_JOB"]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""
# Takes connections, and never answers.
MUTE = """
import os, socket, time
listener = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
kept = []
while True: kept.append(listener.accept())
"""


class Service:
    def __init__(self, site, **more):
        self.site = site
        self.body = {"name": "echo", "ready": "/health", "timeout": "60s", "concurrency": 16, "queue": 1000,
                     "replicas": {"min": 1, "max": 1},
                     "job": {"run": "exec python3 -c \"$CODE\"", "port": 8000, "resources": {"cpus": "0.25+"},
                             "envs": {"CODE": SERVER}}}
        self.body.update(more)

    def set(self, **more):
        self.body.update(more)
        answer = self.site.ana.put("/v1/services", self.body)
        assert answer.status == 200, answer
        self.url = answer.json["url"] or self.view()["url"]
        return self

    def view(self):
        answer = self.site.ana.get("/v1/services/echo")
        assert answer.status == 200, answer
        return answer.json

    def until(self, wanted):
        deadline = time.monotonic() + PATIENCE
        while True:
            view = self.view()
            if wanted(view):
                return view
            assert time.monotonic() < deadline, json.dumps(view) + self.site.agents[-1].log_text()[-2000:]
            time.sleep(0.02)

    def connect(self):
        url = urllib.parse.urlsplit(self.url)  # From any thread.
        return http.client.HTTPConnection(url.hostname, url.port, timeout=PATIENCE), url.path

    def ask(self, path="/", method="GET", body=None, token=None, headers=None):
        connection, prefix = self.connect()
        sent = {"Authorization": f"Bearer {token or self.site.token}", **(headers or {})}
        connection.request(method, prefix + path, body, sent)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, text, answer.headers


class Load:
    """Requests from several threads until told to end; every answer is looked at."""

    def __init__(self, service, threads=4):
        self.service, self.going, self.answers, self.bad = service, True, [], []
        self.threads = [threading.Thread(target=self.run) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def run(self):
        connection, prefix = self.service.connect()
        while self.going:
            try:
                connection.request("GET", prefix + "/", headers={"Authorization": f"Bearer {self.service.site.token}"})
                answer = connection.getresponse()
                body = answer.read()
                if answer.status == 200:
                    self.answers.append(json.loads(body))
                else:
                    self.bad.append((answer.status, body))
            except (OSError, http.client.HTTPException) as error:
                self.bad.append((0, repr(error)))
                connection, prefix = self.service.connect()

    def until(self, wanted):
        deadline = time.monotonic() + PATIENCE
        while not wanted(self.answers):
            assert time.monotonic() < deadline, (len(self.answers), self.bad[:3])
            time.sleep(0.02)

    def end(self):
        self.going = False
        for thread in self.threads:
            thread.join()
        return self


def requests_reach_a_job_without_a_network():
    """Answers, streams, large bodies and tokens pass; strangers and the replica learn nothing they should not."""
    with shared_site(devices=False) as site:
        service = Service(site).set()
        service.until(lambda v: v["ready"] == 1)
        status, body, headers = service.ask("/")
        assert status == 200 and json.loads(body)["job"] == service.view()["copies"][0]["job"], body
        assert headers["X-Tranche-Version"] == "v1"
        status, body, _ = service.ask("/slow")
        assert status == 200 and body == b"".join(b"data: %d\n\n" % n for n in range(5)), body
        status, body, _ = service.ask("/big")
        assert status == 200 and len(body) == 3 << 20
        assert service.ask("/token")[1] == b"none"
        status, body, _ = service.ask("/", "POST", b"y" * 100_000)
        assert status == 200 and json.loads(body)["length"] == 100_000, body
        site.operator.post("/v1/tenants", {"name": "blue"})
        _, stranger = make_user(site.operator, "blue", "eve", ["member"])
        assert service.ask("/", token=stranger)[0] == 404
        assert service.ask("/", token="nonsense")[0] == 401
        user, colleague = make_user(site.operator, "acme", "max", ["member"])
        assert service.ask("/", token=colleague)[0] == 200
        assert site.operator.call("PATCH", f"/v1/users/{user}", {"disabled": True}).status == 200
        assert service.ask("/", token=colleague)[0] == 401
        seen = service.until(lambda v: v["requests"] >= 5)
        assert seen["tokens_in"] == 7 and seen["tokens_out"] == 5, seen


def a_replica_dies_under_load():
    """Requests that may be repeated are answered although a replica is killed while they run."""
    with shared_site(devices=False) as site:
        service = Service(site, replicas={"min": 2, "max": 2}).set()
        before = service.until(lambda v: v["ready"] == 2)
        load = Load(service)
        load.until(lambda a: len(a) > 50)
        victim = before["copies"][0]["job"]
        site.ana.post(f"/v1/jobs/{victim}/stop")
        service.until(lambda v: v["ready"] == 2 and victim not in [c["job"] for c in v["copies"]])
        load.end()
        assert not load.bad, load.bad[:3]
        return f"{len(load.answers)} answers"


def a_rolling_update_drops_nothing():
    """The service is changed under load: every request is answered, first by the old and then by the new."""
    with shared_site(devices=False) as site:
        service = Service(site).set()
        service.until(lambda v: v["ready"] == 1)
        load = Load(service)
        load.until(lambda a: len(a) > 20)
        job = dict(service.body["job"], envs={"CODE": SERVER, "V": "2"})
        service.set(job=job)
        load.until(lambda a: a[-1]["version"] == "2")
        service.until(lambda v: v["ready"] == 1 and len(v["copies"]) == 1)
        load.end()
        assert not load.bad, load.bad[:3]
        return f"{len(load.answers)} answers"


def from_zero_and_back():
    """No replica while nobody asks; the first request waits for one; after the idle time there is none again."""
    with shared_site(devices=False) as site:
        service = Service(site, replicas={"min": 0, "max": 1}, idle="1s").set()
        assert service.view()["replicas"] == 0
        began = time.monotonic()
        status, body, _ = service.ask("/")
        took = time.monotonic() - began
        assert status == 200, body
        service.until(lambda v: v["replicas"] == 0)
        return f"first answer after {took * 1000:.0f} ms"


def versions_share_by_weight():
    """Two versions behind one address get requests by their weights; one of weight zero gets none."""
    with shared_site(devices=False) as site:
        job = Service(site).body["job"]
        versions = [{"name": name, "weight": weight, "job": dict(job, envs={"CODE": SERVER, "V": name})}
                    for name, weight in (("a", 3), ("b", 1), ("c", 0))]
        service = Service(site, replicas={"min": 2, "max": 2}, versions=versions)
        del service.body["job"]
        service.set()
        service.until(lambda v: {"a", "b"} <= {c["version"] for c in v["copies"] if c["state"] == "ready"})
        seen = [json.loads(service.ask("/")[1])["version"] for _ in range(200)]
        assert seen.count("c") == 0 and 100 < seen.count("a") < 195, (seen.count("a"), seen.count("b"))


def whoever_waits_for_a_removed_service_is_told():
    """A request waits for a replica that never comes; the service is removed: the request is answered, not forgotten."""
    with shared_site(devices=False) as site:
        service = Service(site, job={"run": "trap 'kill $!; exit' TERM; sleep 600 & wait", "port": 8000, "resources": {"cpus": "0.25+"}}).set()
        asked = threading.Thread(target=lambda: answers.append(service.ask("/")[0]))
        answers = []
        asked.start()
        service.until(lambda v: v["queued"] == 1)
        assert site.ana.call("DELETE", "/v1/services/echo").status == 204
        asked.join(PATIENCE)
        assert answers == [504], answers


def the_service_of_the_examples():
    """The example is served as it stands: its folder is uploaded, and the first request brings a replica."""
    with shared_site(devices=False) as site:
        folder = pathlib.Path(__file__).parent.parent
        done = subprocess.run([TRANCHE, "serve", "-f", "examples/service/service.yaml"], cwd=folder, text=True,
                              capture_output=True, timeout=PATIENCE, check=False,
                              env={**os.environ, "TRANCHE_URL": f"http://127.0.0.1:{site.platform.port}",
                                   "TRANCHE_TOKEN": site.token})
        assert done.returncode == 0, done.stderr
        service = Service(site)
        service.url = site.ana.get("/v1/services/digest").json["url"]
        status, body, _ = service.ask("/")
        assert status == 200 and len(json.loads(body)["digest"]) == 64, body
        wrong = dict(service.body, job={"run": "true", "port": 8000, "workdir": "/etc"})
        refused = site.ana.put("/v1/services", wrong)
        assert refused.status == 400 and "workdir" in refused.body, refused
        wrong = dict(service.body, job={"run": "true", "port": 8000, "volumes": [{"name": "v", "path": "/etc"}]})
        refused = site.ana.put("/v1/services", wrong)
        assert refused.status == 400 and "cannot be shown" in refused.body, refused


def an_upgrade_passes_through():
    """A WebSocket of Debian's python3-websockets at both ends: messages pass both ways, and it counts as active."""
    if subprocess.run([DEBIAN_PYTHON, "-c", "import websockets"], capture_output=True, check=False).returncode != 0:
        return "[skipped] python3-websockets is not installed"
    with shared_site(devices=False) as site:
        job = dict(Service(site).body["job"], envs={"CODE": TALKER})
        service = Service(site, job=job).set()
        service.until(lambda v: v["ready"] == 1)
        url = service.url.replace("http://", "ws://") + "/any"

        def call(token):
            return subprocess.Popen([DEBIAN_PYTHON, "-c", CALLER, url, token], text=True, stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE)

        with call(site.token) as caller:
            assert caller.stdout.readline() == "101 v1\n"
            assert service.view()["copies"][0]["active"] == 1, service.view()
        service.until(lambda v: v["copies"][0]["active"] == 0 and v["requests"] >= 1)
        with call("nonsense") as stranger:
            assert stranger.stdout.readline() == "401\n"
        assert service.ask("/health")[0] == 200  # Ordinary requests go the same way.


def a_replica_that_hangs_delays_no_other_service():
    """One service's replica takes probes and never answers; another service becomes ready beside it."""
    with shared_site(devices=False) as site:
        mute = dict(Service(site).body, name="mute", replicas={"min": 3, "max": 3},
                    job={"run": "exec python3 -c \"$CODE\"", "port": 8000, "resources": {"cpus": "0.25+"}, "envs": {"CODE": MUTE}})
        assert site.ana.put("/v1/services", mute).status == 200
        site.until(lambda: [c["state"] for c in site.ana.get("/v1/services/mute").json["copies"]] == ["starting"] * 3)
        service = Service(site, replicas={"min": 0, "max": 1}).set()
        began = time.monotonic()
        assert service.ask("/")[0] == 200
        took = time.monotonic() - began
        assert site.ana.get("/v1/services/mute").json["ready"] == 0
        return f"first answer after {took * 1000:.0f} ms"


def waiting_and_lateness_bring_replicas():
    """By queue delay a second replica comes when requests wait in line; a missed objective is shown and brings one."""
    with shared_site(devices=False) as site:
        job = dict(Service(site).body["job"], envs={"CODE": SLOW})
        service = Service(site, job=job, concurrency=1, replicas={"min": 1, "max": 2},
                          scale={"by": "queue_delay", "target": "50ms"}).set()
        service.until(lambda v: v["ready"] == 1)
        load = Load(service, threads=4)
        service.until(lambda v: v["ready"] == 2)
        load.end()
        assert not load.bad, load.bad[:3]
        refused = site.ana.put("/v1/services", dict(service.body, scale={"by": "queue_delay"}))
        assert refused.status == 400 and "queue_delay" in refused.body, refused
        assert site.ana.call("DELETE", "/v1/services/echo").status == 204
        service = Service(site, job=job, replicas={"min": 1, "max": 2}, objective={"p99": "1ms"})
        service.body.pop("scale", None)
        service.set()
        load = Load(service, threads=2)
        late = service.until(lambda v: v.get("latency") and v["latency"]["requests"] > 30 and v["ready"] == 2)
        load.end()
        assert "objective" in late["status"] and late["latency"]["attained_per_mille"] == 0, late
        shown = subprocess.run([TRANCHE, "service", "show", "echo"], text=True, capture_output=True, timeout=PATIENCE,
                               check=True, env={**os.environ, "TRANCHE_URL": f"http://127.0.0.1:{site.platform.port}",
                                                "TRANCHE_TOKEN": site.token}).stdout
        assert "p99 within 1ms; 0.0 %" in shown, shown


def a_service_that_never_works_says_so():
    """Replicas that end, or never become ready, are replaced more and more rarely, and the reason is shown."""
    with shared_site(devices=False) as site:
        service = Service(site, job={"run": "exit 4", "port": 8000}).set()
        service.until(lambda v: "ended" in v["status"] or "no replica" in v["status"])
        mute = {"run": "exec python3 -c \"$CODE\"", "port": 8000, "resources": {"cpus": "0.25+"}, "envs": {"CODE": MUTE}}
        service.set(job=mute, start_timeout="1s")
        view = service.until(lambda v: "ready" in v["status"])
        assert view["ready"] == 0, view
        assert site.ana.call("DELETE", "/v1/services/echo").status == 204
        assert site.ana.get("/v1/services/echo").status == 404
        again = Service(site, replicas={"min": 0, "max": 1}).set()  # Another one: it has no past.
        assert again.view()["status"] == "", again.view()
        status, body, _ = again.ask("/")
        assert status == 200 and again.view()["requests"] <= 1, (status, body)


if __name__ == "__main__":
    main([requests_reach_a_job_without_a_network, a_replica_dies_under_load, a_rolling_update_drops_nothing,
          from_zero_and_back, versions_share_by_weight, whoever_waits_for_a_removed_service_is_told,
          the_service_of_the_examples, an_upgrade_passes_through, a_replica_that_hangs_delays_no_other_service,
          waiting_and_lateness_bring_replicas, a_service_that_never_works_says_so])
