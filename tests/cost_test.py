# SPDX-License-Identifier: Apache-2.0
"""Real work on a real device costs what its seconds cost, and stops when nothing covers it."""
import atexit
import csv
import datetime
import json
import shutil
import subprocess
import time
from fractions import Fraction

from tranche_platform import TRANCHE, Client, Platform, clock_shifted, main, make_user

PATIENCE = 120  # Seconds that anything may take on a loaded machine before it counts as never.


STARTED = []


def started():
    """One `tranche up` for all cases: testing its device is most of a short case."""
    if not STARTED:
        platform = Platform(command="up", acceptance="quick").start()
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


def a_period_that_ends_before_it_begins_is_refused():
    """It is said so at once, and the server goes on answering."""
    with Platform() as platform:
        operator = platform.client()
        for path in ("/v1/costs/~", "/v1/costs/~/focus", "/v1/margin"):
            refused = operator.get(path + "?from=2026-12-01&to=2026-11-01")
            assert refused.status == 422 and "before it begins" in refused.json["detail"], refused
        assert operator.get("/v1/costs/~?from=2026-11-01&to=2026-12-01").status == 200


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


def last_month(folder, hours=0):
    """A server that believes to be in the middle of the month before this one, and so many hours later."""
    now = datetime.datetime.now(datetime.timezone.utc)
    middle = (now.replace(day=1) - datetime.timedelta(days=1)).replace(day=10, hour=12, minute=0, second=0, microsecond=0)
    shift = clock_shifted(folder, seconds=(middle - now).total_seconds() + hours * 3600)
    return shift, middle.strftime("%Y-%m")


def sell_an_hour(operator, port):
    """A tenant under a tax sells an hour of a device on the exchange, for a fee; returns its client."""
    clients = {}
    for tenant in ("owner", "buyer"):
        assert operator.post("/v1/tenants", {"name": tenant}).status == 201
        clients[tenant] = Client(port, make_user(operator, tenant, "trader", ["tenant_admin"])[1])
        assert operator.post(f"/v1/accounts/{tenant}/top-up", {"amount": "1000"}).status == 200
    device = {"device": "gpu_000001", "owner": "owner", "model": "H100", "accepted": True}
    assert operator.put("/v1/market/devices", device).status == 200
    listed = clients["owner"].post("/v1/market/listings", {"device": "gpu_000001", "length": "8h", "hourly": "500"})
    assert listed.status == 201, listed
    order = {"instrument": {"model": "H100"}, "milli": 1000, "length": "1h", "hourly": "500", "life": "fok"}
    assert clients["buyer"].post("/v1/market/orders", order).status == 201
    return clients["owner"], clients["buyer"]


def wait_for(look):
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < deadline, "never happened"
        time.sleep(0.05)
    return found


def pages(file):
    return subprocess.run(["pdftotext", "-layout", file, "-"], text=True, capture_output=True, check=True).stdout


