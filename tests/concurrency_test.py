# SPDX-License-Identifier: Apache-2.0
"""Many at once: one key sent eight times, 64 clients racing one quota, tokens revoked in use, live events."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import threading

from tranche_platform import JOB, LONG, TRANCHE, Client, Platform, main, make_user, shifting_clock


def same_key_takes_effect_once():
    """The same idempotency key eight times at once: one effect, one answer."""
    with Platform() as platform:
        rounds = 200 if LONG else 25
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for number in range(rounds):
                def send(_unused, key=f"key-{number}"):
                    return platform.client().post("/v1/jobs", {**JOB, "name": key}, headers={"Idempotency-Key": key})
                answers = list(pool.map(send, range(8)))
                assert {answer.status for answer in answers} == {201}, answers
                assert len({answer.body for answer in answers}) == 1, answers
                assert sum("Idempotent-Replayed" in answer.headers for answer in answers) == 7
        operator = platform.client()
        assert len(operator.get("/v1/jobs?limit=10000").json["items"]) == rounds
        other = operator.post("/v1/jobs", {**JOB, "name": "other"}, headers={"Idempotency-Key": "key-0"})
        assert other.status == 422 and other.json["type"].endswith("idempotency-key-reused"), other
        platform.stop()
        platform.start()
        again = platform.client().post("/v1/jobs", {**JOB, "name": "key-0"}, headers={"Idempotency-Key": "key-0"})
        assert again.status == 201 and again.json["id"] == "job_000001", again
        _, token = make_user(platform.client(), "platform", "bob", ["member"])
        foreign = platform.client(token).post("/v1/jobs", {**JOB, "name": "key-0"}, headers={"Idempotency-Key": "key-0"})
        assert foreign.status == 201 and foreign.json["id"] != "job_000001", "keys of two callers must not meet"


def race_for_quota_never_overshoots():
    """64 clients racing one quota: never one unit over, at any level, as counted from the journal."""
    with Platform() as platform:
        operator = platform.client()
        assert operator.post("/v1/tenants", {"name": "acme"}).status == 201
        tokens = []
        for unit in ("red", "blue"):
            assert operator.post("/v1/subscribers", {"name": unit, "parent": "acme"}).status == 201
            tokens += [make_user(operator, f"acme/{unit}", f"u{number}")[1] for number in range(4)]
        limits = {"platform": 9500, "acme": 8000, "acme%2Fred": 5000, "acme%2Fblue": 4500, "acme%2Fred%2Fu0": 1500}
        for party, milli in limits.items():
            set_to = operator.put(f"/v1/quotas/{party}", {"gpu_milli": {"limit": milli}})
            assert set_to.status == 200, set_to

        def client_of(number):
            client = platform.client(tokens[number % len(tokens)])
            mine = []
            for step in range(30 if LONG else 8):
                answer = client.post("/v1/jobs", JOB)
                if answer.status == 201:
                    mine.append(answer.json["id"])
                else:
                    assert answer.status == 403 and answer.json["type"].endswith("quota"), answer
                if step % 3 == 2 and mine:
                    assert client.post(f"/v1/jobs/{mine.pop()}/stop").status == 200
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            list(pool.map(client_of, range(64)))
        check_history(operator, limits)


def check_history(operator, limits):
    """Adds up the journal record by record; what the server says about usage is not asked."""
    paths = {user["id"]: user["path"] for user in operator.get("/v1/users?limit=1000").json["items"]}
    held, owners, peak = {}, {}, {}
    entries, cursor = [], ""
    while True:
        page = operator.get(f"/v1/audit?limit=1000&cursor={cursor}").json
        entries += page["items"]
        cursor = page["next"]
        if not cursor:
            break
    admitted = refused = 0
    for entry in reversed(entries):
        for event in entry["events"]:
            data = event["data"]
            if event["type"] == "denied":
                refused += 1
            if event["type"] not in ("job_submitted", "job_ended"):
                continue
            if event["type"] == "job_submitted":
                admitted += 1
                owners[data["id"]] = (paths[data["owner"]], data["ask"]["instances"] * data["ask"]["milli_each"])
                sign = 1
            else:
                sign = -1
            path, milli = owners[data["id"]]
            parts = path.split("/")
            for level in ["platform"] + ["%2F".join(parts[:depth]) for depth in range(1, len(parts) + 1)]:
                held[level] = held.get(level, 0) + sign * milli
                peak[level] = max(peak.get(level, 0), held[level])
                assert held[level] <= limits.get(level, 1 << 60), f"{level} held {held[level]} at {entry['sequence']}"
    assert admitted > 10 and refused > 10, (admitted, refused)
    assert peak["acme"] == limits["acme"], f"the race never reached the limit: {peak}"


def revoked_token_is_dead_at_once():
    """A token works until its revocation is answered, and never after."""
    with Platform() as platform:
        operator = platform.client()
        issued = operator.post("/v1/tokens", {"label": "x"}).json
        client = platform.client(issued["secret"])
        assert client.get("/v1/whoami").status == 200
        assert operator.call("DELETE", f"/v1/tokens/{issued['token']['id']}").status == 204
        assert client.get("/v1/whoami").status == 401
        platform.stop()
        platform.start()
        assert platform.client(issued["secret"]).get("/v1/whoami").status == 401


def tokens_run_out_by_the_clock():
    """Where nothing happens the engine's time stands still: tokens begin and end by the clock all the same."""
    with tempfile.TemporaryDirectory(prefix="tranche-test-") as name:
        folder = pathlib.Path(name)
        preload = shifting_clock(folder)
        if preload is None:
            return "[skipped] no C compiler"
        ahead = folder / "ahead"
        ahead.write_text("0")
        clock = {**preload, "SHIFT_FILE": str(ahead)}
        with Platform(folder, environment=clock) as platform:
            operator = platform.client()
            ahead.write_text(str(50 * 60))  # Less than what makes the engine look at the clock by itself.
            issued = operator.post("/v1/tokens", {"label": "short", "expires_in": "30m"})
            assert issued.status == 201, issued
            assert operator.post("/v1/tokens", {"label": "long"}).status == 201
            short = platform.client(issued.json["secret"])
            assert short.get("/v1/whoami").status == 200, "half an hour from now, not from the last thing that happened"
            ahead.write_text(str(81 * 60))
            for answer in (short.get("/v1/whoami"), short.post("/v1/jobs", JOB), short.post("/v1/tokens", {})):
                assert answer.status == 401, answer
            for _guess in range(12):
                assert short.get("/v1/jobs").status == 401, "a token that has run out is no guess"
            listed = subprocess.run([TRANCHE, "token", "list"], text=True, capture_output=True, check=True,
                                    env={**os.environ, **clock, "HOME": name, "TRANCHE_TOKEN": operator.token,
                                         "TRANCHE_URL": f"http://127.0.0.1:{platform.port}"}).stdout
            states = {row.split()[2]: row.split()[4] for row in listed.splitlines()[1:]}
            assert states["short"] == "expired" and states["long"] == "active", listed
            denied = operator.get("/v1/audit?limit=1").json["items"][0]
            assert denied["outcome"] == "refused" and "run out" in json.dumps(denied), denied
    return None


