# SPDX-License-Identifier: Apache-2.0
"""Real work on a real device costs what its seconds cost, and stops when nothing covers it."""
import atexit
import csv
import datetime
import json
import pathlib
import shutil
import subprocess
import time
from fractions import Fraction

from tranche_platform import TRANCHE, Client, Platform, main, make_user

PATIENCE = 120  # Seconds that anything may take on a loaded machine before it counts as never.


STARTED = []


def started():
    """One `tranche up` for all cases: testing its device is most of a short case."""
    if not STARTED:
        platform = Platform(command="up").start()
        atexit.register(platform.__exit__, None, None, None)
        atexit.register(platform.stop)
        STARTED.append(platform)
    return STARTED[0]


class Up:
    """A tenant of its own with a user, on `tranche up` with the device of this machine."""

    def __init__(self, tenant, credit=None):
        self.tenant, self.credit = tenant, credit

    def __enter__(self):
        self.platform = started()
        self.operator = self.platform.client()
        assert self.operator.post("/v1/tenants", {"name": self.tenant}).status == 201
        _, token = make_user(self.operator, self.tenant, "ana", ["tenant_admin"])
        self.ana = Client(self.platform.port, token)
        if self.credit:
            assert self.operator.post(f"/v1/accounts/{self.tenant}/top-up", {"amount": self.credit}).status == 200
        self.until(lambda: any(node["connected"] for node in self.operator.get("/v1/nodes").json["items"]))
        return self

    def __exit__(self, *unused):
        pass

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
        return run_tranche(self.platform, client, *words)


def run_tranche(platform, client, *words):
    done = subprocess.run([TRANCHE, *words], text=True, capture_output=True, check=False,
                          env={"HOME": str(platform.folder), "PATH": "/usr/bin:/bin", "TRANCHE_TOKEN": client.token,
                               "TRANCHE_URL": f"http://127.0.0.1:{platform.port}"})
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
    with Up("exact", credit="1000") as up:
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
        charges = [charge for charge in up.events("charged") if charge["job"] == job]
        milli = end["leases"][0]["slices"][0]["milli"]
        total = 0
        for before, after in zip(charges, charges[1:]):
            assert before["to"] == after["from"], charges  # No gap, no overlap.
        for charge in charges:
            total += seconds_of(charge["to"]) - seconds_of(charge["from"])
        exact = Fraction(36_000_001 * milli * total, 1000 * 3_600_000_000)
        assert micros(end["charged"]) == int(exact) > 0, (end["charged"], exact)
        account = up.ana.get("/v1/accounts/exact").json
        assert micros(account["credit"]) == 1_000_000_000 - int(exact) and account["held"] == "0.00", account
        for by in ("job", "user", "tenant"):
            costs = json.loads(up.tranche(up.ana, "-o", "json", "cost", "show", "exact", "--by", by))
            assert micros(costs["total"]) == int(exact), costs
            assert costs["items"][0]["allocated_gpu_milliseconds"] > 0, costs
        bill = up.ana.get("/v1/invoices/exact/current").json
        assert micros(bill["total"]) - micros(bill["rounding"]) == int(exact), bill
    return None


def credit_stops_a_job_and_is_never_passed():
    """A job without a time limit runs as long as it is covered; it is told why it ended, and nothing is overdrawn."""
    with Up("broke", credit="18") as up:
        if not up.has_device():
            return "[skipped] no device was found on this machine"
        slice_ = {"gpus": "1GB"}  # Not a whole device, whose wipe would take most of the case.
        up.settings(hold_ahead="15s")
        up.price("280000")  # About 1 a second for the slice.
        job = up.submit("sleep 3600", resources=slice_)
        end = up.end_of(job)
        assert end["job"]["state"] == "failed" and end["end_reason"] == "spend_limit", end
        assert "broke" in end["message"], end
        account = up.ana.get("/v1/accounts/broke").json
        assert micros(account["credit"]) >= 0 and account["held"] == "0.00", account
        assert micros(end["charged"]) + micros(account["credit"]) == 18_000_000, (end, account)
        refused = up.ana.post("/v1/jobs", {"run": "true", "resources": slice_})  # What is left is less than its hold.
        assert refused.status in (402, 403) and "credit" in refused.body, refused
        plan = up.ana.post("/v1/jobs?dry_run=true", {"run": "x", "resources": slice_}).json
        assert not plan["admitted"] and plan["refusal"]["rule"] == "credit", plan
    return None


