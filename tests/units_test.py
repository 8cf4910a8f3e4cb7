# SPDX-License-Identifier: Apache-2.0
"""Work that knows its units, on a real server and agent: progress, frames, results, jobs that wait for others."""
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import zoneinfo

from node_test import PATIENCE, Site, shared_site
from tranche_platform import TRANCHE, Client, main, make_user

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


def submit(site, **job):
    answer = site.ana.post("/v1/jobs", {"run": "true", **job})
    assert answer.status == 201, answer
    return answer.json["id"]


def show(site, job):
    answer = site.ana.get(f"/v1/jobs/{job}")
    assert answer.status == 200, answer
    return answer.json


def until(site, job, wanted):
    """The detail of the job once it is as wanted."""
    deadline = time.monotonic() + PATIENCE
    while True:
        detail = show(site, job)
        if wanted(detail):
            return detail
        assert time.monotonic() < deadline, detail
        time.sleep(0.05)


def over(detail):
    return detail["job"]["state"] in ("succeeded", "failed", "stopped")


def tranche(site, *words):
    environment = {**os.environ, "TRANCHE_URL": f"http://127.0.0.1:{site.platform.port}",
                   "TRANCHE_TOKEN": site.token}
    return subprocess.run([TRANCHE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=PATIENCE, env=environment)


def progress_of_steps():
    """One line of shell is progress, on stdout or in the file, and bad lines change nothing."""
    with shared_site() as site:
        job = submit(site, run='echo "tranche: step 1/x"; echo "tranche: step 120/1000 loss=0.41"; '
                               'echo "tranche: lap 7"; sleep 600')
        detail = until(site, job, lambda d: d.get("progress"))
        assert detail["progress"]["done"] == 120 and detail["progress"]["total"] == 1000, detail
        assert detail["progress"]["unit"] == "step" and detail["progress"]["metrics"] == "loss=0.41", detail
        assert detail["job"]["progress"].startswith("120/1000 steps"), detail
        assert "120/1000 steps" in tranche(site, "ps", "-o", "wide").stdout
        assert "loss=0.41" in tranche(site, "show", job).stdout
        site.ana.post(f"/v1/jobs/{job}/stop")
        written = submit(site, run='echo "tranche: token 55" >> "$TRANCHE_PROGRESS"')
        detail = until(site, written, over)
        assert detail["progress"]["done"] == 55, detail  # The last word counts, however short the job.


def frames_of_a_render():
    """Every frame runs once, in chunks that are ordinary jobs, and what they made comes back as files."""
    with shared_site() as site:
        asked = tranche(site, "run", "--kind", "render", "--frames", "1-12", "--chunk", "5", "--cpus", "1", "-o",
                        "name", "--", "sh", "-c", 'echo "picture {frame}" > "$TRANCHE_OUTPUT/f_{frame:04}.txt"')
        assert asked.returncode == 0, asked.stderr
        job = asked.stdout.strip()
        detail = until(site, job, over)
        assert detail["job"]["state"] == "succeeded", detail
        assert detail["progress"]["done"] == 12 and detail["progress"]["failed"] == 0, detail
        assert len(detail["chunks"]) == 3, detail
        with tempfile.TemporaryDirectory() as folder:
            fetched = tranche(site, "results", job, "-d", folder)
            assert fetched.returncode == 0, fetched.stderr
            found = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}
            assert found == {f"f_{n:04}.txt": f"picture {n}\n" for n in range(1, 13)}, sorted(found)


