# SPDX-License-Identifier: Apache-2.0
"""Devices through their life, from outside: tested before use, taken out, mended, and every second accounted for."""
import json
import os
import pathlib
import signal
import subprocess

from node_test import Site
from tranche_platform import TRANCHE, main

LAYER = pathlib.Path(TRANCHE).parent / "opencl" / "libfaulty-opencl.so"  # Plants faults: tests/opencl/faulty_layer.c.

FLEET = "devices:\n  - model: H100-SXM5-80GB\n    count: 2\nevents:\n  - {at: 1s, device: 0, source: xid, code: %d, text: planted}\n"


def told(site, token, *words, status=0):
    """What a command printed, and what it said beside that."""
    done = subprocess.run([TRANCHE, *words], text=True, capture_output=True, check=False,
                          env={"HOME": str(site.platform.folder), "PATH": "/usr/bin:/bin", "TRANCHE_TOKEN": token,
                               "TRANCHE_URL": f"http://127.0.0.1:{site.platform.port}"})
    assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


def tranche(site, token, *words, status=0):
    return told(site, token, *words, status=status)[0]


def running_test(agent):
    """The process that tests a device for this agent, and the file in which it says how far it is; None: there is none."""
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_text().split("\0")
            parent = int((place / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if parent == agent.process.pid and words[1:3] == ["device", "test"]:
            file = pathlib.Path(words[words.index("--progress") + 1])
            return (int(place.name), file) if file.exists() else None
    return None


def progress_is_seen(site, agent):
    """The test is held where it is, so that everybody must read the same as stands in its file."""
    found = []
    site.until(lambda: found.append(running_test(agent)) or found[-1], agent.log_text)
    process, file = found[-1]
    os.kill(process, signal.SIGSTOP)
    try:
        now = json.loads(file.read_text())
        words = f"(full, {now['percent']} %: {now['part']}, since "
        site.until(lambda: all(words in device["health"] for device in devices(site).values()),
                   lambda: json.dumps(devices(site)) + words)
        assert words in site.ana.get("/v1/devices").json["items"][0]["health"]
        view = site.operator.get("/v1/nodes/here/test").json
        assert view["connected"] and view["node"] == "here", view
        one = view["items"][0]
        assert one["testing"] and one["level"] == "full" and one["percent"] == now["percent"] and one["part"] == now["part"], one
        assert site.ana.get("/v1/nodes/here/test").status == 403
    finally:
        os.kill(process, signal.SIGCONT)


def devices(site):
    return {device["device"]: device for device in site.operator.get("/v1/health").json["items"]}


def fleet(site, code):
    script = site.platform.folder / "fleet.yaml"
    script.write_text(FLEET % code)
    site.agent("sim-a", "--simulated", script)


def a_real_device_is_tested_before_its_first_job():
    """The device of this machine is wiped and tested in full when it is found; the proofs behind a job are in the journal."""
    with Site(acceptance=None) as site:
        assert "new devices are tested at level full" in site.platform.log_text(), site.platform.log_text()
        agent = site.agent()
        if not devices(site):
            return "[skipped] no device was found on this machine"
        testing = next(iter(devices(site).values()))
        if testing["state"] == "accepting":  # It takes seconds, and people see what they wait for.
            assert testing["health"].startswith("being tested before use (full, since "), testing
            assert site.node("here")["state"] == "testing", site.node("here")
        progress_is_seen(site, agent)
        job = site.submit("true", resources={"gpus": "1GB"})  # Waits until the device is fit.
        site.until(lambda: all(device["state"] == "healthy" for device in devices(site).values()), agent.log_text)
        board = devices(site)
        test = next(iter(board.values()))["last_test"]
        assert test["level"] == "full" and test["verdict"] in ("pass", "info"), test
        tested = next(row["measured"] for row in test["tests"] if row["name"] == "memory.address")
        assert 0 < tested <= 1024, test  # MiB: the rest of the machine's memory is left to the machine.
        assert site.node("here")["state"] == "ready" and site.node("here")["health"] == "1 healthy", site.node("here")
        assert any(row["name"].startswith("memory") for row in test["tests"]), test
        site.until_state(job, "succeeded", "failed")
        assert site.state(job) == "succeeded", site.job(job)
        # It is over before its slice is wiped, and proven only after that.
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
        assert "healthy" in shown and "new devices are tested at level full" in shown, shown
        device = next(iter(board))
        ordered = json.loads(tranche(site, site.operator.token, "-o", "json", "node", "test", "here", "--level", "quick"))
        assert ordered["ordered"] == [device], ordered
        site.until(lambda: devices(site)[device]["state"] == "healthy" and
                   devices(site)[device]["last_test"]["at"] > test["at"], agent.log_text)
        found, words = told(site, site.operator.token, "node", "test", "here", "--level", "quick", "--wait")
        assert "memory.random" in found and "pass" in found and device in found, found
        assert words, "nothing was said while it ran"
        assert devices(site)[device]["state"] == "healthy", devices(site)
        days = site.operator.get("/v1/reconciliation").json
        assert days["items"] and days["inexact"] == 0, days
        for day in days["items"]:
            assert sum(one["compute_milli_microseconds"] for one in day["classes"]) == day["compute_milli_microseconds"]
            assert sum(int(one["vram_byte_microseconds"]) for one in day["classes"]) == int(day["vram_byte_microseconds"])
        assert "had (exact)" in tranche(site, site.operator.token, "cost", "reconcile")
    return None


def a_test_that_is_waited_for_ends_with_its_verdict():
    """A device that computes wrongly is never given to anybody; a test that is waited for says so, and so does one in repair."""
    with Site() as site:
        site.agent_environment = {"OPENCL_LAYERS": str(LAYER), "TRANCHE_FAULT": "wrong"}
        agent = site.agent()
        if not devices(site):
            return "[skipped] no device was found on this machine"
        operator = site.operator.token
        site.until(lambda: all(device["state"] == "in_repair" for device in devices(site).values()), agent.log_text)
        case = site.operator.get("/v1/repairs").json["items"][0]
        assert "compute.burn" in case["reason"], case
        before = devices(site)[case["device"]]["last_test"]["at"]
        # The layer spoils every third launch, and a quick test launches too few to be sure of one.
        thorough = ("node", "test", "here", "--level", "standard", "--wait")
        found, _ = told(site, operator, *thorough, status=1)
        assert "compute.burn" in found and "critical" in found and "in_repair" in found, found
        assert devices(site)[case["device"]]["last_test"]["at"] > before
        view = json.loads(tranche(site, operator, "-o", "json", *thorough, status=1))
        assert view["items"][0]["last_test"]["verdict"] == "critical", view
        tranche(site, operator, "node", "test", "nowhere", "--wait", status=3)
        tranche(site, operator, "node", "test", "here", "--level", "thorough", "--wait", status=2)
        tranche(site, site.token, "node", "test", "here", "--wait", status=4)
        # Whoever says that nothing is wrong with it is told otherwise by the same test.
        tranche(site, operator, "repair", "dismiss", case["id"])
        site.until(lambda: [one for one in site.operator.get("/v1/repairs").json["items"] if one["id"] != case["id"]], agent.log_text)
        assert devices(site)[case["device"]]["state"] == "in_repair", devices(site)
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
        built_in = json.loads(tranche(site, site.operator.token, "health", "policy", "-o", "json"))
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


def a_quicker_acceptance_is_a_wish_that_shows():
    """`--acceptance quick` is said at the start, kept in the journal, and stands on the board; a wrong level is refused."""
    with Site(devices=False) as site:
        assert "new devices are tested at level quick before their first use (--acceptance)" in site.platform.log_text()
        assert json.loads(tranche(site, site.operator.token, "health", "policy", "-o", "json"))["acceptance"] == "quick"
        assert "new devices are tested at level quick" in tranche(site, site.operator.token, "health", "board")
        told = [entry for entry in site.operator.get("/v1/audit").json["items"] if entry["action"] == "health.policy"]
        assert len(told) == 1, told
        site.platform.stop()
        site.platform.acceptance = []  # It is the platform's now, and not the command line's.
        site.restart()
        assert "tested at level quick before their first use; tranche health policy" in site.platform.log_text()
    wrong = subprocess.run([TRANCHE, "server", "--data", "/nonexistent/data", "--acceptance", "thorough"], check=False,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert wrong.returncode == 2 and "quick, standard, full" in wrong.stdout, wrong


def a_window_takes_devices_out_and_back():
    """Devices are in MAINTENANCE while a window is open, tenants read until when, and they come back through a test."""
    with Site(devices=False) as site:
        fleet(site, 13)
        operator = site.operator.token
        site.until(lambda: site.node("sim-a")["state"] == "ready", lambda: json.dumps(site.node("sim-a")))
        made = json.loads(tranche(site, operator, "-o", "json", "maintenance", "plan", "--node", "sim-a", "--window", "now/1h",
                                  "--name", "new fans"))
        # The test of its devices has a time of its own, behind the work and before whatever is booked next.
        window = made["windows"][0]
        assert window["from_local"] < window["tests_local"] < window["to_local"], window
        assert "TESTS FROM" in tranche(site, operator, "book", "show", made["id"])
        site.until(lambda: site.node("sim-a")["state"] == "maintenance", lambda: json.dumps(devices(site)))
        assert {device["state"] for device in devices(site).values()} == {"maintenance"}, devices(site)
        shown = site.ana.get("/v1/devices").json["items"][0]["health"]
        assert shown.startswith("planned maintenance, ends ") and shown.endswith(": new fans"), shown
        assert "maintenance" in tranche(site, operator, "node", "list")
        job = site.submit("true", resources={"gpus": "H100"}, infra="simulated", labels={"sim.duration": "1s"})
        tranche(site, operator, "maintenance", "cancel", made["id"], "--yes")
        site.until(lambda: site.node("sim-a")["state"] == "ready", lambda: json.dumps(devices(site)))
        assert all(device["last_test"]["level"] == "standard" for device in devices(site).values()), devices(site)
        site.until_state(job, "succeeded", "failed")


def a_device_is_taken_out_and_retired():
    """A device goes to repair by hand and is retired for a reason, for good; the node says what is left of it."""
    with Site(devices=False) as site:
        fleet(site, 13)
        operator = site.operator.token
        site.until(lambda: site.node("sim-a")["state"] == "ready", lambda: json.dumps(site.node("sim-a")))
        job = site.submit("true", resources={"gpus": "H100"}, infra="simulated", labels={"sim.duration": "600s"})
        site.until_state(job, "running")
        device = site.job(job)["leases"][0]["slices"][0]["device"]
        tranche(site, operator, "repair", "open", device, status=2)
        tranche(site, operator, "repair", "open", "sim-a", "--reason", "no such device", status=2)
        assert site.ana.post("/v1/repairs", {"device": device, "reason": "mine"}).status in (403, 404)
        assert site.operator.post("/v1/repairs", {"device": device}).status in (400, 422)
        made = json.loads(tranche(site, operator, "-o", "json", "repair", "open", device, "--reason", "the fan rattles"))
        assert made["device_state"] == "draining" and made["reason"] == "the fan rattles", made
        site.until(lambda: devices(site)[device]["state"] == "in_repair", lambda: json.dumps(devices(site)))
        site.until_state(job, "running")  # On the other one.
        hit = site.job(job)["interruptions"][0]
        assert hit["whose"] == "whoever looks after the machine" and "the fan rattles" in hit["message"], hit
        tranche(site, operator, "repair", "open", device, "--reason", "again", status=5)
        assert site.node("sim-a")["state"] == "degraded" and site.node("sim-a")["health"] == "1 healthy, 1 in_repair"
        tranche(site, operator, "repair", "retire", made["id"], "-y", status=2)
        assert site.ana.post(f"/v1/repairs/{made['id']}/retire", {"note": "mine"}).status in (403, 404)
        assert site.operator.post(f"/v1/repairs/{made['id']}/retire", {}).status in (400, 422)
        tranche(site, operator, "repair", "retire", made["id"], "--reason", "out of warranty", "-y")
        board = tranche(site, operator, "health", "board")
        assert "retired: out of warranty" in board and "retired 1" in board, board
        tranche(site, operator, "repair", "return", made["id"], status=5)
        site.agents[-1].stop()  # It is found again by its node, and stays what it is.
        site.agents[-1].start("--drain-on-exit", "--simulated", site.platform.folder / "fleet.yaml")
        site.until(lambda: site.node("sim-a")["connected"], site.agents[-1].log_text)
        assert devices(site)[device]["state"] == "retired", devices(site)
        steps = [entry for entry in site.operator.get("/v1/audit").json["items"] if entry["action"] == "repair.change"]
        assert steps and steps[0]["actor"], steps
        tranche(site, operator, "node", "test", "sim-a", status=2)  # There is nothing to test.


if __name__ == "__main__":
    main([a_real_device_is_tested_before_its_first_job, a_test_that_is_waited_for_ends_with_its_verdict, a_fault_is_seen_acted_on_and_told, a_repair_is_a_case_with_an_end,
          a_policy_of_ones_own_decides, a_quicker_acceptance_is_a_wish_that_shows, a_window_takes_devices_out_and_back,
          a_device_is_taken_out_and_retired])