def without_a_price_list_use_is_shown_and_free():
    """Nothing is charged until somebody says what it costs."""
    with Up("free") as up:
        if not up.has_device():
            return "[skipped] no device was found on this machine"
        end = up.end_of(up.submit("sleep 1"))
        assert end["job"]["state"] == "succeeded" and micros(end["charged"]) == 0, end
        costs = up.ana.get("/v1/costs/free?by=job").json
        assert micros(costs["total"]) == 0 and costs["items"][0]["allocated_gpu_milliseconds"] > 0, costs
        plan = up.ana.post("/v1/jobs?dry_run=true", {"run": "x", "resources": {"gpus": "1GB"}}).json
        assert "no price list" in plan["price"]["most_because"], plan
    return None


def invoices_for_people_and_tags():
    """An invoice is listed, and a PDF that a real reader opens; costs are split by tag, and units have a price each."""
    with Up("tags") as up:
        if not up.has_device():
            return "[skipped] no device here"
        up.price("3.60")
        job = up.submit('for i in 1 2 3; do echo "tranche: step $i/3"; sleep 1; done', labels={"team": "nlp"})
        assert up.end_of(job)["job"]["state"] == "succeeded"
        up.until(lambda: up.ana.get("/v1/invoices/tags").json["items"])
        assert "tags" in up.tranche(up.ana, "invoice", "list", "tags")
        file = up.platform.folder / "bill.pdf"
        up.tranche(up.ana, "invoice", "pdf", "tags", "-f", str(file))
        assert file.read_bytes().startswith(b"%PDF-")
        if shutil.which("pdftotext"):
            words = subprocess.run(["pdftotext", "-layout", file, "-"], text=True, capture_output=True, check=True).stdout
            assert "Invoice so far" in words and "tags" in words and "Total so far" in words, words
        row = up.ana.get("/v1/costs/tags?by=tag:team").json["items"][0]
        assert row["what"] == "nlp" and row["units"]["steps"] == 3, row
        assert up.ana.get("/v1/costs/tags?by=unit").json["items"][0]["what"] == "steps"
        assert "/step" in up.tranche(up.ana, "cost", "show", "tags", "--by", "tag")
        assert micros(up.ana.get(f"/v1/jobs/{job}").json["progress"]["cost_each"]) > 0, up.ana.get(f"/v1/jobs/{job}").json
    return None


def a_missed_promise_is_credited():
    """A start later than promised is counted, named, and half of what the job cost comes back."""
    with Up("late", credit="100") as up:
        if not up.has_device():
            return "[skipped] no device was found on this machine"
        up.price("36000")
        up.tranche(up.operator, "level", "set", "gold", "--party", "late", "--start-within", "1ms", "--credit", "50")
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
        firm = up.tranche(up.operator, "level", "set", "firm", "--party", "late", "--delivered", "99%")
        assert "99.0% of what is booked" in firm, firm
        up.tranche(up.operator, "level", "rm", "late", "firm")
        up.tranche(up.operator, "level", "rm", "late", "gold")
        assert up.ana.get("/v1/levels").json["items"] == []
    return None