def frames_go_on_in_one_sandbox():
    """A chunk that runs gets more frames than it began with, and every frame is done once."""
    with shared_site() as site:
        job = submit(site, run='echo "$TRANCHE_LEASE" > "$TRANCHE_OUTPUT/{frame}"; sleep 0.25', kind="render",
                     units={"frames": "1..64"}, resources={"cpus": "1"})
        detail = until(site, job, over)
        assert detail["job"]["state"] == "succeeded" and detail["progress"]["done"] == 64, detail
        with tempfile.TemporaryDirectory() as folder:
            fetched = tranche(site, "results", job, "-d", folder)
            assert fetched.returncode == 0, fetched.stderr
            leases = {int(path.name): path.read_text() for path in pathlib.Path(folder).iterdir()}
        assert sorted(leases) == list(range(1, 65)), sorted(leases)
        most = max(list(leases.values()).count(lease) for lease in set(leases.values()))
        assert most > 4, leases  # The first chunks have a sixteenth each.


def frame_that_always_fails():
    """A frame that always fails ends in a state that names it, while all the others finish, and its words are found."""
    with shared_site() as site:
        job = submit(site, run='test {frame} -ne 3 || { echo no light >&2; exit 9; }', kind="render", units={"frames": "1..6"}, retry=1)
        detail = until(site, job, over)
        assert detail["job"]["state"] == "failed" and detail["end_reason"] == "units_failed", detail
        assert detail["message"] == "1 of 6 frames failed: frame 3 (exit 9, 2 tries)", detail
        assert detail["progress"]["done"] == 5 and detail["progress"]["failed"] == 1, detail
        failure = detail["progress"]["failures"][0]
        assert failure["given_up"], detail
        told = tranche(site, "logs", job)
        assert told.stdout == "" and f"tranche logs {failure['job']}" in told.stderr, told
        until(site, failure["job"], over)  # Its last words come with its end, a moment after the job's.
        told = tranche(site, "logs", failure["job"])
        assert told.stdout == "" and "--stream stderr" in told.stderr, told
        assert tranche(site, "logs", failure["job"], "--stream", "stderr").stdout.count("no light") == 1


def a_frame_that_hangs():
    """A frame that never ends is ended by the time limit and named, while the others finish and a neighbour runs on."""
    with shared_site() as site:
        neighbour = submit(site, run="sleep 600")
        job = submit(site, run='test {frame} -ne 2 || sleep 600', kind="render", units={"frames": "1..3"}, chunk=1, retry=0,
                     limits={"time": "3s"})
        detail = until(site, job, over)
        assert detail["job"]["state"] == "failed" and detail["end_reason"] == "units_failed", detail
        assert "frame 2" in detail["message"] and detail["progress"]["done"] == 2, detail
        assert show(site, neighbour)["job"]["state"] == "running"


def a_worker_lost_in_a_gang():
    """One member is killed: the others are ended with it, the job says how that one ended, and a neighbour runs on."""
    with shared_site() as site:
        neighbour = submit(site, run="sleep 600", resources={"cpus": "0.25+"})
        job = submit(site, run='[ $RANK = 1 ] || exec sleep 600; kill -9 $$', num_nodes=3, resources={"cpus": "0.25+"})
        detail = until(site, job, over)
        assert detail["job"]["state"] == "failed" and detail["end_reason"] == "exited", detail
        assert detail["exit_signal"] == 9 or detail["exit_code"] == 137, detail
        assert len(detail["leases"]) == 3 and {lease["state"] for lease in detail["leases"]} == {"ended"}, detail
        assert show(site, neighbour)["job"]["state"] == "running"


def frames_survive_a_killed_agent():
    """The agent is killed in the middle of a chunk and comes back: no frame is lost, and none counted twice."""
    with Site(devices=False) as site:
        agent = site.agent("n1")
        job = submit(site, run="sleep 0.2 # {frame}", units={"frames": "1..8"}, chunk=8)
        until(site, job, lambda d: d.get("progress") and d["progress"]["done"] >= 1)
        agent.kill()
        agent.start()
        detail = until(site, job, over)
        assert detail["job"]["state"] == "succeeded" and detail["progress"]["done"] == 8, detail


