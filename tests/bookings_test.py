# SPDX-License-Identifier: Apache-2.0
"""The calendar from outside: windows are booked, refused, listed, opened for their owner's jobs, and given back."""
import datetime
import json
import pathlib
import subprocess

from node_test import Site
from tranche_platform import TRANCHE, Client, main, make_user

EIGHT = str(pathlib.Path(__file__).resolve().parent.parent / "share" / "simulated" / "8xh100.yaml")
TOMORROW = {"from": "tomorrow 09:00", "zone": "Europe/Madrid", "simulated": True}


class Lab(Site):
    """A simulated node of eight H100 and two tenants who do not share devices."""

    def __enter__(self):
        super().__enter__()
        assert self.operator.post("/v1/tenants", {"name": "globex"}).status == 201
        _, token = make_user(self.operator, "globex", "bo", ["member"])
        self.bo = Client(self.platform.port, token)
        self.agent("sim-a", "--simulated", EIGHT)
        return self

    def book(self, who, gpus, length, **more):
        return who.post("/v1/bookings", {"gpus": gpus, "length": length, **TOMORROW, **more})

    def tranche(self, who, *words, code=0):
        done = subprocess.run(
            [TRANCHE, *words], text=True, capture_output=True, check=False,
            env={"HOME": str(self.platform.folder), "PATH": "/usr/bin:/bin", "TRANCHE_TOKEN": who.token,
                 "TRANCHE_URL": f"http://127.0.0.1:{self.platform.port}"})
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr


def rule(answer):
    return answer.json["reasons"][0]["rule"]


def simulated(gpus, duration="1h", **more):
    return {"run": "true", "resources": {"gpus": gpus}, "infra": "simulated",
            "labels": {"sim.duration": duration, **more.pop("labels", {})}, **more}


def what_is_booked_is_refused_to_others():
    """A conflict is refused with the nearest windows that fit, in the zone asked in; those can then be booked."""
    with Lab() as lab:
        made = lab.book(lab.ana, "H100:8", "3h", name="class")
        assert made.status == 201, made
        window = made.json["windows"][0]
        assert window["from_local"][11:16] == "09:00" and len(window["devices"]) == 8, window
        refused = lab.book(lab.bo, "H100", "1h")
        assert refused.status == 409 and rule(refused) == "calendar", refused
        fix = refused.json["fix"]
        assert "T08:00:00+0" in fix and "T12:00:00+0" in fix, fix
        later = lab.book(lab.bo, "H100", "1h", **{"from": "tomorrow 12:00"})
        assert later.status == 201, later
        assert lab.bo.get(f"/v1/bookings/{made.json['id']}").status == 404
        assert [one["id"] for one in lab.bo.get("/v1/bookings").json["items"]] == [later.json["id"]]
        assert lab.bo.call("DELETE", f"/v1/bookings/{made.json['id']}").status == 404
        assert lab.ana.call("DELETE", f"/v1/bookings/{made.json['id']}").status == 204
        assert lab.book(lab.bo, "H100", "1h").status == 201


def recurring_windows_keep_their_local_time():
    """Every weekday at nine in Madrid: the right days, the right local time across the change of clocks."""
    with Lab() as lab:
        made = lab.book(lab.ana, "H100:0.5", "3h", every="weekday", times=200)
        assert made.status == 201, made
        windows = made.json["windows"]
        assert len(windows) == 200
        offsets = set()
        for window in windows:
            begin = datetime.datetime.fromisoformat(window["from_local"])
            end = datetime.datetime.fromisoformat(window["to_local"])
            assert begin.weekday() < 5 and (begin.hour, begin.minute) == (9, 0), window
            assert (end.hour, end.minute) == (12, 0), window
            offsets.add(begin.utcoffset())
        assert len(offsets) == 2, "200 weekdays cross at least one change of clocks"
        dates = [window["from_local"][:10] for window in windows]
        assert dates == sorted(set(dates))


