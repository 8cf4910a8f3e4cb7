# SPDX-License-Identifier: Apache-2.0
"""Real work on a real device costs what its seconds cost, and stops when nothing covers it."""
import json
import shutil
import subprocess
import time
from fractions import Fraction

from tranche_platform import TRANCHE, Client, Platform, main, make_user

PATIENCE = 120  # Seconds that anything may take on a loaded machine before it counts as never.


class Up:
    """`tranche up` with a tenant, a user, and the device of this machine; `free` is truthy where there is none."""

    def __init__(self, credit=None):
        self.platform = Platform(command="up")
        self.credit = credit

    def __enter__(self):
        self.platform.start()
        self.operator = self.platform.client()
        assert self.operator.post("/v1/tenants", {"name": "acme"}).status == 201
        _, token = make_user(self.operator, "acme", "ana", ["tenant_admin"])
        self.ana = Client(self.platform.port, token)
        if self.credit:
            assert self.operator.post("/v1/accounts/acme/top-up", {"amount": self.credit}).status == 200
        self.until(lambda: any(node["connected"] for node in self.operator.get("/v1/nodes").json["items"]))
        return self

    def __exit__(self, *unused):
        if self.platform.process.poll() is None:
            self.platform.stop()
        self.platform.__exit__(*unused)

    def has_device(self):
        return bool(self.operator.get("/v1/devices").json["items"])

    def price(self, gpu_hour):
        list_ = {"name": "test", "rules": [{"name": "all", "gpu_hour": gpu_hour}]}
        assert self.operator.put("/v1/prices", list_).status == 200

    def settings(self, **change):
        settings = {**self.operator.get("/v1/settings").json, **change}
        answer = self.operator.put("/v1/settings", settings)
        assert answer.status == 200, answer

    def until(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"never happened; {self.platform.log_text()[-3000:]}"
            time.sleep(0.02)

    def submit(self, run, **more):
        answer = self.ana.post("/v1/jobs", {"run": run, "resources": {"gpus": "1GB"}, **more})
        assert answer.status == 201, answer
        return answer.json["id"]

    def end_of(self, job):
        self.until(lambda: self.ana.get(f"/v1/jobs/{job}").json["job"]["state"] in ("succeeded", "failed", "stopped"))
        return self.ana.get(f"/v1/jobs/{job}").json

    def events(self, kind):
        """All events of a kind in the journal, oldest first."""
        entries = self.operator.get("/v1/audit?limit=1000").json["items"]
        return [event["data"] for entry in reversed(entries) for event in entry["events"] if event["type"] == kind]

    def tranche(self, client, *words):
        done = subprocess.run([TRANCHE, *words], text=True, capture_output=True, check=False,
                              env={"HOME": str(self.platform.folder), "PATH": "/usr/bin:/bin", "TRANCHE_TOKEN": client.token,
                                   "TRANCHE_URL": f"http://127.0.0.1:{self.platform.port}"})
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout


def micros(amount):
    return int(Fraction(amount) * 1_000_000)


def seconds_of(text):
    """An instant of the API, in microseconds within its day; the tests here do not run for a day."""
    clock = text.split("T")[1].rstrip("Z")
    hours, minutes, rest = clock.split(":")
    return (int(hours) * 60 + int(minutes)) * 60_000_000 + int(Fraction(rest) * 1_000_000)


def a_real_job_is_charged_to_the_microsecond():
    """What `tranche up` ran on the device of this machine is on the account, in the costs and on the invoice."""
    with Up(credit="1000") as up:
        if not up.has_device():
            return "[skipped] no device was found on this machine"
        up.price("36.000001")
        plan = up.ana.post("/v1/jobs?dry_run=true", {"run": "x", "resources": {"gpus": "1GB"}, "limits": {"time": "10m"}}).json
        assert plan["price"]["rule"] == "all" and micros(plan["price"]["most"]) > 0, plan
        shown = up.tranche(up.ana, "run", "--gpus", "1GB", "--time", "10m", "--dry-run", "--", "x")
        assert "at most" in shown and "price" in shown, shown
        job = up.submit("sleep 2", limits={"time": "10m"})
        end = up.end_of(job)
        assert end["job"]["state"] == "succeeded", end
        charges = up.events("charged")
        milli = end["leases"][0]["slices"][0]["milli"]
        total = 0
        for before, after in zip(charges, charges[1:]):
            assert before["to"] == after["from"], charges  # No gap, no overlap.
        for charge in charges:
            total += seconds_of(charge["to"]) - seconds_of(charge["from"])
        exact = Fraction(36_000_001 * milli * total, 1000 * 3_600_000_000)
        assert micros(end["charged"]) == int(exact) > 0, (end["charged"], exact)
        account = up.ana.get("/v1/accounts/acme").json
        assert micros(account["credit"]) == 1_000_000_000 - int(exact) and account["held"] == "0.00", account
        for by in ("job", "user", "tenant"):
            costs = json.loads(up.tranche(up.ana, "-o", "json", "cost", "show", "acme", "--by", by))
            assert micros(costs["total"]) == int(exact), costs
            assert costs["items"][0]["allocated_gpu_milliseconds"] > 0, costs
        bill = up.ana.get("/v1/invoices/acme/current").json
        assert micros(bill["total"]) - micros(bill["rounding"]) == int(exact), bill
    return None


def credit_stops_a_job_and_is_never_passed():
    """A job without a time limit runs as long as it is covered; it is told why it ended, and nothing is overdrawn."""
    with Up(credit="25") as up:
        if not up.has_device():
            return "[skipped] no device was found on this machine"
        whole = {"gpus": "1GB", "isolation": "dedicated"}
        up.settings(hold_ahead="15s")
        up.price("3600")
        job = up.submit("sleep 3600", resources=whole)
        end = up.end_of(job)
        assert end["job"]["state"] == "failed" and end["end_reason"] == "spend_limit", end
        assert "acme" in end["message"], end
        account = up.ana.get("/v1/accounts/acme").json
        assert micros(account["credit"]) >= 0 and account["held"] == "0.00", account
        assert micros(end["charged"]) + micros(account["credit"]) == 25_000_000, (end, account)
        refused = up.ana.post("/v1/jobs", {"run": "true", "resources": whole})  # What is left is less than its hold.
        assert refused.status in (402, 403) and "credit" in refused.body, refused
        plan = up.ana.post("/v1/jobs?dry_run=true", {"run": "x", "resources": whole}).json
        assert not plan["admitted"] and plan["refusal"]["rule"] == "credit", plan
    return None


def without_a_price_list_use_is_shown_and_free():
    """Nothing is charged until somebody says what it costs."""
    with Up() as up:
        if not up.has_device():
            return "[skipped] no device was found on this machine"
        end = up.end_of(up.submit("sleep 1"))
        assert end["job"]["state"] == "succeeded" and micros(end["charged"]) == 0, end
        costs = up.ana.get("/v1/costs/acme?by=job").json
        assert micros(costs["total"]) == 0 and costs["items"][0]["allocated_gpu_milliseconds"] > 0, costs
        plan = up.ana.post("/v1/jobs?dry_run=true", {"run": "x", "resources": {"gpus": "1GB"}}).json
        assert "no price list" in plan["price"]["most_because"], plan
    return None


def invoices_for_people_and_tags():
    """An invoice is listed, and a PDF that a real reader opens; costs are split by tag, and units have a price each."""
    with Up() as up:
        if not up.has_device():
            return "[skipped] no device here"
        up.price("3.60")
        job = up.submit('for i in 1 2 3; do echo "tranche: step $i/3"; sleep 1; done', labels={"team": "nlp"})
        assert up.end_of(job)["job"]["state"] == "succeeded"
        up.until(lambda: up.ana.get("/v1/invoices/acme").json["items"])
        assert "acme" in up.tranche(up.ana, "invoice", "list", "acme")
        file = up.platform.folder / "bill.pdf"
        up.tranche(up.ana, "invoice", "pdf", "acme", "-f", str(file))
        assert file.read_bytes().startswith(b"%PDF-")
        if shutil.which("pdftotext"):
            words = subprocess.run(["pdftotext", "-layout", file, "-"], text=True, capture_output=True, check=True).stdout
            assert "Invoice so far" in words and "acme" in words and "Total so far" in words, words
        row = up.ana.get("/v1/costs/acme?by=tag:team").json["items"][0]
        assert row["what"] == "nlp" and row["units"]["steps"] == 3, row
        assert up.ana.get("/v1/costs/acme?by=unit").json["items"][0]["what"] == "steps"
        assert "/step" in up.tranche(up.ana, "cost", "show", "acme", "--by", "tag")
        assert micros(up.ana.get(f"/v1/jobs/{job}").json["progress"]["cost_each"]) > 0, up.ana.get(f"/v1/jobs/{job}").json
    return None


def a_missed_promise_is_credited():
    """A start later than promised is counted, named, and half of what the job cost comes back."""
    with Up(credit="100") as up:
        if not up.has_device():
            return "[skipped] no device was found on this machine"
        up.price("36000")
        up.tranche(up.operator, "level", "set", "gold", "--party", "acme", "--start-within", "1ms", "--credit", "50")
        job = up.submit("sleep 2", limits={"time": "10m"})
        assert up.end_of(job)["job"]["state"] == "succeeded"
        up.until(lambda: micros(up.ana.get(f"/v1/jobs/{job}").json["credited"]) > 0)
        end = up.ana.get(f"/v1/jobs/{job}").json
        assert abs(micros(end["charged"]) - micros(end["credited"])) <= 1, end
        level = up.ana.get("/v1/levels").json["items"][0]
        assert level["missed"] == 1 and level["misses"][0]["job"] == job and level["attained_permille"] == 0, level
        assert micros(level["credited"]) == micros(end["credited"]), level
        shown = up.tranche(up.operator, "level", "list")
        assert "starts within 1ms" in shown and "0.0%" in shown, shown
        firm = up.tranche(up.operator, "level", "set", "firm", "--party", "acme", "--delivered", "99%")
        assert "99.0% of what is booked" in firm, firm
        up.tranche(up.operator, "level", "rm", "acme", "firm")
        up.tranche(up.operator, "level", "rm", "acme", "gold")
        assert up.ana.get("/v1/levels").json["items"] == []
    return None


if __name__ == "__main__":
    main([a_real_job_is_charged_to_the_microsecond, credit_stops_a_job_and_is_never_passed,
          without_a_price_list_use_is_shown_and_free, invoices_for_people_and_tags,
          a_missed_promise_is_credited])