def nothing_secret_is_stored():
    """Neither tokens nor passwords nor a job's secrets stand in the clear in any file of the server."""
    with Platform() as platform:
        operator = platform.client()
        issued = operator.post("/v1/tokens", {"label": "x"}).json["secret"]
        user, _ = make_user(operator, "platform", "ana", ["member"])
        assert operator.put(f"/v1/users/{user}/password", {"password": "correct horse battery"}).status == 204
        wrong = Client(platform.port).post("/v1/sessions", {"user": "ana", "password": "wrong horse battery"})
        nobody = Client(platform.port).post("/v1/sessions", {"user": "nobody", "password": "wrong horse battery"})
        assert (wrong.status, nobody.status) == (401, 401) and wrong.json["detail"] == nobody.json["detail"]
        session = Client(platform.port).post("/v1/sessions", {"user": "ana", "password": "correct horse battery"})
        assert session.status == 201, session
        assert platform.client(session.json["secret"]).get("/v1/whoami").json["party"]["name"] == "ana"
        assert operator.post("/v1/jobs", {**JOB, "secrets": {"KEY": "s3cr3t-canary"}}).status == 201
        platform.stop()
        texts = [issued, platform.operator_token, "correct horse battery", "s3cr3t-canary", session.json["secret"]]
        for file in platform.folder.rglob("*"):
            if file.is_file() and file.name != "operator.token":
                content = file.read_bytes()
                for text in texts:
                    assert text.encode() not in content, f"a secret stands in {file}"


