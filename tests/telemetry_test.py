# SPDX-License-Identifier: Apache-2.0
"""What is measured, and who sees it: metrics that Prometheus takes, the last hours, `top`, behaviour, log search."""
import json
import os
import pathlib
import re
import shutil
import subprocess

from node_test import shared_site
from storage_test import cli
from tranche_platform import Client, main, make_user

BOARDS = pathlib.Path(__file__).resolve().parent.parent / "share" / "grafana"


def promtool():
    return os.environ.get("PROMTOOL") or shutil.which("promtool")


def with_fleet(site, count=2):
    if any(agent.name == "sim-a" for agent in site.agents):
        return
    script = site.platform.folder / "fleet.yaml"
    script.write_text(f"devices:\n  - model: H100-SXM5-80GB\n    count: {count}\n")
    site.agent("sim-a", "--simulated", script)
    site.until(lambda: "sim_DCGM_FI_DEV_GPU_UTIL{" in site.operator.get("/metrics/sim").body)


def complaints_of(tool, text):
    done = subprocess.run([tool, "check", "metrics"], input=text.encode(), capture_output=True, timeout=60, check=False)
    # What is wrong ends with 1; 3 is a matter of taste, and names that dcgm-exporter gave are not ours to choose.
    complaints = [line for line in done.stderr.decode().splitlines() if not re.match("(sim_)?DCGM_", line)]
    return complaints if done.returncode in (0, 3) else [f"status {done.returncode}", *complaints]


def prometheus_takes_every_line():
    """promtool finds nothing wrong, devices have the names that boards know, and labels are escaped."""
    with shared_site(devices=False) as site:
        with_fleet(site)
        site.operator.post("/v1/tenants", {"name": "blue"})
        job = site.submit("true", resources={"gpus": "H100"}, infra="simulated", labels={"sim.duration": "10m"})
        site.until_state(job, "running")
        real = site.operator.get("/metrics").body
        text = site.operator.get("/metrics/sim").body
        for name in ("GPU_UTIL", "FB_USED", "FB_FREE", "POWER_USAGE", "GPU_TEMP", "SM_CLOCK", "ECC_SBE_VOL_TOTAL",
                     "ECC_DBE_VOL_TOTAL", "MEM_COPY_UTIL"):
            assert text.count(f"\nsim_DCGM_FI_DEV_{name}{{") == 2, (name, text)
        for name in ("SM_ACTIVE", "PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE"):
            assert text.count(f"\nsim_DCGM_FI_PROF_{name}{{") == 2, (name, text)
        line = next(line for line in text.splitlines() if line.startswith("sim_DCGM_FI_DEV_FB_TOTAL{"))
        assert 'hostname="sim-a"' in line and 'simulated="true"' in line and 'gpu="0"' in line, line
        # A board that knows the exporter's names never takes what is simulated for real.
        assert "sim-a" not in real and 'simulated="true"' not in real, real
        assert all(line.startswith(("sim_", "# HELP sim_", "# TYPE sim_")) for line in text.splitlines()), text
        # Never summed: what the tenant does on simulated devices is none of what it does on real ones.
        assert 'sim_tranche_tenant_running_jobs{tenant="acme",simulated="true"} 1' in text, text
        assert 'sim_tranche_tenant_gpus{tenant="acme",simulated="true"} 1.000' in text, text
        assert 'tranche_tenant_gpus{tenant="acme",simulated="false"} 0.000' in real, real
        assert 'tranche_queue_jobs{tenant="blue",simulated="false"} 0' in real, real
        for path in ("/metrics", "/metrics/sim"):
            assert 'Hostname="sim-a"' not in site.operator.get(path).body
            assert site.ana.get(path).status == 403
        assert 'Hostname="sim-a"' in site.operator.get("/metrics/sim?hostname_label=Hostname").body
        tool = promtool()
        if not tool:
            return "[skipped] promtool is not installed (Debian package prometheus)"
        assert not complaints_of(tool, real), complaints_of(tool, real)
        assert not complaints_of(tool, text), complaints_of(tool, text)
        assert complaints_of(tool, "a{ 1\n")  # It can say no.
    return None