def the_animation_of_the_examples():
    """24 frames of POV-Ray: each becomes a picture."""
    if shutil.which("povray") is None:
        return "[skipped] POV-Ray is not installed"
    with shared_site() as site:
        job = tranche(site, "run", "-f", str(EXAMPLES / "animation/job.yaml"), "-o", "name").stdout.strip()
        detail = until(site, job, over)
        assert detail["job"]["state"] == "succeeded", detail
        with tempfile.TemporaryDirectory() as folder:
            assert tranche(site, "results", job, "-d", folder).returncode == 0
            pictures = sorted(pathlib.Path(folder).glob("*.png"))
            assert len(pictures) == 24 and all(p.read_bytes().startswith(b"\x89PNG") for p in pictures), pictures
    return None


def stopping_a_render():
    """Stopping the whole stops every chunk, and no other is begun."""
    with shared_site() as site:
        job = submit(site, run="sleep 600 # {frame}", units={"frames": "1..50"})
        until(site, job, lambda d: d["job"]["state"] == "running")
        assert site.ana.post(f"/v1/jobs/{job}/stop").status == 200
        detail = until(site, job, over)
        assert detail["job"]["state"] == "stopped", detail
        for chunk in detail["chunks"]:
            assert show(site, chunk)["job"]["state"] == "stopped"


def words_after_wait_are_the_commands():
    """--wait takes nothing of the command behind it; and a job that made nothing has no results, in words."""
    with shared_site() as site:
        for wait in ("--wait", "--wait=5m"):
            done = tranche(site, "run", "--cpus", "1", "-o", "name", wait, "--", "sh", "-c", "exit 0")
            assert done.returncode == 0, done.stderr
        assert tranche(site, "run", "--cpus", "1", "--wait", "5m", "--", "sh", "-c", "exit 0").returncode == 2
        wrong = tranche(site, "run", "--cpus", "1", "--wait", "5m", "true")
        assert wrong.returncode == 2 and "--wait=5m" in wrong.stderr, wrong.stderr
        job = done.stdout.strip()
        for words, code in ((("--list",), 0), (("--join", "/nowhere.mp4"), 1)):
            nothing = tranche(site, "results", job, *words)
            assert nothing.returncode == code and "no results" in nothing.stderr and "tar" not in nothing.stderr, nothing.stderr


def jobs_after_jobs():
    """A job starts after another, says why it waits, and ends with a reason when that one fails."""
    with shared_site() as site:
        first = submit(site, run="sleep 600")
        second = submit(site, run="true", after=[f"{first}:any"])
        third = submit(site, run="true", after=[first])
        fourth = submit(site, run="true", after=[third])
        why = site.ana.get(f"/v1/jobs/{second}/why").json
        assert why["reason"] == "dependency" and first in why["message"], why
        assert "waits for" in tranche(site, "why", second).stdout
        assert site.ana.post(f"/v1/jobs/{first}/stop").status == 200
        assert until(site, second, over)["job"]["state"] == "succeeded"
        for job in (third, fourth):
            detail = until(site, job, over)
            assert detail["job"]["state"] == "failed" and detail["end_reason"] == "dependency_failed", detail
        assert site.ana.post("/v1/jobs", {"run": "true", "after": ["job_009999"]}).status == 404
        assert site.ana.post("/v1/jobs", {"run": "true", "after": ["soon"]}).status in (400, 422)


def restart_in_the_middle():
    """The server is killed while a group and a waiter wait; both go on."""
    with Site(devices=False) as site:
        site.agent("n1")
        film = submit(site, run="sleep 0.1 # {frame}", units={"frames": "1..10"}, chunk=2)
        last = submit(site, run="true", after=[film])
        until(site, film, lambda d: d.get("progress") and d["progress"]["done"] >= 2)
        site.platform.kill()
        site.restart()
        assert until(site, film, over)["job"]["state"] == "succeeded"
        assert until(site, last, over)["job"]["state"] == "succeeded"


