# SPDX-License-Identifier: Apache-2.0
"""Devices through their life, from outside: tested before use, taken out, mended, and every second accounted for."""
import json
import subprocess

from node_test import Site
from tranche_platform import TRANCHE, main

FLEET = "devices:\n  - model: H100-SXM5-80GB\n    count: 2\nevents:\n  - {at: 1s, device: 0, source: xid, code: %d, text: planted}\n"


def tranche(site, token, *words, status=0):
    done = subprocess.run([TRANCHE, *words], text=True, capture_output=True, check=False,
                          env={"HOME": str(site.platform.folder), "PATH": "/usr/bin:/bin", "TRANCHE_TOKEN": token,
                               "TRANCHE_URL": f"http://127.0.0.1:{site.platform.port}"})
    assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def devices(site):
    return {device["device"]: device for device in site.operator.get("/v1/health").json["items"]}


def fleet(site, code):
    script = site.platform.folder / "fleet.yaml"
    script.write_text(FLEET % code)
    site.agent("sim-a", "--simulated", script)


def a_real_device_is_tested_before_its_first_job():
    """The device of this machine is wiped and tested when it is found; the proofs behind a job are in the journal."""
    with Site() as site:
        agent = site.agent()
        if not devices(site):
            return "[skipped] no device was found on this machine"
        job = site.submit("true", resources={"gpus": "1GB"})  # Waits until the device is fit.
        site.until(lambda: all(device["state"] == "healthy" for device in devices(site).values()), agent.log_text)
        board = devices(site)
        test = next(iter(board.values()))["last_test"]
        assert test["level"] == "quick" and test["verdict"] in ("pass", "info", "warning"), test
        assert any(row["name"].startswith("memory") for row in test["tests"]), test
        site.until_state(job, "succeeded", "failed")
        assert site.state(job) == "succeeded", site.job(job)
        # The job is over before what it left is wiped.
        site.until(lambda: site.ana.get(f"/v1/jobs/{job}/receipts").json["verified"], agent.log_text)
        book = site.ana.get(f"/v1/jobs/{job}/receipts").json
        lease = book["leases"][0]
        assert lease["acceptances"][0]["proof"]["found"], book
        # What it got was wiped before it came, and what it left was wiped after it.
        assert {scrub["receipt"]["lease"] for scrub in lease["scrubs"]} == {"", lease["lease"]}, book
        assert all(scrub["clean"] and scrub["proof"]["found"] for scrub in lease["scrubs"]), book
        assert "read back from the journal" in tranche(site, site.token, "receipts", job)
        assert lease["scrubs"][0]["proof"]["record_hash"] in tranche(site, site.token, "receipts", job, "-o", "wide")
        assert site.operator.get("/v1/audit/verify").json["intact"]
        shown = tranche(site, site.operator.token, "health", "board")
        assert "healthy" in shown, shown
        device = next(iter(board))
        ordered = json.loads(tranche(site, site.operator.token, "-o", "json", "node", "test", "here", "--level", "quick"))
        assert ordered["ordered"] == [device], ordered
        site.until(lambda: devices(site)[device]["state"] == "healthy" and
                   devices(site)[device]["last_test"]["at"] > test["at"], agent.log_text)
        days = site.operator.get("/v1/reconciliation").json
        assert days["items"] and days["inexact"] == 0, days
        for day in days["items"]:
            assert sum(one["compute_milli_microseconds"] for one in day["classes"]) == day["compute_milli_microseconds"]
            assert sum(int(one["vram_byte_microseconds"]) for one in day["classes"]) == int(day["vram_byte_microseconds"])
        assert "had (exact)" in tranche(site, site.operator.token, "cost", "reconcile")
    return None


