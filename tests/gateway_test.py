# SPDX-License-Identifier: Apache-2.0
"""What the gateway does beside finding a replica: bodies, limits, clients that behave badly, origins and sign-in."""
import http.client
import json
import os
import resource
import socket
import subprocess
import urllib.parse

from node_test import PATIENCE, Site, shared_site
from service_test import DEBIAN_PYTHON, Service
from tranche_platform import TRANCHE, main, make_user

# Says how much of every body it has read so far, and how much of it memory the caller's header took.
READER = """
import http.server, json, os, threading
seen = {}
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *unused): pass
    def pieces(self):
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            while True:
                size = int(self.rfile.readline(), 16)
                if size: yield self.rfile.read(size)
                self.rfile.readline()
                if not size: return
        left = int(self.headers.get("Content-Length", 0))
        while left:
            piece = self.rfile.read1(min(left, 65536))
            left -= len(piece)
            yield piece
    def answer(self, status, **body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def do_GET(self): self.answer(200, **seen)
    def do_POST(self):
        if self.path == "/refuse":
            self.close_connection = True
            return self.answer(413, why="too large")
        for piece in self.pieces(): seen[self.path] = seen.get(self.path, 0) + len(piece)
        self.answer(200, read=seen.get(self.path, 0), length=self.headers.get("Content-Length"),
                    usage={"prompt_tokens": 30, "completion_tokens": 20})
    do_PUT = do_POST
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""


def reader(site, **more):
    service = Service(site, **more)
    service.body["job"] = dict(service.body["job"], envs={"CODE": READER})
    service.body["ready"] = "/"
    service.set()
    service.until(lambda v: v["ready"] == 1)
    return service


def bodies_are_passed_on_as_they_come():
    """The replica has the first bytes before the client has sent the last, with a length and in chunks; and no limit."""
    with shared_site(devices=False) as site:
        service = reader(site)
        connection, prefix = service.connect()
        connection.putrequest("POST", prefix + "/known")
        connection.putheader("Authorization", f"Bearer {site.token}")
        connection.putheader("Content-Length", str(80 << 20))  # More than is kept of any.
        connection.endheaders()
        connection.send(b"x" * (1 << 20))
        site.until(lambda: json.loads(service.ask("/")[1]).get("/known", 0) >= 1 << 19)
        for _ in range(79):
            connection.send(b"x" * (1 << 20))
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        assert json.loads(answer.read()) | {"usage": 0} == {"read": 80 << 20, "length": str(80 << 20), "usage": 0}
        connection.putrequest("POST", prefix + "/chunks")  # On the same connection.
        connection.putheader("Authorization", f"Bearer {site.token}")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        connection.send(b"5\r\nhello\r\n")
        site.until(lambda: json.loads(service.ask("/")[1]).get("/chunks", 0) == 5)
        connection.send(b"3\r\nyou\r\n0\r\n\r\n")
        answer = connection.getresponse()
        body = json.loads(answer.read())
        assert answer.status == 200 and (body["read"], body["length"]) == (8, None), body
        # One who refuses to read it says so, and it reaches the client.
        status = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", f"Authorization: Bearer {site.token}",
                                 "--data-binary", "@-", service.url + "/refuse"], input="x" * (8 << 20), text=True,
                                capture_output=True, timeout=PATIENCE, check=False).stdout
        assert status == "413", status
        assert service.ask("/again", "PUT", b"y" * 100_000)[0] == 200


def a_client_that_stops_reading():
    """It asks for megabytes and reads none: its connection is cut in time, its replica is free again, others go on."""
    with shared_site(devices=False) as site:
        service = Service(site, timeout="2s").set()
        service.until(lambda v: v["ready"] == 1)
        url = urllib.parse.urlsplit(service.url)
        stuck = []
        for _ in range(8):
            one = socket.create_connection((url.hostname, url.port))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.sendall(f"GET {url.path}/big HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {site.token}\r\n\r\n".encode())
            stuck.append(one)
        for _ in range(20):
            assert service.ask("/")[0] == 200
        service.until(lambda v: v["copies"][0]["active"] == 0)
        assert service.ask("/big")[0] == 200
        for one in stuck:
            one.close()


def a_flood_of_connections():
    """Thousands of connections that say nothing: a service is answered beside them, and those beyond are told."""
    with shared_site(devices=False) as site:
        service = Service(site).set()
        service.until(lambda v: v["ready"] == 1)
        url = urllib.parse.urlsplit(service.url)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
        silent = []
        try:
            for _ in range(min(hard, 8192) - 200 if hard > 1000 else 500):
                silent.append(socket.create_connection((url.hostname, url.port), timeout=PATIENCE))
                if len(silent) >= 3000:
                    break
            for _ in range(20):
                assert service.ask("/")[0] == 200
        finally:
            for one in silent:
                one.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert service.ask("/")[0] == 200
        return f"{len(silent)} connections"


# Ready, until its first caller tells it to hang: then it takes connections and answers nobody.
HANGS = """
import http.server, os, time
class Handler(http.server.BaseHTTPRequestHandler):
    hangs = False
    def log_message(self, *unused): pass
    def do_GET(self):
        while Handler.hangs: time.sleep(60)
        Handler.hangs = self.path == "/hang"
        body = os.environ["TRANCHE_JOB"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""


def a_replica_that_falls_silent_is_replaced():
    """It was ready and hangs: it gets no more requests, the status names it, and another one takes its place."""
    with shared_site(devices=False) as site:
        service = Service(site, start_timeout="10s", drain="1s")
        service.body["job"] = dict(service.body["job"], envs={"CODE": HANGS})
        service.set()
        service.until(lambda v: v["ready"] == 1)
        first = service.ask("/hang")[1].decode()
        silent = service.until(lambda v: v["ready"] == 0)
        assert f"{first} gets no requests: /health is not answered" in silent["status"], silent
        service.until(lambda v: v["ready"] == 1 and first not in [c["job"] for c in v["copies"]])
        assert service.ask("/")[1].decode() != first


# Streams for as long as it is asked to.
STREAMER = """
import http.server, os, time
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *unused): pass
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        for second in range(int(self.path.rsplit("/", 1)[1]) if self.path.startswith("/stream/") else 0):
            self.wfile.write(b"%d " % second)
            self.wfile.flush()
            time.sleep(1)
        self.wfile.write(os.environ.get("V", "1").encode())
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""


def a_long_answer_outlives_a_change():
    """While a service is changed, a stream goes on to its end within the time to drain, and not beyond it."""
    with shared_site(devices=False) as site:
        service = Service(site)
        job = dict(service.body["job"], envs={"CODE": STREAMER})
        for drain, version, goes_on in (("60s", "2", True), ("0s", "3", False)):
            service.set(job=job, drain=drain)
            service.until(lambda v: v["ready"] == 1 and len(v["copies"]) == 1)
            connection, prefix = service.connect()
            connection.request("GET", prefix + ("/stream/4" if goes_on else "/stream/600"),
                               headers={"Authorization": f"Bearer {site.token}"})
            answer = connection.getresponse()
            assert answer.read(2) == b"0 "
            job = dict(job, envs={"CODE": STREAMER, "V": version})
            service.set(job=job)
            site.until(lambda v=version: service.ask("/")[1].decode() == v)  # Others are answered by the new one.
            before = "1" if goes_on else "2"
            try:
                rest = answer.read()
            except http.client.HTTPException as cut:
                rest = repr(cut).encode()
            assert (rest == f"1 2 3 {before}".encode()) == goes_on, rest
            connection.close()
        wrong = site.ana.put("/v1/services", dict(service.body, drain="-1s"))
        assert wrong.status == 400 and "drain" in wrong.body, wrong


def limits_of_requests_and_tokens():
    """By the second, by the minute and by the period, for each tenant that calls; every 429 says what for."""
    with Site(devices=False) as site:
        site.agent("n1")
        site.operator.post("/v1/tenants", {"name": "blue"})
        site.operator.post("/v1/tenants", {"name": "green"})
        _, blue = make_user(site.operator, "blue", "eve", ["member"])
        _, green = make_user(site.operator, "green", "gus", ["member"])
        service = reader(site, callers=["blue"], requests_per_second=5)
        assert service.ask("/", token=blue)[0] == 200 and service.ask("/", token=green)[0] == 404
        statuses = [service.ask("/")[0] for _ in range(12)]
        assert statuses.count(429) >= 3, statuses
        assert service.ask("/", token=blue)[0] == 200  # Its seconds are its own.
        service.set(requests_per_second=0, tokens_per_minute=90)
        service.until(lambda v: v["ready"] == 1)
        used = [service.ask("/", "POST", b"x")[0] for _ in range(3)]
        assert used[-1] == 429 and used[0] == 200, used  # Fifty tokens each.
        status, body, headers = service.ask("/", "POST", b"x")
        assert "may have 90 tokens a minute of this service" in json.loads(body)["detail"], body
        assert 1 <= int(headers["Retry-After"]) <= 60, headers.as_string()
        assert service.ask("/", "POST", b"x", token=blue)[0] == 200
        service.set(tokens_per_minute=0)
        used_up = service.until(lambda v: v["tokens_in"] >= 90)["requests"]  # All that was asked is in the journal.
        done = site.operator.get("/v1/quotas/acme").json["units"]["requests"]["done"]
        assert done == used_up, (done, used_up)
        assert site.operator.put("/v1/quotas/acme", {"units": {"requests": done + 4}, "period": "month"}).status == 200
        site.until(lambda: service.ask("/")[0] == 429)
        status, body, headers = service.ask("/")
        assert f"acme may do {done + 4} requests a month, and they are done" in json.loads(body)["detail"], body
        assert int(headers["Retry-After"]) >= 1
        site.operator.put("/v1/quotas/acme", {})
        site.until(lambda: service.ask("/")[0] == 200)
        wrong = site.ana.put("/v1/services", dict(service.body, callers=["nobody"]))
        assert wrong.status == 400 and "there is no tenant 'nobody'" in wrong.body, wrong


def a_notebook_has_an_origin_of_its_own():
    """At its own host it signs in, with a cookie for that host alone; at the shared one browsers are sent there."""
    with shared_site(devices=False) as site:
        service = Service(site, personal=True, keep_path=True, ready="/acme/echo/health").set()
        view = service.view()
        origin = urllib.parse.urlsplit(view["origin"])
        assert origin.hostname == "echo--acme.localhost" and origin.port == urllib.parse.urlsplit(view["url"]).port, view

        def ask(host, path, **fields):
            connection = http.client.HTTPConnection("127.0.0.1", origin.port, timeout=PATIENCE)
            connection.request("GET", path, headers={"Host": host, **fields})
            answer = connection.getresponse()
            text = answer.read().decode()
            connection.close()
            return answer.status, text, answer.headers

        shared = urllib.parse.urlsplit(view["url"]).netloc
        status, _, fields = ask(shared, f"/acme/echo/?tranche_token={site.token}&a=1")
        assert status == 303 and fields["Location"].startswith(f"{view['origin']}/acme/echo/?tranche_token="), fields.as_string()
        assert "Set-Cookie" not in fields and fields["Referrer-Policy"] == "no-referrer", fields.as_string()
        status, _, fields = ask(origin.netloc, f"/acme/echo/?tranche_token={site.token}&a=1")
        assert status == 303 and fields["Location"] == "/acme/echo/?a=1", fields.as_string()
        cookie, *rest = fields["Set-Cookie"].split("; ")
        assert rest == ["Path=/", "HttpOnly", "SameSite=Lax"], rest
        assert ask(origin.netloc, "/", Cookie=cookie)[2]["Location"] == "/acme/echo/"
        assert ask(origin.netloc, "/acme/echo/health", Cookie=cookie)[0] == 200
        assert ask(shared, "/acme/echo/health", Cookie=cookie)[0] == 401  # No cookie counts where all services are.
        assert ask(shared, "/acme/echo/health", Authorization=f"Bearer {site.token}")[0] == 200
        assert ask(origin.netloc, "/acme/echo/health", Cookie=cookie, Origin=f"http://other--acme.localhost:{origin.port}")[0] == 401
        assert ask("echo--globex.localhost", "/acme/echo/health", Cookie=cookie)[0] == 401
        _, colleague = make_user(site.operator, "acme", "otto", ["tenant_admin"])
        assert ask(origin.netloc, "/acme/echo/health", Cookie=f"tranche_login={colleague}")[0] == 404


# A page, and a WebSocket that talks back, below $TRANCHE_BASE_URL; says what it saw of the one who asks.
DESK = """
import asyncio, http, os, websockets
base = os.environ["TRANCHE_BASE_URL"]
async def talk(socket):
    async for message in socket:
        await socket.send(message[::-1])
async def page(path, headers):
    if not path.startswith(base): return (http.HTTPStatus.NOT_FOUND, [], b"not below " + base.encode())
    if "Upgrade" in headers: return None
    return (http.HTTPStatus.OK, [], f"{path}|{headers.get('Cookie')}|{headers.get('Authorization')}".encode())
async def main():
    async with websockets.serve(talk, "127.0.0.1", int(os.environ["PORT"]), process_request=page):
        await asyncio.Future()
asyncio.run(main())
"""
DESK_CALLER = """
import asyncio, sys, websockets
async def main(url, cookie, origin, port):
    try:
        async with websockets.connect(url, host="127.0.0.1", port=int(port), extra_headers={"Cookie": cookie, "Origin": origin}) as socket:
            await socket.send("kernel")
            print(await socket.recv(), flush=True)
    except websockets.exceptions.InvalidStatusCode as refused:
        print(refused.status_code, flush=True)
asyncio.run(main(*sys.argv[1:]))
"""


def a_notebook_is_its_owners_alone():
    """Signed in by the address once, pages and WebSockets pass with the cookie; nobody else's token does; idle it stops."""
    if subprocess.run([DEBIAN_PYTHON, "-c", "import websockets"], capture_output=True, check=False).returncode != 0:
        return "[skipped] python3-websockets is not installed"
    with shared_site(devices=False) as site:
        done = subprocess.run([TRANCHE, "notebook", "--cpus", "0.25+", "--idle-stop", "1s", "--env", "CODE=" + DESK, "-o", "json",
                               "--", "sh", "-c", f'exec {DEBIAN_PYTHON} -c "$CODE"'], text=True, capture_output=True, check=False,
                              timeout=PATIENCE, env={**os.environ, "TRANCHE_TOKEN": site.token,
                                                     "TRANCHE_URL": f"http://127.0.0.1:{site.platform.port}"})
        assert done.returncode == 0, done.stderr
        view = json.loads(done.stdout)
        url = urllib.parse.urlsplit(view["url"])
        assert url.hostname == "notebook-ana--acme.localhost", url
        assert url.path == "/acme/notebook-ana/" and url.query.startswith("tranche_token="), url

        def ask(path, **fields):
            connection = http.client.HTTPConnection("127.0.0.1", url.port, timeout=PATIENCE)
            connection.request("GET", path, headers={"Host": url.netloc, **fields})
            answer = connection.getresponse()
            text = answer.read().decode()
            connection.close()
            return answer.status, text, answer.headers

        status, _, fields = ask(f"{url.path}?{url.query}&a=1")
        assert status == 303 and fields["Location"] == url.path + "?a=1", (status, fields)
        cookie, *rest = fields["Set-Cookie"].split("; ")
        assert rest == ["Path=/", "HttpOnly", "SameSite=Lax"], rest
        status, text, _ = ask(url.path + "tree", Cookie=cookie + "; own=1")  # Waits for the program to start.
        assert (status, text) == (200, url.path + "tree|own=1|None"), (status, text)
        assert ask(url.path, Authorization=f"Bearer {site.token}")[0] == 200  # Programs of hers, as everywhere.
        assert ask(url.path)[0] == 401
        assert ask(url.path, Cookie=cookie, Origin="http://elsewhere")[0] == 401
        _, colleague = make_user(site.operator, "acme", "carl", ["tenant_admin"])
        assert ask(url.path, Authorization=f"Bearer {colleague}")[0] == 404
        assert ask(url.path, Cookie=f"tranche_login={colleague}")[0] == 404
        assert ask(f"{url.path}?tranche_token={colleague}")[0] == 404
        assert ask(url.path, Authorization=f"Bearer {site.platform.operator_token}")[0] == 404

        def talk(sent, origin):
            return subprocess.run([DEBIAN_PYTHON, "-c", DESK_CALLER, f"ws://{url.netloc}{url.path}channel", sent, origin, str(url.port)], text=True,
                                  capture_output=True, timeout=PATIENCE, check=True).stdout.strip()

        assert talk(cookie, f"http://{url.netloc}") == "lenrek"
        assert talk(cookie, "http://elsewhere") == "401"
        assert talk(f"tranche_login={colleague}", f"http://{url.netloc}") == "404"
        site.until(lambda: site.ana.get("/v1/services/notebook-ana").json["replicas"] == 0)  # Nobody uses it.
        assert ask(url.path, Cookie=cookie)[0] == 200  # And starts again when she is back.
    return None


if __name__ == "__main__":
    main([bodies_are_passed_on_as_they_come, a_client_that_stops_reading, a_flood_of_connections,
          a_replica_that_falls_silent_is_replaced, a_long_answer_outlives_a_change,
          limits_of_requests_and_tokens, a_notebook_has_an_origin_of_its_own, a_notebook_is_its_owners_alone])