def a_month_is_issued_taxed_and_corrected():
    """By the server's clock alone; with its tax, posted; then credit notes: numbered, bounded, once for a key, on every form."""
    platform = Platform()
    past, month = last_month(platform.folder)
    if past is None:
        return "[skipped] no compiler for the clock"
    platform.environment = past
    path = f"/v1/invoices/owner/{month}"
    with platform:
        operator = platform.client()
        run_tranche(platform, operator, "tax", "rate", "ES", "21%", "--name", "IVA")
        owner, buyer = sell_an_hour(operator, platform.port)
        run_tranche(platform, operator, "tax", "set", "owner", "--country", "ES", "--number", "ESB1", "--name", "Acme SL",
                    "--address", "Calle Mayor 1", "--address", "28013 Madrid")
        run_tranche(platform, operator, "tax", "set", "platform", "--country", "ES", "--number", "ESB2", "--name", "GPU Cloud SL")
        assert "IVA 21 %" in run_tranche(platform, owner, "tax", "show", "owner/trader")
        platform.stop()

        platform.environment = last_month(platform.folder, hours=3)[0]  # The hour was delivered: the fee is due.
        platform.start()
        operator, owner = platform.client(), Client(platform.port, owner.token)
        running = wait_for(lambda: (bill := owner.get(path).json)["lines"] and bill)
        assert not running["final"] and micros(running["tax"]) > 0, running
        note = {"amount": "1.00", "reason": 'late, "by an hour"'}
        early = operator.post(f"{path}/credits", note)
        assert early.status == 409 and "month runs" in early.body, early
        platform.stop()

        platform.environment = {}
        platform.start()  # Nothing happens on it: the month is over because its clock says so.
        operator, owner, buyer = platform.client(), Client(platform.port, owner.token), Client(platform.port, buyer.token)
        before = wait_for(lambda: (bill := owner.get(path).json)["final"] and bill)
        net, tax, total = (micros(before[part]) for part in ("net", "tax", "total"))
        assert 10_000_000 <= net <= 12_500_000 and net % 10_000 == 0 and total == net + tax, before
        assert tax == round(Fraction(net * 21, 100 * 10_000)) * 10_000, before  # Half to even.
        assert before["customer"]["legal_name"] == "Acme SL" and before["issuer"]["number"] == "ESB2", before
        assert before["lines"][0]["description"] == "Fees on what was sold on the exchange", before
        assert micros(before["paid"]) == total and micros(before["due"]) == 0 and before["credit_notes"] == [], before
        bought = buyer.get(f"/v1/invoices/buyer/{month}").json  # Paid to somebody else: beside, and no part of the total.
        assert abs(micros(bought["third_party_total"]) - 50 * net) <= 250_000 and bought["lines"] == [] == bought["taxes"], bought
        report = operator.get("/v1/taxes/report").json
        assert micros(report["account"]) == micros(report["to_pay"]) == tax and report["items"][0]["name"] == "IVA", report
        late = operator.put("/v1/taxes/rates", {"country": "ES", "rate_ppm": 100000, "valid_from": f"{month}-15T00:00:00Z"})
        assert late.status == 422 and "do not change" in late.body, late
        assert owner.put("/v1/taxes/parties/owner", {"country": "ES", "treatment": "exempt", "number": "me"}).status == 403
        assert owner.post(f"{path}/credits", note).status == 403
        credit = micros(owner.get("/v1/accounts/owner").json["credit"])

        def tranche(client, *words):
            return run_tranche(platform, client, *words)

        words = ("-o", "json", "--idempotency-key", "note-1", "invoice", "credit", before["id"], "--amount", "1.00",
                 "--reason", note["reason"])
        made = [json.loads(tranche(operator, *words)) for _ in range(2)]
        assert made[0] == made[1] and made[0]["id"] == before["id"] + "-C1" and made[0]["total"] == "1.21", made
        line = operator.post(f"{path}/credits", {"amount": "0.50", "line": 1, "reason": "again"})
        assert line.status == 201 and line.json["id"].endswith("-C2") and line.json["tax"] == "0.10", line
        much = operator.post(f"{path}/credits", {"amount": "999", "reason": "too much"})
        assert much.status == 409 and "credit at most" in much.body, much
        assert micros(operator.get("/v1/taxes/report").json["account"]) == tax - 310_000

        after = owner.get(path).json
        assert after["total"] == before["total"] and micros(after["credited"]) == 1_810_000, after
        assert micros(owner.get("/v1/accounts/owner").json["credit"]) == credit + 1_810_000
        rows = list(csv.DictReader(owner.get("/v1/costs/owner/focus").body.splitlines()))
        notes = [(row["ChargeCategory"], row["ChargeClass"], micros(row["BilledCost"])) for row in rows]
        assert notes == [("Credit", "Correction", -1_000_000), ("Tax", "Correction", -210_000),
                         ("Credit", "Correction", -500_000), ("Tax", "Correction", -100_000)], rows
        span = ("--from", f"{month}-01", "--to", f"{datetime.date.today() + datetime.timedelta(days=1)}")
        checked = json.loads(tranche(operator, "-o", "json", "cost", "export", *span, "--check"))
        assert checked["problems"] == [] and checked["invoices"] == 4 and checked["rows"] > 6, checked
        rows = list(csv.DictReader(tranche(owner, "cost", "export", "owner", "--focus", *span).splitlines()))
        assert sum(micros(row["BilledCost"]) for row in rows if row["InvoiceId"] == before["id"]) == total, rows
        third = list(csv.DictReader(tranche(buyer, "cost", "export", "buyer", *span).splitlines()))
        assert {(row["BilledCost"], row["PublisherName"], row["InvoiceId"]) for row in third} == {
            ("0.00", "Seller on the exchange", "")}, third
        # Bought for later: it costs something as it is delivered, here to nobody's job.
        bought, idle = third
        assert bought["ChargeCategory"] == "Purchase" and bought["EffectiveCost"] == "0.00", third
        assert idle["CapacityReservationStatus"] == "Unused" and idle["EffectiveCost"] == bought["ListCost"], third
        shown = tranche(owner, "invoice", "show", "owner", month)
        assert before["id"] + "-C1: late" in shown and "IVA 21 %" in shown and "Paid from credit" in shown, shown
        assert "1.81" in tranche(owner, "invoice", "list", "owner")
        table = list(csv.DictReader(tranche(owner, "invoice", "csv", "owner", month).splitlines()))
        assert [row["kind"] for row in table] == ["line", "net", "tax", "total", "credit", "credit", "paid", "due"], table
        if shutil.which("pdftotext"):
            file = platform.folder / "bill.pdf"
            tranche(owner, "invoice", "pdf", "owner", month, "-f", str(file))
            page = pages(file)
            for words in (before["id"] + "-C2", "Due", "IVA 21 %", "Acme SL", "28013 Madrid", "Tax number ESB1", "GPU Cloud SL"):
                assert words in page, (words, page)
            tranche(owner, "invoice", "pdf", "owner", month, "--note", "1", "-f", str(file))
            page = pages(file)
            assert "Credit note" in page and before["id"] + "-C1" in page and "1.21" in page and "late" in page, page
            tranche(buyer, "invoice", "pdf", "buyer", month, "-f", str(file))
            assert "not part of this invoice" in pages(file), pages(file)
        assert owner.get(f"{path}/credits/2").json == line.json
        assert owner.get(f"{path}/credits/3").status == 404
        note_row = list(csv.DictReader(tranche(owner, "invoice", "csv", "owner", month, "--note", "2").splitlines()))
        assert note_row[0]["note"].endswith("-C2") and micros(note_row[0]["total"]) == -600_000, note_row
        entries = operator.get("/v1/audit?limit=20").json["items"]
        assert sum(event["type"] == "invoice_credited" for entry in entries for event in entry["events"]) == 2, entries
    return None