def a_fault_is_seen_acted_on_and_told():
    """A planted Xid 48 takes its device out, through a reset and tests, back on probation; the other is not touched."""
    with Site() as site:
        fleet(site, 48)
        site.until(lambda: any(device["state"] == "probation" for device in devices(site).values()),
                   lambda: json.dumps(devices(site)))
        hit = next(device for device in devices(site).values() if device["state"] == "probation")
        other = next(device for device in devices(site).values() if device["device"] != hit["device"])
        assert other["state"] == "healthy" and not other["signals"], other
        seen = hit["signals"][0]
        assert seen["code"] == 48 and seen["action"] == "drain_and_reset" and seen["table_version"], hit
        gpus = {device["id"]: device for device in site.ana.get("/v1/devices").json["items"]}
        assert "probation" in gpus[hit["device"]]["health"], gpus
        # Work that may not be stopped goes to the healthy one.
        job = site.submit("true", resources={"gpus": "H100"}, infra="simulated", labels={"sim.duration": "1s"})
        site.until_state(job, "succeeded", "failed")
        assert site.job(job)["leases"][0]["slices"][0]["device"] == other["device"], site.job(job)


def a_repair_is_a_case_with_an_end():
    """Xid 54 sends a device to repair; somebody takes it on, and it comes back through its tests."""
    with Site() as site:
        fleet(site, 54)
        operator = site.operator.token
        site.until(lambda: site.operator.get("/v1/repairs").json["items"])
        case = site.operator.get("/v1/repairs").json["items"][0]
        assert case["device_state"] == "in_repair" and case["evidence"][0]["code"] == 54, case
        assert case["id"] in tranche(site, operator, "repair", "list")
        board = tranche(site, operator, "health", "board", "-o", "wide")
        assert "TESTED" in board and "planted" in board, board
        assert board.index("in_repair") < board.index("healthy"), board
        tranche(site, operator, "repair", "accept", case["id"], "--ticket", "RMA-1", "--expected", "2030-01-02T12:00:00Z")
        shown = tranche(site, operator, "repair", "show", case["id"])
        assert "RMA-1" in shown and "2030-01-02" in shown, shown
        gpus = {device["id"]: device for device in site.ana.get("/v1/devices").json["items"]}
        assert "ticket RMA-1" in gpus[case["device"]]["health"], gpus
        assert site.ana.get("/v1/repairs").json["items"] == []
        tranche(site, operator, "repair", "return", case["id"])
        site.until(lambda: devices(site)[case["device"]]["state"] == "healthy", lambda: json.dumps(devices(site)))
        assert site.operator.get("/v1/repairs").json["items"] == []
        assert site.operator.get("/v1/repairs?all=true").json["items"][0]["state"] == "returned"


def a_policy_of_ones_own_decides():
    """The operator's table replaces the built-in one without a release; an unknown code may not be ignored."""
    with Site() as site:
        policy = site.platform.folder / "health.yaml"
        policy.write_text("acceptance: quick\ntables:\n  - version: ours-1\n    family: nvidia\n    rows:\n"
                          "      - {source: xid, codes: [48], action: note, jobs: kept, bill: charged, means: ours}\n"
                          "    unknown: {action: suspect, jobs: kept, bill: charged}\n")
        # What is in force can be read, changed and given back; a table for nobody's devices is refused.
        built_in = json.loads(tranche(site, site.operator.token, "health", "policy"))
        assert {table["family"] for table in built_in["tables"]} == {"nvidia", "any"}, built_in
        assert any(79 in row["codes"] for row in built_in["tables"][0]["rows"]), built_in
        again = site.platform.folder / "again.yaml"
        again.write_text(tranche(site, site.operator.token, "health", "policy", "-o", "yaml"))
        tranche(site, site.operator.token, "health", "policy", "--file", str(again))
        again.write_text(policy.read_text().replace("family: nvidia", "family: martian"))
        tranche(site, site.operator.token, "health", "policy", "--file", str(again), status=2)
        tranche(site, site.operator.token, "health", "policy", "--file", str(policy))
        fleet(site, 48)
        site.until(lambda: any(device["signals"] for device in devices(site).values()))
        hit = next(device for device in devices(site).values() if device["signals"])
        assert hit["state"] == "healthy" and hit["signals"][0]["table_version"] == "ours-1", hit
        policy.write_text(policy.read_text().replace("action: suspect", "action: ignore"))
        tranche(site, site.operator.token, "health", "policy", "--file", str(policy), status=2)


if __name__ == "__main__":
    main([a_real_device_is_tested_before_its_first_job, a_fault_is_seen_acted_on_and_told, a_repair_is_a_case_with_an_end,
          a_policy_of_ones_own_decides])