def what_makes_no_sense_is_refused_by_name():
    """Wrong times, zones, rules, shapes and environments: each refusal names the field."""
    with Lab() as lab:
        wrong = [("from", {"from": "yesterday-ish"}), ("zone", {"zone": "Mars/Olympus"}), ("every", {"every": "sometimes"}),
                 ("gpus", {"gpus": "a few"}), ("from", {"from": "2001-01-01 09:00"}), ("for", {"length": "1s"})]
        for field, change in wrong:
            refused = lab.ana.post("/v1/bookings", {"gpus": "H100", "length": "1h", **TOMORROW, **change})
            assert refused.status in (400, 403, 409, 422) and field in refused.body, (field, refused)
        nothing = lab.book(lab.ana, "B200", "1h")
        assert nothing.status == 409 and rule(nothing) == "no_such_device", nothing
        layer = lab.book(lab.ana, "H100", "1h", environment={"layer": "slurm"})
        assert layer.status == 409 and rule(layer) == "environment", layer
        assert lab.ana.get("/v1/bookings/clm_ZZZZZZ").status == 404
        unknown = lab.ana.post("/v1/jobs", simulated("H100", labels={"booking": "clm_ZZZZZZ"}))
        assert unknown.status in (400, 422) and "booking" in unknown.body, unknown


def a_job_starts_in_its_own_window():
    """An open window holds its devices for its owner: his job starts there, a stranger's waits, and may after cancelling."""
    with Lab() as lab:
        made = lab.book(lab.ana, "H100:8", "2h", **{"from": "now"})
        assert made.status == 201, made
        claim = made.json["id"]
        stranger = lab.bo.post("/v1/jobs", simulated("H100")).json["id"]
        own = lab.ana.post("/v1/jobs", simulated("H100:8", labels={"booking": claim}))
        assert own.status == 201, own
        job = own.json["id"]
        lab.until_state(job, "running")
        assert lab.bo.get(f"/v1/jobs/{stranger}").json["job"]["state"] == "pending"
        lab.until(lambda: lab.ana.get(f"/v1/bookings/{claim}").json["windows"][0]["state"] == "open")
        lab.platform.kill()
        lab.restart()
        lab.bo = Client(lab.platform.port, lab.bo.token)
        assert lab.ana.get(f"/v1/bookings/{claim}").json["windows"][0]["state"] == "open"
        lab.until_state(job, "running")
        assert lab.ana.call("DELETE", f"/v1/bookings/{claim}").status == 204
        lab.until(lambda: lab.bo.get(f"/v1/jobs/{stranger}").json["job"]["state"] == "running")


def the_command_books():
    """The same through `tranche book`: book, list, show, ics, cancel, and refusals with their exit codes."""
    with Lab() as lab:
        words = ["book", "H100:0.5", "--from", "tomorrow 09:00", "--for", "3h", "--tz", "Europe/Madrid", "--simulated"]
        claim = json.loads(lab.tranche(lab.ana, *words, "--name", "class", "-o", "json"))["id"]
        assert claim in lab.tranche(lab.ana, "book", "list")
        shown = lab.tranche(lab.ana, "book", "show", claim)
        assert "Europe/Madrid" in shown and "T09:00:00+0" in shown and "SIM" in shown, shown
        for words_of in (["book", "ics"], ["book", "ics", claim]):
            text = lab.tranche(lab.ana, *words_of)
            assert text.startswith("BEGIN:VCALENDAR") and "SUMMARY:class" in text and text.count("BEGIN:VEVENT") == 1, text
        assert "nearest" in lab.tranche(lab.bo, "book", "H100:8", *words[2:], code=5)
        lab.tranche(lab.ana, "book", "cancel", claim, "--yes")
        assert claim not in lab.tranche(lab.ana, "book", "list")
        assert claim in lab.tranche(lab.ana, "book", "list", "--all")
        assert "--from" in lab.tranche(lab.ana, "book", "H100", "--for", "3h", code=2)