PRICES = """
rules:
  - {name: nights, model: H100, gpu_hour: 1.60, hours: {from: "22:00", to: "06:00", zone: Europe/Madrid, days: [mon, tue]}}
  - {name: acme, party: acme, model: H100, gpu_hour: 2.00}
  - {name: by memory, gpu_hour: 0.80, dimension: larger, isolation: soft, priority_min: 80}
  - {name: the rest, gpu_hour: 2.40, basis: mixed, used_percent: 40, per_million: {tokens: 0.30}}
  - {name: disks, storage_gib_hour: 0.0002}
"""


def a_price_list_is_a_file():
    """Written, read back, sent again: the same; and whatever is wrong with it is told by the rule."""
    with Platform() as platform:
        operator = platform.client()
        assert operator.post("/v1/tenants", {"name": "acme"}).status == 201
        stranger = Client(platform.port, (operator.post("/v1/tenants", {"name": "other"}),
                                          make_user(operator, "other", "bo", ["member"]))[1][1])
        file = platform.folder / "prices.yaml"
        file.write_text(PRICES)

        def tranche(*words, code=0, who=operator):
            done = subprocess.run([TRANCHE, *words], text=True, capture_output=True, check=False,
                                  env={"HOME": str(platform.folder), "PATH": "/usr/bin:/bin", "TRANCHE_TOKEN": who.token,
                                       "TRANCHE_URL": f"http://127.0.0.1:{platform.port}"})
            assert done.returncode == code, (words, done.stdout, done.stderr)
            return done.stdout if code == 0 else done.stderr

        table = tranche("price", "set", "2026", "-f", str(file))
        for words in ("22:00-06:00 Europe/Madrid mon/tue", "acme", "priority 80-100", "allocated larger", "0.30/M tokens"):
            assert words in table, (words, table)
        shown = tranche("price", "show", "2026", "-o", "yaml")
        again = platform.folder / "again.yaml"
        again.write_text(shown)
        assert "in the past" in tranche("price", "set", "2027", "-f", str(again), code=2)
        tranche("price", "set", "2027", "-f", str(again), "--from", "now")
        lists = operator.get("/v1/prices").json["items"]
        assert [one["name"] for one in lists] == ["2026", "2027"] and lists[0]["rules"] == lists[1]["rules"], lists
        assert lists[0]["rules"][1] == {"name": "acme", "model": "H100", "party": "acme", "gpu_hour": "2.00"}, lists[0]
        assert "acme" not in tranche("price", "list", who=stranger)
        for wrong, told in ((PRICES.replace("larger", "largest"), "larger"),
                            (PRICES.replace("Europe/Madrid", "Europe/Atlantis"), "rule 1 ('nights'): there is no time zone"),
                            (PRICES.replace("party: acme", "party: nobody"), "rule 'acme': there is no party 'nobody'"),
                            (PRICES.replace("used_percent: 40", "used_percent: 140"), "rule 4 ('the rest')"),
                            (PRICES.replace("gpu_hour: 2.00", "gpu_hours: 2.00"), "gpu_hour"),
                            (PRICES + "   - [", "prices.yaml")):
            file.write_text(wrong)
            assert told in tranche("price", "set", "2028", "-f", str(file), code=2), (told, wrong)
        assert "--gpu-hour 2.40" in tranche("price", "set", "2028", code=2)
        assert len(operator.get("/v1/prices").json["items"]) == 2