def a_job_again_and_again():
    """A job by the calendar: set by the command line, shown with its next time, run when that comes, removed."""
    with shared_site() as site:
        later = time.strftime("day %H:%M:%S", time.gmtime(time.time() + 3600))
        made = tranche(site, "run", "--name", "nightly", "--every", later, "--tz", "UTC", "--cpus", "1", "--", "echo", "again")
        assert made.returncode == 0, made.stderr
        shown = site.ana.get("/v1/recurring/nightly").json
        assert shown["goes_on"] and shown["planned_to"] > shown["next"] and shown["runs"] == 0, shown
        assert "nightly" in tranche(site, "recurring", "list").stdout
        soon = time.strftime("day %H:%M:%S", time.gmtime(time.time() + 3))
        job = {"run": "echo again", "resources": {"cpus": "1"}}
        changed = site.ana.put("/v1/recurring", {"name": "nightly", "every": soon, "zone": "UTC", "job": job})
        assert changed.status == 200 and changed.json["next"] < shown["next"], changed
        deadline = time.monotonic() + PATIENCE
        while not site.ana.get("/v1/recurring/nightly").json.get("last"):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        job = site.ana.get("/v1/recurring/nightly").json["last"]
        assert until(site, job, over)["job"]["state"] == "succeeded"
        assert tranche(site, "recurring", "rm", "nightly").returncode == 0
        assert site.ana.get("/v1/recurring/nightly").status == 404
        for wrong in ("weekdays", "someday 22:00", "day 25:00"):
            refused = tranche(site, "run", "--name", "x", "--every", wrong, "--", "true")
            assert refused.returncode != 0 and "every" in refused.stderr, refused.stderr
        assert "name" in tranche(site, "run", "--every", "day 22:00", "--", "true").stderr


def hours_of_the_day(first, last):
    """Two times of the day so many minutes from now, in UTC."""
    return "-".join(time.strftime("%H:%M", time.gmtime(time.time() + 60 * minutes)) for minutes in (first, last))


def a_job_in_its_hours():
    """A job waits for its window, says so, and one whose window is open starts; what cannot be is refused."""
    with shared_site() as site:
        later = tranche(site, "run", "--window", hours_of_the_day(120, 240), "--cpus", "1", "-o", "name", "--", "true")
        assert later.returncode == 0, later.stderr
        job = later.stdout.strip()
        why = tranche(site, "why", job).stdout
        assert "waits for its window" in why and "UTC, which opens at" in why, why
        assert show(site, job)["job"]["state"] == "pending"
        assert "window" in tranche(site, "show", job).stdout
        now = tranche(site, "run", "--window", hours_of_the_day(-60, 60), "--window-end", "stop", "--cpus", "1", "-o", "name",
                      "--", "true")
        assert until(site, now.stdout.strip(), over)["job"]["state"] == "succeeded", now
        soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        for flags, words in ((("--window", hours_of_the_day(120, 240), "--deadline", soon), "too late for the deadline"),
                             (("--cheapest",), "a deadline and a time limit"),
                             (("--cheapest", "--time", "2h", "--deadline", soon), "cannot end by"),
                             (("--window", "22:00-06:00", "--window-end", "stop", "--time", "9h"), "begins anew"),
                             (("--window", "22:00-06:00", "--tz", "Mars/Base"), "no time zone"),
                             (("--window", "22:00"), "two times of day")):
            refused = tranche(site, "run", *flags, "--cpus", "1", "--", "true")
            assert refused.returncode != 0 and words in refused.stderr, (flags, refused.stderr)