def clock_shifted(folder, **shift):
    """The environment of a server whose wall clock is off by that much; nothing where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "shifted_clock.so"
    source = pathlib.Path(__file__).with_name("shifted_clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    seconds = int(datetime.timedelta(**shift).total_seconds())
    return {"LD_PRELOAD": str(library), "SHIFT_SECONDS": str(seconds), "ASAN_OPTIONS": "verify_asan_link_order=0"}


def buy_something(operator, port):
    """A tenant with 100 of credit spends a part of it on the exchange; returns its client."""
    clients = {}
    for tenant in ("owner", "buyer"):
        assert operator.post("/v1/tenants", {"name": tenant}).status == 201
        clients[tenant] = Client(port, make_user(operator, tenant, "trader", ["tenant_admin"])[1])
        assert operator.post(f"/v1/accounts/{tenant}/top-up", {"amount": "100"}).status == 200
    device = {"device": "gpu_000001", "owner": "owner", "model": "H100", "accepted": True}
    assert operator.put("/v1/market/devices", device).status == 200
    listed = clients["owner"].post("/v1/market/listings", {"device": "gpu_000001", "length": "8h", "hourly": "2.00"})
    assert listed.status == 201, listed
    order = {"instrument": {"model": "H100"}, "milli": 1000, "length": "3h", "hourly": "2.00", "life": "fok"}
    bought = clients["buyer"].post("/v1/market/orders", order)
    assert bought.status == 201, bought
    return clients["buyer"]


def an_issued_invoice_is_corrected_by_a_credit_note():
    """Once its month is over; numbered, bounded, once for a key, on every form of the bill, and never by changing it."""
    platform = Platform()
    past = clock_shifted(platform.folder, days=-40)
    if past is None:
        return "[skipped] no compiler for the clock"
    platform.environment = past
    with platform:
        buyer = buy_something(platform.client(), platform.port)
        month = buyer.get("/v1/invoices/buyer").json["items"][0]["id"][-7:]
        note = {"amount": "1.00", "reason": 'late, "by an hour"'}
        early = platform.client().post(f"/v1/invoices/buyer/{month}/credits", note)
        assert early.status == 409 and "month runs" in early.body, early
        platform.stop()

        platform.environment = {}
        platform.start()
        operator, buyer = platform.client(), Client(platform.port, buyer.token)
        assert buyer.post(f"/v1/invoices/buyer/{month}/credits", note).status == 403
        before = buyer.get(f"/v1/invoices/buyer/{month}").json
        assert before["final"] and micros(before["total"]) >= 6_000_000 and before["credit_notes"] == [], before
        credit = micros(buyer.get("/v1/accounts/buyer").json["credit"])

        def tranche(client, *words):
            return run_tranche(platform, client, *words)

        words = ("-o", "json", "--idempotency-key", "note-1", "invoice", "credit", before["id"], "--amount", "1.00",
                 "--reason", note["reason"])
        made = [json.loads(tranche(operator, *words)) for _ in range(2)]
        assert made[0] == made[1] and made[0]["id"] == before["id"] + "-C1", made
        line = operator.post(f"/v1/invoices/buyer/{month}/credits", {"amount": "0.50", "line": 1, "reason": "again"})
        assert line.status == 201 and line.json["id"].endswith("-C2"), line
        assert line.json["description"] == "Capacity bought on the exchange", line
        much = operator.post(f"/v1/invoices/buyer/{month}/credits", {"amount": "999", "reason": "too much"})
        assert much.status == 409 and "credit at most" in much.body, much

        after = buyer.get(f"/v1/invoices/buyer/{month}").json
        assert after["total"] == before["total"] and micros(after["due"]) == micros(before["total"]) - 1_500_000, after
        assert micros(buyer.get("/v1/accounts/buyer").json["credit"]) == credit + 1_500_000
        assert micros(buyer.get("/v1/costs/buyer?by=tenant").json["total"]) == -1_500_000
        rows = list(csv.DictReader(buyer.get("/v1/costs/buyer/focus").body.splitlines()))
        assert [(row["ChargeClass"], micros(row["BilledCost"])) for row in rows] == [
            ("Correction", -1_000_000), ("Correction", -500_000)], rows
        assert all(row["ChargePeriodStart"].startswith(month) for row in rows), rows
        shown = tranche(buyer, "invoice", "show", "buyer", month)
        assert before["id"] + "-C1: late" in shown and "Due" in shown, shown
        assert "1.50" in tranche(buyer, "invoice", "list", "buyer")
        table = list(csv.DictReader(tranche(buyer, "invoice", "csv", "buyer", month).splitlines()))
        assert [row["description"] for row in table[-3:]] == [
            'Credit note: late, "by an hour"', "Credit note: again", "due"], table
        file = platform.folder / "bill.pdf"
        tranche(buyer, "invoice", "pdf", "buyer", month, "-f", str(file))
        if shutil.which("pdftotext"):
            page = subprocess.run(["pdftotext", "-layout", file, "-"], text=True, capture_output=True, check=True).stdout
            assert before["id"] + "-C2" in page and "Due" in page, page
            tranche(buyer, "invoice", "pdf", "buyer", month, "--note", "1", "-f", str(file))
            page = subprocess.run(["pdftotext", "-layout", file, "-"], text=True, capture_output=True, check=True).stdout
            assert "Credit note" in page and before["id"] + "-C1" in page and "1.00" in page and "late" in page, page
        assert buyer.get(f"/v1/invoices/buyer/{month}/credits/2").json == line.json
        assert buyer.get(f"/v1/invoices/buyer/{month}/credits/3").status == 404
        note_row = list(csv.DictReader(tranche(buyer, "invoice", "csv", "buyer", month, "--note", "2").splitlines()))
        assert note_row[0]["note"].endswith("-C2") and micros(note_row[0]["amount"]) == -500_000, note_row
        entries = operator.get("/v1/audit?limit=20").json["items"]
        assert sum(event["type"] == "invoice_credited" for entry in entries for event in entry["events"]) == 2, entries
    return None


if __name__ == "__main__":
    main([without_a_price_list_use_is_shown_and_free, a_real_job_is_charged_to_the_microsecond,
          invoices_for_people_and_tags, a_missed_promise_is_credited, credit_stops_a_job_and_is_never_passed,
          an_issued_invoice_is_corrected_by_a_credit_note])