def prices_are_told_before_anything_is_had():
    """Of bookings, services, notebooks and volumes, with the tax on top; the report of costs needs no party."""
    with Up("asks", credit="50") as up:
        if not up.has_device():
            return "[skipped] no device was found on this machine"
        list_ = {"name": "told", "rules": [{"name": "all", "gpu_hour": "3.60"}, {"name": "disk", "storage_gib_hour": "0.01"}]}
        assert up.operator.put("/v1/prices", list_).status == 200
        up.tranche(up.operator, "tax", "set", "asks", "--country", "ES", "--rate", "10%")
        booked = up.tranche(up.ana, "book", "1GB", "--from", "in 2h", "--for", "2h", "--every", "day", "--times", "3", "--dry-run")
        assert "3 windows of" in booked and "unused time is free" in booked and "comes on top" in booked, booked
        assert up.ana.get("/v1/bookings").json["items"] == []
        service = up.platform.folder / "service.yaml"
        service.write_text("name: chat\nreplicas: {min: 0, max: 3}\nversions:\n  - name: v1\n    job:\n      run: sleep 1\n"
                           "      port: 8000\n      resources: {gpus: 1GB}\n")
        served = json.loads(up.tranche(up.ana, "-o", "json", "serve", "-f", str(service), "--dry-run"))
        one = json.loads(up.tranche(up.ana, "-o", "json", "run", "--gpus", "1GB", "--time", "1h", "--dry-run", "--", "true"))
        assert micros(served["price"]["hourly"]) == 3 * micros(one["price"]["hourly"]) > 0, (served, one)
        assert micros(one["price"]["most_with_tax"]) == with_ten_percent(micros(one["price"]["most"])), one
        assert "at most" in up.tranche(up.ana, "notebook", "--gpus", "1GB", "--dry-run")
        kept = json.loads(up.tranche(up.ana, "-o", "json", "volume", "create", "w", "--size", "10GiB", "--dry-run"))
        assert micros(kept["price"]["hourly"]) == 100_000 and micros(kept["price"]["most"]) == 72_000_000, kept
        assert up.ana.get("/v1/volumes").json["items"] == [] == up.ana.get("/v1/services").json["items"]
        assert "total" in up.tranche(up.operator, "cost", "--by", "tenant")
        assert "total" in up.tranche(up.ana, "cost", "--by", "job")
    return None


def prices_by_the_unit_are_told_before():
    """Frames that are known are in the most; tokens that nobody can count stand beside it; --spend bounds both."""
    with Up("renders", credit="50") as up:
        if not up.has_device():
            return "[skipped] no device was found on this machine"
        rule = {"name": "all", "gpu_hour": "0", "per_million": {"frames": "1000", "tokens": "0.30"}}
        assert up.operator.put("/v1/prices", {"name": "units", "rules": [rule]}).status == 200
        words = ["run", "--gpus", "1GB", "--time", "5m", "--dry-run"]
        film = [*words, "--kind", "render", "--frames", "1-240", "--", "echo", "{frame}"]
        told = up.tranche(up.ana, *film)
        assert "at most     0.24 " in told and "for 240 frames, 1.00 " in told and "per 1,000 frames" in told, told
        assert "plus        0.0003 " in told and "per 1,000 tokens, as many as there will be" in told, told
        bounded = up.tranche(up.ana, *words, "--spend", "2", "--", "true")
        assert "at most     2.00 " in bounded and "plus" not in bounded and "per 1,000 tokens" in bounded, bounded
    return None