def the_cheapest_hours():
    """With a price list by the hour, a job waits for the cheap ones as its deadline allows, and says what it saves."""
    with Site() as site:
        site.agent("n1")
        # Twelve hours from now on are dear; those after them are cheap.
        minute = int(time.time() // 60) % 1440
        cheap = {"name": "night", "minute_from": (minute + 240) % 1440, "minute_to": (minute + 600) % 1440, "gpu_hour": "1.00"}
        answer = site.operator.put("/v1/prices", {"name": "list", "rules": [cheap, {"name": "day", "gpu_hour": "3.00"}]})
        assert answer.status // 100 == 2, answer
        deadline = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 20 * 3600))
        flags = ("--cheapest", "--deadline", deadline, "--time", "2h", "--gpus", "gpu:1")
        plan = tranche(site, "run", *flags, "--dry-run", "--", "true")
        assert "not before" in plan.stdout and "night" in plan.stdout, (plan.stdout, plan.stderr)
        made = tranche(site, "run", *flags, "-o", "name", "--", "true")
        assert made.returncode == 0, made.stderr
        why = tranche(site, "why", made.stdout.strip()).stdout
        assert "cheapest start before its deadline" in why and "2.00" in why and "6.00 now" in why, why


def a_shell_on_a_slice():
    """A shell is a job that ends with it: what is typed runs inside, and its exit code comes back."""
    with shared_site() as site:
        done = subprocess.run([TRANCHE, "shell", "--cpus", "1"], input="echo in $TRANCHE_JOB; exit 7\n", text=True,
                              capture_output=True, timeout=PATIENCE, check=False,
                              env={**os.environ, "TRANCHE_URL": f"http://127.0.0.1:{site.platform.port}",
                                   "TRANCHE_TOKEN": site.token})
        assert done.returncode == 7, (done.returncode, done.stderr)
        job = done.stdout.split()[1]
        assert until(site, job, over)["job"]["state"] == "stopped"
        idle = tranche(site, "shell", "--cpus", "1", "--idle", "200ms", "--", "sleep", "600")
        assert idle.returncode == 255 and "without a key" in idle.stderr, idle.stderr


def frames_in(clip):
    counted = subprocess.run(["ffprobe", "-v", "error", "-count_frames", "-select_streams", "v:0", "-show_entries",
                              "stream=nb_read_frames", "-of", "csv=p=0", clip], text=True, capture_output=True, check=True)
    return int(counted.stdout.strip().strip(","))


def a_clip_in_pieces():
    """A clip is cut at key frames, its pieces are worked on apart, and joined it is as long as before."""
    if shutil.which("ffmpeg") is None:
        return "[skipped] ffmpeg is not installed"
    with shared_site() as site, tempfile.TemporaryDirectory() as folder:
        clip, out = f"{folder}/clip.mp4", f"{folder}/out.mp4"
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=duration=6:size=128x96:rate=10", "-g", "10",
                        "-c:v", "mpeg4", clip], check=True)
        made = tranche(site, "run", "--kind", "video", "--input", clip, "--segment", "2s", "--cpus", "1", "-o", "name", "--",
                       "ffmpeg", "-nostdin", "-v", "error", "-i", "{input}", "-vf", "hflip", "-c:v", "mpeg4", "{output}")
        assert made.returncode == 0, made.stderr
        job = made.stdout.strip()
        detail = until(site, job, over)
        progress = detail["progress"]
        assert detail["job"]["state"] == "succeeded" and (progress["pieces_done"], progress["pieces"]) == (3, 3), detail
        assert (progress["unit"], progress["done"], progress["total"]) == ("second", 6, 6), detail
        shown = tranche(site, "show", job).stdout
        assert "6s of 6s, 3 of 3 pieces" in shown and "times real time" in shown, shown
        quota = site.operator.get("/v1/quotas/acme").json
        assert quota["units"]["seconds"]["done"] >= 6, quota
        # By frames: a piece ends at the first key frame behind each multiple of so many: 2, 1, 2 and 1 seconds.
        by_frames = tranche(site, "run", "--kind", "video", "--input", clip, "--by", "frames", "--segment", "15", "--cpus", "1",
                            "-o", "json", "--", "cp", "{input}", "{output}")
        assert by_frames.returncode == 0, by_frames.stderr
        pieces = until(site, json.loads(by_frames.stdout)["id"], over)
        assert pieces["job"]["state"] == "succeeded" and pieces["progress"]["pieces"] == 4, pieces
        joined = tranche(site, "results", job, "--join", out)
        assert joined.returncode == 0, joined.stderr
        assert frames_in(out) == 60
        wrong = tranche(site, "run", "--kind", "video", "--input", clip, "--", "true")
        assert wrong.returncode != 0 and "{input}" in wrong.stderr, wrong.stderr
    return None


