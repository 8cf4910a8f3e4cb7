# SPDX-License-Identifier: Apache-2.0
"""`tranche why` with a start time and ways to start sooner, and `tranche sbatch`, against a real server and simulated nodes."""
import datetime
import json

from bookings_test import Lab, simulated
from tranche_platform import Client, main


def at(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def submit(who, body):
    answer = who.post("/v1/jobs", body)
    assert answer.status == 201, answer
    return answer.json["id"]


def a_waiting_job_is_told_when_it_starts():
    """The time limit of what runs bounds the P50; half the shape would start now; the answer's error is kept."""
    with Lab() as lab:
        first = submit(lab.ana, simulated("H100:6", "2h", limits={"time": "1h"}))
        lab.until_state(first, "running")
        started = at(lab.job(first)["job"]["started"])
        second = submit(lab.ana, simulated("H100:4", "2h", limits={"time": "1h"}))
        why = lab.ana.get(f"/v1/jobs/{second}/why").json
        assert why["reason"] == "capacity", why
        latest = started + datetime.timedelta(hours=1, minutes=2)
        assert started < at(why["starts"]["p50"]) <= latest, why
        assert at(why["starts"]["p50"]) <= at(why["starts"]["p90"]), why
        ways = {way["change"]: way["starts_in"] for way in why["sooner"]}
        assert ways.get("--gpus H100:2 instead of H100:4", "") in ("0s", "0", "1s", "2s"), ways
        quick = lab.ana.get(f"/v1/jobs/{second}/why?forecast=false").json
        assert "starts" not in quick or quick["starts"] is None, quick
        text = lab.tranche(lab.ana, "why", second)
        assert "9 of 10 times before" in text and "sooner" in text and "--gpus H100:2 instead of H100:4: now" in text, text
        assert lab.bo.get(f"/v1/jobs/{second}/why").status == 404
        lab.ana.post(f"/v1/jobs/{first}/stop", {})
        lab.until_state(second, "running")
        third = submit(lab.ana, simulated("H100:8", "1h"))
        told = lab.ana.get(f"/v1/jobs/{third}/why").json
        assert told["starts"]["predictions"] == 1, told
        how_it_came(lab, second, started)


def how_it_came(lab, job, started):
    """Told an hour, it came at once: the error is known to all, after a restart too, and whose job it was to its owner."""
    lab.platform.kill()
    lab.restart()
    lab.bo = Client(lab.platform.port, lab.bo.token)
    found = lab.ana.get("/v1/forecast/accuracy").json
    assert found["predictions"] == 1 and found["open"] == 1 and found["started_by_p90_permille"] == 1000, found
    assert [one["job"] for one in found["recent"]] == [job] and at(found["recent"][0]["started"]) > started, found
    assert found["error_median"] not in ("0s", None), found
    others = lab.bo.get("/v1/forecast/accuracy").json
    assert others["error_median"] == found["error_median"] and others["recent"][0]["job"] != job, others
    assert job in lab.tranche(lab.ana, "forecast", "accuracy")
    assert job not in lab.tranche(lab.bo, "forecast", "accuracy")


def a_window_ahead_is_foreseen():
    """A job that names a booking is told that it starts when the window opens."""
    with Lab() as lab:
        booked = lab.book(lab.ana, "H100", "1h", **{"from": "in 3h"}).json
        job = submit(lab.ana, simulated("H100", labels={"booking": booked["id"]}))
        why = lab.ana.get(f"/v1/jobs/{job}/why").json
        assert why["reason"] == "window", why
        opens = at(booked["windows"][0]["from"])
        assert abs(at(why["starts"]["p50"]) - opens) < datetime.timedelta(minutes=2), why
        assert any("outside its windows" in way["change"] for way in why["sooner"]), why


def a_slurm_script_is_submitted():
    """Options become a job, notes say what is different, and what cannot be honoured is refused by name and line."""
    with Lab() as lab:
        script = lab.platform.folder / "train.sh"
        script.write_text("#!/bin/bash\n#SBATCH --job-name=train\n#SBATCH --gres=gpu:h100:2\n#SBATCH -t 90 -c 2 --mem=8G\n"
                          "#SBATCH --output=out.txt\necho $1\n")
        label = ["--label", "sim.duration=1h", "--infra", "simulated"]
        refused = lab.tranche(lab.ana, "sbatch", str(script), code=2)  # There are simulated devices alone.
        assert "no node connected has a device" in refused and "infra: simulated" in refused, refused
        plan = json.loads(lab.tranche(lab.ana, "sbatch", "--dry-run", "--infra", "simulated", "-o", "json", str(script)))
        assert plan["admitted"] and plan["ask"]["instances"] == 2 and plan["ask"]["model"].startswith("H100"), plan
        assert plan["ask"]["time"] in ("90m", "1h30m"), plan
        for words in (["sbatch", *label, str(script), "--", "one"], ["run", *label, str(script), "one"]):
            job = json.loads(lab.tranche(lab.ana, "-o", "json", *words))
            assert job["name"] == "train", job
            spec = lab.job(job["id"])["spec"]
            assert "exec /bin/bash" in json.dumps(spec) and "'one'" in json.dumps(spec), spec
        script.write_text("#!/bin/bash\n#SBATCH --array=1-10:2\necho\n")
        refused = lab.tranche(lab.ana, "sbatch", str(script), code=2)
        assert "line 2" in refused and "--array" in refused, refused


def the_demand_to_come_is_shown_and_prepared_for():
    """What ran for a while at an hour is expected at that hour of other days, by whom one may see; --prepare is a setting."""
    with Lab() as lab:
        job = submit(lab.ana, simulated("H100:8", "3s"))
        lab.until_state(job, "succeeded")
        view = lab.operator.get("/v1/forecast/demand?hours=168").json
        assert len(view["hours"]) == 168 and view["simulated_gpu_milli"] == 8000 and view["capacity_gpu_milli"] == 0 and view["prepare_percent"] == 0, view
        expected = [hour for hour in view["hours"] if hour["gpu_milli"] > 0]
        assert expected and expected[0]["classes"][0]["party"] == "acme", view
        assert all(hour["gpu_milli"] == 0 for hour in lab.bo.get("/v1/forecast/demand?hours=168").json["hours"])
        assert lab.operator.get("/v1/forecast/demand?hours=none").status == 400
        assert "DEVICES EXPECTED" in lab.tranche(lab.operator, "forecast", "demand", "--hours", "2")
        lab.tranche(lab.operator, "settings", "set", "--prepare", "100")
        assert json.loads(lab.tranche(lab.operator, "-o", "json", "forecast", "demand"))["prepare_percent"] == 100


if __name__ == "__main__":
    main([a_waiting_job_is_told_when_it_starts, a_window_ahead_is_foreseen, a_slurm_script_is_submitted,
          the_demand_to_come_is_shown_and_prepared_for])