def what_a_device_does_not_tell_is_absent():
    """A CPU that computes by OpenCL gives no watts, degrees, clocks or errors: no line says zero of them."""
    with shared_site() as site:
        site.until(lambda: "\nDCGM_FI_DEV_GPU_UTIL{" in site.operator.get("/metrics").body)
        said = {line.split("{")[0] for line in site.operator.get("/metrics").body.splitlines() if line.startswith("DCGM_")}
        assert said == {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_TOTAL"}, said


def boards_ask_only_for_what_there_is():
    """Every metric that the bundled Grafana board names is one that the server gives, of real or simulated capacity."""
    boards = list(BOARDS.glob("*.json"))
    assert boards
    with shared_site(devices=False) as site:
        with_fleet(site)
        text = site.operator.get("/metrics").body + site.operator.get("/metrics/sim").body
        # Families of slices appear only while the guard counts one.
        source = (pathlib.Path(__file__).resolve().parent.parent / "src/api/metrics.cpp").read_text()
        for board in boards:
            panels = json.loads(board.read_text())["panels"]
            queries = [target["expr"] for panel in panels for target in panel.get("targets", [])]
            assert len(queries) >= 8, queries
            for name in {name for query in queries for name in re.findall(r"(?:DCGM_FI|tranche)_\w+", query)}:
                assert re.search(rf"# TYPE (sim_)?{name} ", text) or (name.startswith("tranche_slice_") and f'"{name}"' in source), name


def the_last_hours_are_kept_without_anything_else():
    """The server itself remembers what devices measured, and shows it to those who see the devices."""
    with shared_site(devices=False) as site:
        with_fleet(site)
        site.until(lambda: site.operator.get("/v1/telemetry").json["items"][0]["points"])
        answer = site.operator.get("/v1/telemetry?since=1h").json
        assert len(answer["items"]) == 2 and answer["kept"] == "4h", answer
        point = answer["items"][0]["points"][-1]
        assert point["at"].endswith("Z") and 0 <= point["busy_milli"] <= 1000, point
        device = answer["items"][1]["device"]
        assert [one["device"] for one in site.ana.get(f"/v1/telemetry?device={device}").json["items"]] == [device]
        assert site.ana.get("/v1/telemetry?device=gpu_00ZZZZ").status == 404
        assert site.ana.get("/v1/telemetry?since=soon").status == 400


def top_shows_ones_own_and_hides_the_others():
    """One's own slices by name, others' only as taken; simulated capacity is never summed with real."""
    with shared_site(devices=False) as site:
        with_fleet(site)
        site.operator.post("/v1/tenants", {"name": "blue"})
        _, token = make_user(site.operator, "blue", "bob", ["member"])
        job = site.submit("true", name="canary-of-acme", resources={"gpus": "H100"}, infra="simulated",
                          labels={"sim.duration": "10m"})
        site.until_state(job, "running")
        mine = json.loads(cli(site, "top", "--once", "-o", "json")[1])
        slices = [one for device in mine["devices"] for one in device["slices"]]
        assert slices[0]["job"] == job and slices[0]["owner"] == "acme/ana", slices
        real = site.submit("sleep 600")
        site.until_state(real, "running")
        mine = json.loads(cli(site, "top", "--once", "-o", "json")[1])
        assert [(one["tenant"], one["simulated"], one["running"], one["pending"]) for one in mine["queues"]] == [
            ("acme", False, 1, 0), ("acme", True, 1, 0)], mine
        theirs = cli(site, "top", "--once", "-o", "json", token=token)[1].decode()
        assert "canary" not in theirs and job not in theirs and "acme" not in theirs, theirs
        assert [one["milli"] for device in json.loads(theirs)["devices"] for one in device["slices"]] == [1000]
        _, out, _ = cli(site, "top")  # No terminal: once, as text.
        assert "SIM 2 gpu" in out.decode() and "REAL" not in out.decode(), out


def a_job_leaves_a_record_of_how_it_behaved():
    """Processes, memory, limits hit: what the node counted is there after the end, for those who see the job."""
    with shared_site(devices=False) as site:
        job = site.submit("for i in 1 2 3 4 5; do sleep 1000 & done; printf up; wait", name="busy")
        site.until(lambda: site.logs(job) == "up", lambda: json.dumps(site.job(job)))
        assert site.ana.post(f"/v1/jobs/{job}/stop").status == 200
        site.until_state(job, "stopped")
        site.until(lambda: site.ana.get(f"/v1/jobs/{job}/behaviour").json["items"])
        record = site.ana.get(f"/v1/jobs/{job}/behaviour").json["items"][0]["record"]
        assert record["processes_started"] >= 6 and record["processes_most"] >= 6, record
        assert record["output"] == 2 and record["network"] is False and record["limits_hit"] == [], record
        shown = cli(site, "behaviour", job)[1].decode().splitlines()
        assert shown[0].startswith("NODE") and shown[1].startswith("n1 "), shown
        if record["files_watched"]:  # Where the kernel tells.
            assert "/usr/bin/sleep" in record["files"], record
        assert record["cpu_used"] != "0s", record
        limited = site.submit("tail -c 400000000 /dev/zero > /dev/null", resources={"memory": "64MB..64MB"})
        site.until_state(limited, "succeeded", "failed")
        if site.job(limited)["end_reason"] == "memory_limit":  # Where the node may hold memory limits.
            record = site.ana.get(f"/v1/jobs/{limited}/behaviour").json["items"][0]["record"]
            assert "memory" in record["limits_hit"], record


def logs_are_searched_within_ones_own():
    """A text is found in one's own jobs, and in nobody else's."""
    with shared_site(devices=False) as site:
        site.operator.post("/v1/tenants", {"name": "green"})
        _, token = make_user(site.operator, "green", "bob", ["member"])
        job = site.submit("echo before; echo a needle in acme; echo after; echo needle two >&2")
        site.until_state(job, "succeeded")
        site.until(lambda: len(site.ana.get("/v1/logs?text=needle").json["items"]) == 2)
        found = site.ana.get("/v1/logs?text=needle").json["items"]
        lines = {(one["stream"], one["line"]) for one in found}
        assert lines == {("stdout", "a needle in acme"), ("stderr", "needle two")}, found
        assert all(one["job"] == job for one in found)
        assert site.ana.get("/v1/logs?text=needle&limit=1").json["more"] is True
        assert Client(site.platform.port, token).get("/v1/logs?text=needle").json["items"] == []
        assert site.ana.get("/v1/logs").status == 400
        assert b"needle two" in cli(site, "logs", "--search", "needle")[1]


if __name__ == "__main__":
    main([prometheus_takes_every_line, what_a_device_does_not_tell_is_absent, boards_ask_only_for_what_there_is,
          the_last_hours_are_kept_without_anything_else,
          top_shows_ones_own_and_hides_the_others, a_job_leaves_a_record_of_how_it_behaved,
          logs_are_searched_within_ones_own])