def what_runs_in_bought_capacity_is_metered_and_paid_once():
    """A real job in a bought window has its units and its part of the price; given back, the contract is settled at once."""
    with Up("buys", credit="100") as up:
        if not up.has_device():
            return "[skipped] no device was found on this machine"
        up.price("100000")  # Nobody could pay for it otherwise.
        assert up.operator.post("/v1/tenants", {"name": "sells"}).status == 201
        _, token = make_user(up.operator, "sells", "olga", ["tenant_admin"])
        olga = Client(up.platform.port, token)
        assert up.operator.post("/v1/accounts/sells/top-up", {"amount": "100"}).status == 200
        for tenant in ("buys", "sells"):
            up.tranche(up.operator, "quota", "set", tenant, "--share", "yes")
        device = up.operator.get("/v1/devices").json["items"][0]["id"]
        up.tranche(up.operator, "market", "certify", device, "--owner", "sells", "--model", "pocl")
        up.tranche(olga, "market", "sell", device, "--for", "2h", "--price", "1/h", "--share", "0.5", "--as", "sells")
        bought = json.loads(up.tranche(up.ana, "-o", "json", "market", "buy", "pocl:0.25", "--for", "1h", "--limit", "1/h"))
        contract, paid = bought["contracts"][0], micros(bought["paid"])
        job = up.submit('echo "tranche: step 40/40"; sleep 2', resources={"gpus": "512MB"})
        end = up.end_of(job)
        assert end["job"]["state"] == "succeeded" and micros(end["charged"]) == 0, end
        costs = json.loads(up.tranche(up.ana, "-o", "json", "cost", "show", "buys", "--by", "job"))
        rows = {row["what"]: row for row in costs["items"]}
        assert micros(costs["total"]) == paid == micros(rows[job]["cost"]) + micros(rows["exchange"]["cost"]), (costs, bought)
        assert micros(rows[job]["cost"]) > 0 and rows[job]["units"] == {"steps": 40}, rows
        assert micros(rows[job]["unit_cost"]["steps"]) == micros(rows[job]["cost"]) // 40, rows
        assert rows[job]["allocated_gpu_milliseconds"] > 0, rows
        sold = [one for day in json.loads(up.tranche(up.operator, "-o", "json", "cost", "reconcile"))["items"]
                for one in day["classes"] if one["what"] == "sold"]
        assert sold and all("busy_nanoseconds" in one for one in sold), sold
        escrow = lambda: [row["balance"] for row in up.operator.get("/v1/ledger/accounts").json["items"] if row["kind"] == "escrow"]
        assert micros(escrow()[0]) == paid, escrow()
        up.tranche(up.ana, "market", "release", contract)
        assert micros(escrow()[0]) == 0, escrow()
        earned = olga.get("/v1/accounts/sells").json
        assert micros(earned["payable"]) == paid - paid * 2 // 100, (earned, paid)
        bill = up.ana.get("/v1/invoices/buys/current").json
        assert bill["lines"] == [] and micros(bill["third_party_total"]) == round(Fraction(paid, 10_000)) * 10_000, bill
    return None


def with_ten_percent(net):
    """With ten percent on top, in whole cents, half to even."""
    return net + round(Fraction(net, 10 * 10_000)) * 10_000


if __name__ == "__main__":
    main([without_a_price_list_use_is_shown_and_free, a_period_that_ends_before_it_begins_is_refused,
          a_real_job_is_charged_to_the_microsecond,
          invoices_for_people_and_tags, a_missed_promise_is_credited, credit_stops_a_job_and_is_never_passed,
          a_month_is_issued_taxed_and_corrected, a_price_list_is_a_file, prices_are_told_before_anything_is_had,
          prices_by_the_unit_are_told_before, what_runs_in_bought_capacity_is_metered_and_paid_once])