def guessing_is_limited():
    """Ten wrong passwords a minute for an account, then 429, also for the right one."""
    with Platform() as platform:
        user, _ = make_user(platform.client(), "platform", "ana", ["member"])
        platform.client().put(f"/v1/users/{user}/password", {"password": "correct horse battery"})
        statuses = [Client(platform.port).post("/v1/sessions", {"user": "ana", "password": "x" * 12}).status for _ in range(11)]
        assert statuses == [401] * 10 + [429], statuses


def events_resume_without_loss_or_repetition():
    """Live events: every record once, in order, across reconnects, and none that the reader may not see."""
    with Platform() as platform:
        operator = platform.client()
        operator.post("/v1/tenants", {"name": "acme"})
        operator.post("/v1/tenants", {"name": "blue"})
        _, ana = make_user(operator, "acme", "ana")
        _, spy = make_user(operator, "blue", "spy")
        seen, done = [], threading.Event()

        def listen():
            last = None
            while not done.is_set():
                connection = http.client.HTTPConnection("127.0.0.1", platform.port, timeout=60)
                headers = {"Authorization": f"Bearer {ana}", "Last-Event-ID": str(last or 0)}
                connection.request("GET", "/v1/events", headers=headers)
                answer = connection.getresponse()
                assert answer.status == 200, answer.status
                count = 0
                while count < 7 and not done.is_set():
                    line = answer.fp.readline().decode()
                    if not line:
                        break
                    if line.startswith("data:"):
                        event = json.loads(line[5:])
                        last = event["sequence"]
                        seen.append(event)
                        count += 1
                        if event["type"] == "job_submitted" and event["data"]["name"] == "last":
                            done.set()
                connection.close()
        listener = threading.Thread(target=listen)
        listener.start()
        mine, theirs = platform.client(ana), platform.client(spy)
        for number in range(40):
            assert mine.post("/v1/jobs", {**JOB, "name": f"mine{number}"}).status == 201
            assert theirs.post("/v1/jobs", {**JOB, "name": "canary-of-blue"}).status == 201
        mine.post("/v1/jobs", {**JOB, "name": "last"})
        listener.join(60)
        assert not listener.is_alive()
        names = [event["data"]["name"] for event in seen if event["type"] == "job_submitted"]
        assert names == [f"mine{number}" for number in range(40)] + ["last"], names
        assert "canary-of-blue" not in json.dumps(seen)


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1])