def maintenance_keeps_a_node_free():
    """What is planned on a node is avoided by bookings, refused over bookings, and moves running work before it opens."""
    with Lab() as lab:
        plan = {"node": "sim-a", "from": "tomorrow 09:00", "zone": "Europe/Madrid", "length": "3h", "name": "new fans"}
        assert lab.ana.post("/v1/maintenance", plan).status in (403, 404)
        planned = lab.operator.post("/v1/maintenance", plan)
        assert planned.status == 201 and planned.json["kind"] == "maintenance", planned
        assert lab.book(lab.ana, "H100", "1h").status == 409
        listed = lab.tranche(lab.operator, "maintenance", "list")
        assert planned.json["id"] in listed and "new fans" in listed, listed
        lab.tranche(lab.operator, "maintenance", "cancel", planned.json["id"], "--yes")
        assert planned.json["id"] not in lab.tranche(lab.operator, "maintenance", "list")
        booked = lab.book(lab.ana, "H100", "1h")
        assert booked.status == 201, booked
        refused = lab.operator.post("/v1/maintenance", plan)
        assert refused.status == 409 and booked.json["id"] in refused.body, refused
        job = lab.ana.post("/v1/jobs", simulated("H100")).json["id"]
        lab.until_state(job, "running")
        for wrong in ("now", "now/", "now/later", "2026-11-22T02:00:00Z/2026-11-21T22:00:00Z"):
            told = lab.tranche(lab.operator, "maintenance", "plan", "--node", "sim-a", "--window", wrong, code=2)
            assert "--window" in told, told
        now = json.loads(lab.tranche(lab.operator, "maintenance", "plan", "--node", "sim-a", "--window", "now/1h",
                                     "--name", "new fans", "-o", "json"))
        lab.until(lambda: lab.state(job) == "pending")
        # In words of its own: why, until when, and that nobody's window of its own has ended.
        ends = now["windows"][0]["to"]
        hit = lab.job(job)["interruptions"][0]
        assert hit["message"] == f"its node is kept free until {ends}: new fans", hit
        assert hit["whose"] == "what is planned for its place", hit
        lab.until(lambda: lab.ana.get("/v1/devices").json["items"][0]["state"] == "maintenance")  # Wiped before.
        health = lab.ana.get("/v1/devices").json["items"][0]["health"]
        assert health == f"planned maintenance, ends {ends[:19]}Z: new fans", health  # To the second: people read it.
        lab.tranche(lab.operator, "maintenance", "cancel", now["id"], "--yes")
        lab.until_state(job, "running")


def what_is_bought_is_used_at_once():
    """The market sells only what the calendar has free; what was bought opens for the buyer's waiting job and nobody else's."""
    with Lab() as lab:
        device = lab.operator.get("/v1/devices").json["items"][0]["id"]
        for tenant in ("acme", "globex"):
            paid = lab.operator.post(f"/v1/accounts/{tenant}/top-up", {"amount": "1000", "reference": f"bank {tenant}"})
            assert paid.status == 200, paid
        _, token = make_user(lab.operator, "acme", "seller", ["tenant_admin"])
        seller = Client(lab.platform.port, token)
        certified = lab.operator.put("/v1/market/devices", {"device": device, "owner": "acme", "model": "H100", "accepted": True})
        assert certified.status == 200, certified
        booked = lab.book(lab.bo, "H100:8", "1h", **{"from": "in 4h"})
        assert booked.status == 201, booked
        refused = seller.post("/v1/market/listings", {"device": device, "length": "6h", "hourly": "2.00"})
        assert refused.status == 409 and rule(refused) == "calendar", refused
        listed = seller.post("/v1/market/listings", {"device": device, "length": "2h", "hourly": "2.00"})
        assert listed.status == 201, listed
        others = lab.book(lab.ana, "H100:8", "1h", **{"from": "now"})
        assert others.status == 409, others
        assert lab.operator.post("/v1/tenants", {"name": "initech"}).status == 201  # The seller's own jobs may use it.
        _, token = make_user(lab.operator, "initech", "cy", ["member"])
        cy = Client(lab.platform.port, token)
        filler = cy.post("/v1/jobs", simulated("H100:7", limits={"time": "1h"})).json["id"]
        lab.until(lambda: cy.get(f"/v1/jobs/{filler}").json["job"]["state"] == "running")
        stranger = cy.post("/v1/jobs", simulated("H100", limits={"time": "1h"})).json["id"]
        one = lab.bo.post("/v1/jobs", simulated("H100")).json["id"]
        assert lab.bo.get(f"/v1/jobs/{one}").json["job"]["state"] == "pending"
        bought = lab.bo.post("/v1/market/orders", {"instrument": {"model": "H100"}, "milli": 1000, "length": "1h",
                                                   "hourly": "2.00", "life": "ioc"})
        assert bought.status == 201 and len(bought.json["contracts"]) == 1, bought
        lab.until(lambda: lab.bo.get(f"/v1/jobs/{one}").json["job"]["state"] == "running")
        claims = lab.bo.get("/v1/bookings?kind=contract").json["items"]
        assert [claim["contract"] for claim in claims] == bought.json["contracts"], claims
        assert claims[0]["windows"][0]["devices"][0]["device"] == device, claims
        assert cy.get(f"/v1/jobs/{stranger}").json["job"]["state"] == "pending"
        assert "contract" in lab.tranche(lab.bo, "book", "show", claims[0]["id"])


if __name__ == "__main__":
    main([what_is_booked_is_refused_to_others, recurring_windows_keep_their_local_time, what_makes_no_sense_is_refused_by_name,
          a_job_starts_in_its_own_window, the_command_books, maintenance_keeps_a_node_free,
          what_is_bought_is_used_at_once])