def the_clip_of_the_examples():
    """The example is run as it stands: pieces go through an OpenCL filter inside slices, and joined none is missing."""
    if shutil.which("ffmpeg") is None:
        return "[skipped] ffmpeg is not installed"
    with shared_site() as site, tempfile.TemporaryDirectory() as folder:
        site.until(lambda: site.operator.get("/v1/devices").json["items"])
        done = subprocess.run([EXAMPLES / "video/blur.sh", f"{folder}/blurred.mp4"], text=True, capture_output=True,
                              timeout=PATIENCE, check=False,
                              env={**os.environ, "PATH": f"{pathlib.Path(TRANCHE).parent}:{os.environ['PATH']}",
                                   "TRANCHE_URL": f"http://127.0.0.1:{site.platform.port}", "TRANCHE_TOKEN": site.token})
        assert done.returncode == 0, done.stderr
        assert frames_in(f"{folder}/blurred.mp4") == 60
    return None


def a_segment_that_hangs():
    """A piece whose work never ends is ended by the time limit and named; the others are done, and counted in seconds."""
    if shutil.which("ffmpeg") is None:
        return "[skipped] ffmpeg is not installed"
    with shared_site() as site, tempfile.TemporaryDirectory() as folder:
        clip = f"{folder}/clip.mp4"
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=duration=6:size=64x48:rate=10", "-g", "10",
                        "-c:v", "mpeg4", clip], check=True)
        made = tranche(site, "run", "--kind", "video", "--input", clip, "--segment", "2s", "--cpus", "0.25+", "--time", "3s",
                       "--chunk", "1", "--retry", "0", "-o", "name", "--", "sh", "-c",
                       'case {input} in *2.mkv) sleep 600;; esac; cp {input} {output}')
        assert made.returncode == 0, made.stderr
        detail = until(site, made.stdout.strip(), over)
        assert detail["job"]["state"] == "failed" and detail["end_reason"] == "units_failed", detail
        assert detail["progress"]["done"] == 4 and detail["progress"]["pieces_done"] == 2, detail
        assert "unit 2" in detail["message"], detail
    return None