def readers_that_never_read_cost_little():
    """A hundred subscribers of live events who take nothing: the server gives up on them, and serves the others."""
    readers, size, grown = 100, 24 * 1024, {}
    for count in (0, readers):
        stuck = []
        # What a checked build keeps of freed memory, to notice its use, is none of the readers' doing.
        with Platform(environment={"ASAN_OPTIONS": "quarantine_size_mb=1:thread_local_quarantine_size_kb=64"}) as platform:
            good = platform.client()
            token = platform.operator_token
            for _ in range(count):
                reader = socket.socket()
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # Else the kernel reads for it.
                reader.connect(("127.0.0.1", platform.port))
                reader.sendall(f"GET /v1/events HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
                assert reader.recv(12) == b"HTTP/1.1 200"
                stuck.append(reader)
            before = resident_kib(platform.process.pid)
            for number in range(400):  # 10 MB for each: more than the kernel holds on the way.
                assert good.post("/v1/jobs", {**JOB, "name": f"j{number}", "run": f": {number} " + "x" * size}).status == 201
            grown[count] = resident_kib(platform.process.pid) - before
            assert len(good.get("/v1/jobs?limit=10").json["items"]) == 10
            for reader in stuck:
                reader.close()
    cost = grown[readers] - grown[0]
    assert cost < 50 * 1024, f"{readers} dead readers took {cost} KiB"
    return f"{readers} dead readers, {cost} KiB"


def half_open_connections_starve_nobody():
    """Thousands of connections that send half a header and stall: a good client is served, memory stays bounded."""
    stalled = []
    with Platform() as platform:
        good = platform.client()
        assert good.post("/v1/jobs", JOB).status == 201
        before = resident_kib(platform.process.pid)
        try:
            for number in range(6000 if LONG else 600):
                connection = socket.create_connection(("127.0.0.1", platform.port), timeout=60)
                connection.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nX-Slow: " + b"x" * 1000)
                stalled.append(connection)
                if number % 20 == 0:
                    assert good.post("/v1/jobs", JOB).status == 201
            grown = resident_kib(platform.process.pid) - before
            assert grown < 200 * 1024, f"{len(stalled)} stalled connections took {grown} KiB"
            return f"{len(stalled)} stalled connections, {grown} KiB"
        finally:
            for connection in stalled:
                connection.close()


ENDLESS = ("/v1/events", "/v1/market/stream", "/v1/agent/link")  # What they tell: above, and in market_test.py.


def listings_of(document):
    return [path for path, methods in document["paths"].items()
            if "get" in methods and "{" not in path and path not in ENDLESS]


def no_answer_holds_a_foreign_name():
    """Every listing, search, export, metric and error that a tenant can ask for: not one name of its neighbour."""
    with Platform() as platform:
        operator = platform.client()
        acme = operator.post("/v1/tenants", {"name": "canaryacme"}).json["id"]
        for name, parent, kind in (("blue", "platform", "tenants"), ("canaryunit", "canaryacme", "subscribers")):
            assert operator.post(f"/v1/{kind}", {"name": name, "parent": parent}).status == 201
        _, ana = make_user(operator, "canaryacme", "canaryana", ["tenant_admin"])
        mine = platform.client(ana)
        job = mine.post("/v1/jobs", {**JOB, "name": "canaryjob", "labels": {"team": "canarylabel"}, "env": {"A": "canaryenv"}})
        assert job.status == 201, job
        answers = 0
        for role in ("tenant_admin", "member", "viewer", "auditor", "billing"):
            _, token = make_user(operator, "blue", f"spy{role.replace('_', '')}", [role])
            spy = platform.client(token)
            asked = listings_of(spy.get("/openapi.json").json)
            asked += [f"{path}?limit=1000&owner={acme}" for path in asked]
            asked += [f"/v1/jobs/{job.json['id']}", f"/v1/jobs/{job.json['id']}/why", f"/v1/quotas/{acme}", "/metrics"]
            for path in asked:
                answer = spy.get(path)
                assert "canary" not in str(answer.body), f"{role} {path}: {answer.body[:400]}"
                answers += 1
        return f"{answers} answers"


main([same_key_takes_effect_once, race_for_quota_never_overshoots, revoked_token_is_dead_at_once,
      tokens_run_out_by_the_clock, nothing_secret_is_stored, guessing_is_limited, events_resume_without_loss_or_repetition,
      readers_that_never_read_cost_little, half_open_connections_starve_nobody, no_answer_holds_a_foreign_name])
