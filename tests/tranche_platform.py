# SPDX-License-Identifier: Apache-2.0
"""A real server in a folder of its own, driven over HTTP: the ground of every test that looks from outside."""
import datetime
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ.get("TRANCHE_BUILD_DIR", "build/dev")).resolve()
TRANCHE = BUILD / "tranche"
LONG = bool(os.environ.get("TRANCHE_LONG"))


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


class Client:
    """One kept connection; a new one when the server closed it."""

    def __init__(self, port, token=None):
        self.port, self.token, self.connection = port, token, None

    def call(self, method, path, body=None, headers=None):
        sent = dict(headers or {})
        if self.token:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        kept = self.connection is not None
        try:
            return self.exchange(method, path, body, sent)
        except BrokenPipeError:  # It was closed while nobody called: nothing of this was read.
            if not kept:
                raise
            return self.exchange(method, path, body, sent)

    def exchange(self, method, path, body, headers):
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            self.connection.request(method, path, body, headers)
            answer = self.connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read().decode())
        except (http.client.HTTPException, OSError):
            self.connection.close()
            self.connection = None
            raise

    def get(self, path, **more):
        return self.call("GET", path, **more)

    def post(self, path, body=None, **more):
        return self.call("POST", path, {} if body is None else body, **more)

    def put(self, path, body, **more):
        return self.call("PUT", path, body, **more)


class Platform:
    """`tranche server` on a data folder; may be killed and started again on the same data."""

    def __init__(self, folder=None, arguments=(), environment=None, command="server", acceptance=None):
        self.command = command
        self.acceptance = ["--acceptance", acceptance] if acceptance else []
        self.own = folder is None
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="tranche-test-"))
        self.data = self.folder / "data"
        self.arguments, self.environment = list(arguments), dict(environment or {})
        self.process = None

    def start(self, environment=None, wait=True):
        port_file = self.folder / "port"
        port_file.unlink(missing_ok=True)
        self.log = open(self.folder / "log", "ab")
        self.process = subprocess.Popen(
            [TRANCHE, self.command, "--data", self.data, "--listen", "127.0.0.1:0", "--port-file", port_file,
             "--ballast", "1", *self.acceptance, *self.arguments],
            stdout=self.log, stderr=self.log, env={**os.environ, **self.environment, **(environment or {})})
        if wait:
            deadline = time.monotonic() + 60
            while not port_file.exists():
                if self.process.poll() is not None:
                    raise RuntimeError(f"the server ended with {self.process.returncode}: {self.log_text()[-2000:]}")
                if time.monotonic() > deadline:
                    raise RuntimeError("the server did not start within a minute")
                time.sleep(0.005)
            self.port = int(port_file.read_text())
        return self

    @property
    def operator_token(self):
        return (self.data / "operator.token").read_text().strip()

    def client(self, token=None):
        return Client(self.port, token or self.operator_token)

    def log_text(self):
        return (self.folder / "log").read_text(errors="replace")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
        return self.process.returncode if self.process else None

    def __enter__(self):
        return self.start()

    def __exit__(self, *unused):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        elif self.process and self.process.returncode == -signal.SIGABRT:  # It says why.
            print(f"the server aborted: {self.log_text()[-4000:]}", file=sys.stderr)
        if self.own:
            shutil.rmtree(self.folder, ignore_errors=True)


def make_user(operator, parent, name, roles=None):
    """A user with a token; returns (id, token)."""
    body = {"name": name, "parent": parent}
    if roles is not None:
        body["roles"] = roles
    made = operator.post("/v1/users", body)
    assert made.status == 201, made
    issued = operator.post("/v1/tokens", {"party": made.json["id"]})
    assert issued.status == 201, issued
    return made.json["id"], issued.json["secret"]


def clock_shifted(folder, **shift):
    """The environment of a program whose wall clock is off by that much; nothing where there is no compiler."""
    seconds = int(datetime.timedelta(**shift).total_seconds())
    return (preload := shifting_clock(folder)) and {**preload, "SHIFT_SECONDS": str(seconds)}


def shifting_clock(folder):
    """The same, to be moved while it runs: by what the file SHIFT_FILE says, if that is given."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "shifted_clock.so"
    source = pathlib.Path(__file__).with_name("shifted_clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    return {"LD_PRELOAD": str(library), "ASAN_OPTIONS": "verify_asan_link_order=0"}


JOB = {"run": "true", "resources": {"gpus": "H100:0.5"}, "limits": {"time": "1h"}}


def main(cases):
    """Runs functions whose docstrings are sentences; closes with the line of counts."""
    wanted = sys.argv[1:]
    passed = failed = skipped = 0
    for case in cases:
        if wanted and case.__name__ not in wanted:
            continue
        start = time.monotonic()
        try:
            outcome = case()
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            import traceback
            traceback.print_exc()
            print(f"FAILED {case.__name__}: {error}", flush=True)
            continue
        if isinstance(outcome, str) and outcome.startswith("[skipped]"):
            skipped += 1
            print(f"{outcome} ({case.__name__})", flush=True)
        else:
            passed += 1
            print(f"ok {case.__name__} {time.monotonic() - start:.1f} s{': ' + outcome if outcome else ''}", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    sys.exit(1 if failed else 0)