def quotas_in_units():
    """Frames are promised at submission, steps end their job at the limit, and every refusal names level and numbers."""
    with Site(devices=False) as site:
        site.agent("n1")
        operator = {**os.environ, "TRANCHE_URL": f"http://127.0.0.1:{site.platform.port}",
                    "TRANCHE_TOKEN": site.platform.operator_token}
        done = subprocess.run([TRANCHE, "quota", "set", "acme", "--units", "frames=10", "--units", "steps=50", "--period", "day"],
                              env=operator, text=True, capture_output=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
        film = submit(site, run="sleep 600 # {frame}", units={"frames": "1..6"})
        refused = tranche(site, "run", "--frames", "1-5", "--cpus", "1", "--", "true", "{frame}")
        assert refused.returncode != 0 and "acme may do 10 frames a day: 0 are done, 6 promised to jobs" in refused.stderr, refused.stderr
        assert "ask for at most 4" in refused.stderr, refused.stderr
        planned = tranche(site, "run", "--frames", "1-5", "--cpus", "1", "--dry-run", "--", "true", "{frame}")
        assert planned.returncode == 6 and "10 frames a day" in planned.stderr, planned
        assert site.ana.post(f"/v1/jobs/{film}/stop").status == 200
        until(site, film, over)
        short = submit(site, run="sleep 0.05 # {frame}", name="short", units={"frames": "1..4"}, resources={"cpus": "1"})
        assert until(site, short, over)["job"]["state"] == "succeeded"
        shown = subprocess.run([TRANCHE, "quota", "show", "acme"], env=operator, text=True, capture_output=True,
                               timeout=PATIENCE, check=True).stdout
        row = next(line for line in shown.splitlines() if "frames a day" in line)
        assert row.split()[-2:] == ["4", "10"], shown
        # What such frames took before is known to the next submission.
        plan = tranche(site, "run", "--name", "short", "--frames", "1-6", "--cpus", "1", "--dry-run", "--", "sleep", "0.05", "{frame}")
        assert "frames      6, " in plan.stdout and f"by {short} of the same name" in plan.stdout, (plan.stdout, plan.stderr)
        training = submit(site, kind="training", run='n=0; trap "exit 3" TERM; while :; do n=$((n+1)); echo "tranche: step $n"; sleep 0.02; done')
        detail = until(site, training, over)
        assert detail["job"]["state"] == "failed" and detail["end_reason"] == "unit_quota", detail
        assert "acme may do 50 steps a day, and they are done" in detail["message"], detail
        again = site.ana.post("/v1/jobs", {"kind": "finetune", "run": "true"})
        assert again.status == 403 and "units.steps" in again.body, again
        wrong = site.operator.put("/v1/quotas/acme", {"units": {"pictures": 3}})
        assert wrong.status == 422 and "frames, seconds, steps" in wrong.body, wrong
        demand = tranche(site, "forecast", "demand", "--units", "--hours", "2")
        assert demand.returncode == 0 and demand.stdout.startswith("HOUR"), demand
        fair = subprocess.run([TRANCHE, "settings", "set", "--fair", "frames=30s", "--fair", "tokens=1ms"], env=operator, text=True,
                              capture_output=True, timeout=PATIENCE, check=True)
        assert "frames=30s,tokens=1ms" in fair.stdout, fair.stdout
        bad = subprocess.run([TRANCHE, "settings", "set", "--fair", "frames"], env=operator, text=True, capture_output=True,
                             timeout=PATIENCE, check=False)
        assert bad.returncode == 2 and "frames=30s" in bad.stderr, bad.stderr


def a_deadline_by_clocks_on_the_wall():
    """08:00 in Madrid is the next one there; what is no time, or no zone, is refused with what would be."""
    with shared_site() as site:
        made = tranche(site, "run", "--frames", "1-3", "--deadline", "08:00", "--tz", "Europe/Madrid", "--cpus", "1", "-o", "name",
                       "--", "sleep", "0.01", "{frame}")
        assert made.returncode == 0, made.stderr
        zone = zoneinfo.ZoneInfo("Europe/Madrid")
        said = datetime.datetime.fromisoformat(show(site, made.stdout.strip())["ask"]["deadline"].replace("Z", "+00:00"))
        local = said.astimezone(zone)
        assert (local.hour, local.minute) == (8, 0), local
        now = datetime.datetime.now(zone)
        assert now < local <= now + datetime.timedelta(days=1, hours=1), (now, local)
        assert "deadline" in tranche(site, "show", made.stdout.strip()).stdout
        for flags, words in ((("--deadline", "breakfast"), "is no time"), (("--deadline", "08:00", "--tz", "Mars/Base"), "no time zone"),
                             (("--tz", "Europe/Madrid"), "--tz is the zone of")):
            refused = tranche(site, "run", *flags, "--cpus", "1", "--", "true")
            assert refused.returncode != 0 and words in refused.stderr, (flags, refused.stderr)


def a_pipeline_of_steps_with_and_without_a_device():
    """Prepare on processors, render on a slice, publish on processors again: each after the other, one job file each."""
    with shared_site() as site:
        site.until(lambda: site.operator.get("/v1/devices").json["items"])
        first = submit(site, run="echo prepared", resources={"cpus": "1"})
        second = submit(site, run='test -n "$TRANCHE_JOB" && echo computed', after=[first], resources={"gpus": "gpu:0.5"},
                        limits={"vram": "100MB"})
        made = tranche(site, "run", "--after", f"{second}:ok", "--cpus", "1", "-o", "name", "--", "echo", "published")
        assert made.returncode == 0, made.stderr
        third = made.stdout.strip()
        details = [until(site, job, over) for job in (first, second, third)]
        assert [detail["job"]["state"] for detail in details] == ["succeeded"] * 3, details
        assert [detail["ask"]["instances"] for detail in details] == [0, 1, 0], details
        ends = [detail["job"]["ended"] for detail in details]
        assert ends == sorted(ends) and details[2]["job"]["started"] >= ends[1], ends


def a_sky_file_and_a_batch_script():
    """A SkyPilot file and an #SBATCH script run as they are."""
    sky = "name: sky\nresources:\n  cpus: 1+\nenvs:\n  WHO: world\nsetup: echo set up\nrun: |\n  echo hello $WHO\n"
    batch = "#!/bin/bash\n#SBATCH --job-name=batch\n#SBATCH --cpus-per-task=1\n#SBATCH --time=5\necho in $SLURM_JOB_NAME\n"
    with shared_site() as site, tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "sky.yaml").write_text(sky)
        pathlib.Path(folder, "batch.sh").write_text(batch)
        for words, said in ((("run", "-f", f"{folder}/sky.yaml"), "hello world"), (("sbatch", f"{folder}/batch.sh"), "in batch")):
            made = tranche(site, *words, "-o", "name")
            assert made.returncode == 0, made.stderr
            job = made.stdout.strip()
            assert until(site, job, over)["job"]["state"] == "succeeded"
            assert said in site.logs(job), site.logs(job)
        pathlib.Path(folder, "array.sh").write_text(
            "#!/bin/bash\n#SBATCH --array=0-5%2\n#SBATCH --cpus-per-task=1\n"
            f"#SBATCH --dependency=afterok:{job}\nunit=mine\n[[ $SLURM_ARRAY_TASK_ID != 3 ]] || exit 9\n"
            'echo "$SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT, ${unit}" > "$TRANCHE_OUTPUT/$SLURM_ARRAY_TASK_ID"\n')
        made = tranche(site, "sbatch", f"{folder}/array.sh", "-o", "name")
        assert made.returncode == 0 and "%2" in made.stderr, made.stderr
        array = made.stdout.strip()
        detail = until(site, array, over)
        assert detail["job"]["state"] == "failed" and "unit 3 (exit 9, 1 try)" in detail["message"], detail
        assert tranche(site, "results", array, "-d", f"{folder}/made").returncode == 0
        found = {path.name: path.read_text() for path in pathlib.Path(folder, "made").iterdir()}
        assert found == {str(n): f"{n} of 6, mine\n" for n in range(6) if n != 3}, found


if __name__ == "__main__":
    main([progress_of_steps, frames_of_a_render, frames_go_on_in_one_sandbox, frame_that_always_fails, a_frame_that_hangs,
          a_worker_lost_in_a_gang, frames_survive_a_killed_agent, the_animation_of_the_examples, stopping_a_render,
          words_after_wait_are_the_commands, jobs_after_jobs, restart_in_the_middle, a_job_again_and_again, a_job_in_its_hours, the_cheapest_hours,
          a_shell_on_a_slice, a_clip_in_pieces, the_clip_of_the_examples, a_segment_that_hangs, quotas_in_units, a_deadline_by_clocks_on_the_wall,
          a_pipeline_of_steps_with_and_without_a_device, a_sky_file_and_a_batch_script])
