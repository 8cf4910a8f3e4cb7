# SPDX-License-Identifier: Apache-2.0
"""Working directories and volumes, from a person's folder to the inside of a job, and back to nothing."""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import time

from node_test import Site, shared_site
from tranche_platform import TRANCHE, Client, main, make_user

# What a node needs for it; without, volumes are plain and said to be.
ENCRYPTS = os.geteuid() == 0 and bool(shutil.which("gocryptfs")) and os.path.exists("/bin/fusermount") and \
    os.path.exists("/dev/fuse")


def cli(site, *words, token=None, given=None, check=True):
    """The command as a person runs it; returns (exit code, stdout, stderr)."""
    environment = {**os.environ, "TRANCHE_URL": f"http://127.0.0.1:{site.platform.port}",
                   "TRANCHE_TOKEN": token or site.token, "HOME": str(site.platform.folder)}
    done = subprocess.run([TRANCHE, *map(str, words)], env=environment, input=given, capture_output=True, timeout=300,
                          check=False)
    if check:
        assert done.returncode == 0, (words, done)
    return done.returncode, done.stdout, done.stderr.decode()


def project(site):
    folder = site.platform.folder / "project"
    if folder.exists():
        return folder
    (folder / "sub").mkdir(parents=True)
    (folder / "run.sh").write_text("#!/bin/sh\necho it runs in $PWD; cat sub/data; ls link\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "sub/data").write_text("forty two\n")
    (folder / "link").symlink_to("sub/data")
    return folder


def a_working_directory_travels_with_its_job():
    """What is in the folder is what the job starts in; sent once, and refused when it is not there."""
    with shared_site(devices=False) as site:
        folder = project(site)
        words = ["run", "--workdir", folder, "--wait=5m", "-o", "json", "--", "sh", "-c", "./run.sh; echo x > new; id -u"]
        _, out, err = cli(site, *words)
        assert "uploading" in err, err
        job = json.loads(out)["id"]
        lines = site.logs(job).splitlines()
        assert lines[:3] == ["it runs in /work", "forty two", "link"], site.logs(job) + site.logs(job, "stderr")
        assert not (folder / "new").exists()
        _, out, err = cli(site, *words)
        assert "uploading" not in err, err  # The server has it.
        assert site.logs(json.loads(out)["id"]).splitlines()[:3] == lines[:3]
        # A path means nothing to the server, nor does a digest that was never uploaded.
        for wrong in ("./project", "/etc", "sha256:" + "0" * 64):
            answer = site.ana.post("/v1/jobs", {"run": "true", "workdir": wrong})
            assert answer.status == 400 and "workdir" in answer.body, answer
        code, _, err = cli(site, "run", "--workdir", folder / "run.sh", "--", "true", check=False)
        assert code == 2 and "cannot be read" in err, (code, err)


def nobody_gets_anothers_working_directory():
    """The digest of another tenant's folder opens nothing, and neither does a node without the lease."""
    with shared_site(devices=False) as site:
        folder = project(site)
        _, out, _ = cli(site, "run", "--workdir", folder, "--wait=5m", "-o", "json", "--", "true")
        digest = site.job(json.loads(out)["id"])["spec"]["workdir"]
        assert digest.startswith("sha256:"), digest
        site.operator.post("/v1/tenants", {"name": "blue"})
        _, token = make_user(site.operator, "blue", "bob", ["member"])
        bob = Client(site.platform.port, token)
        answer = bob.post("/v1/jobs", {"run": "ls", "workdir": digest})
        assert answer.status == 400 and "uploaded" in answer.body, answer
        assert bob.get(f"/v1/workdirs/{digest}").json["complete"] is False
        assert bob.get(f"/v1/workdirs/{digest}?owner=acme/ana").status in (403, 404)
        # Bytes that are not what the name says are not kept.
        wrong = "sha256:" + hashlib.sha256(b"right").hexdigest()
        assert bob.put(f"/v1/workdirs/{wrong}?size=5&offset=0", b"wrong").status == 400
        assert bob.get(f"/v1/workdirs/{wrong}").json == {
            "digest": wrong, "size": 0, "held": 0, "complete": False}


def setup_and_secrets_are_kept_apart_from_the_run():
    """The setup step sees the folder, its failure is its own, and a secret is in no log, journal or answer."""
    with shared_site(devices=False) as site:
        secret = "hush-" + "7f3a" * 4
        job = site.submit("cat made; test \"$KEY\" = \"" + secret[:5] + "\"${REST} && echo known",
                          setup="echo from setup > made", secrets={"KEY": secret}, envs={"REST": secret[5:]})
        site.until_state(job, "succeeded", "failed")
        assert site.logs(job) == "from setup\nknown\n", site.logs(job) + site.logs(job, "stderr")
        bad = site.submit("echo never", setup="exit 3")
        site.until_state(bad, "failed")
        assert site.job(bad)["end_reason"] == "setup_failed" and site.logs(bad) == "", site.job(bad)
        assert secret not in json.dumps(site.job(job))
        for place in (site.platform.folder / "data", site.agents[0].data):
            for file in place.rglob("*"):
                if file.is_file():
                    assert secret.encode() not in file.read_bytes(), file


def a_volume_outlives_jobs_and_stays_its_owners():
    """What one job writes the next one reads; another tenant finds nothing under any name; a wipe has a receipt."""
    with shared_site(devices=False) as site:
        agent = site.agents[0]
        site.operator.post("/v1/tenants", {"name": "green"})
        _, token = make_user(site.operator, "green", "bob", ["member"])
        bob = Client(site.platform.port, token)
        cli(site, "volume", "create", "data", "--size", "10MB", "--owner", "acme")
        one = site.submit("echo kept > /data/file; mkdir /data/deep; echo too > /data/deep/file", volumes=["data:/data"])
        site.until_state(one, "succeeded", "failed")
        assert site.state(one) == "succeeded", site.logs(one, "stderr") + agent.log_text()
        two = site.submit("cat /data/file /data/deep/file; echo no > /data/file && echo wrote", volumes=["data:/data:ro"])
        site.until_state(two, "succeeded", "failed")
        assert site.logs(two) == "kept\ntoo\n", site.logs(two)
        volume = json.loads(cli(site, "volume", "show", "data", "-o", "json")[1])
        assert volume["node"] == agent.name and volume["encrypted"] is ENCRYPTS, volume
        # Nobody else: not by name, not by id, not by path, not in a list.
        for name in ("data", volume["id"], "acme%2Fdata"):
            for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/snapshot")):
                answer = bob.call(method, f"/v1/volumes/{name}{path}", {"name": "mine"} if path else None)
                assert answer.status == 404, (name, method, answer)
            refused = bob.post("/v1/jobs", {"run": "ls /x", "volumes": [{"name": name, "path": "/x"}]})
            missing = bob.post("/v1/jobs", {"run": "ls /x", "volumes": [{"name": name + "x", "path": "/x"}]})
            assert refused.status == missing.status and refused.status in (400, 404, 422), refused
        assert bob.get("/v1/volumes?all=true").json["items"] == []
        assert bob.post("/v1/volumes", {"name": "data", "size": 1000}).status == 201  # His own; the name is free.
        # A snapshot holds what was there, whatever is written after it.
        cli(site, "volume", "snapshot", "data", "before")
        three = site.submit("echo changed > /data/file", volumes=["data:/data"])
        site.until_state(three, "succeeded")
        code, out, _ = cli(site, "volume", "attach", "before:/b", "--", "cat", "/b/file")
        assert out == b"kept\n", (code, out)
        # Gone is gone: overwritten, unlinked, with a receipt, and its place on the node is empty.
        for name in ("before", "data"):
            cli(site, "volume", "rm", name, "-y")
        gone = [one for one in json.loads(cli(site, "volume", "list", "--all", "-o", "json")[1])["items"]
                if one["name"] == "data"]
        assert gone[0]["state"] == "gone" and gone[0]["receipt"]["files"] >= 2, gone
        assert not (agent.data / "volumes" / volume["id"]).exists()


def a_volume_holds_no_more_than_its_size():
    """A job that fills a volume past its size is ended for it; a neighbour's volume is untouched."""
    with shared_site(devices=False) as site:
        assert site.ana.post("/v1/volumes", {"name": "small", "size": 2_000_000}).status == 201
        job = site.submit("dd if=/dev/zero of=/v/a bs=100000 count=15 2>/dev/null; "
                          "dd if=/dev/zero of=/v/b bs=100000 count=15 2>/dev/null; sleep 600", volumes=["small:/v"])
        site.until_state(job, "failed", "succeeded")
        detail = site.job(job)
        assert detail["end_reason"] == "disk_limit" and "/v" in detail["message"], detail
        # It can be tidied up.
        tidy = site.submit("rm /v/b; sleep 2; ls /v", volumes=["small:/v"])
        site.until_state(tidy, "succeeded", "failed")
        assert site.logs(tidy) == "a\n", json.dumps(site.job(tidy)) + site.logs(tidy, "platform")


def files_are_copied_in_and_out():
    """Into folders and under new names, both ways; and a job whose own tar sends more than was asked for sends it to nobody."""
    with shared_site(devices=False) as site:
        evil = ("mkdir -p bin out; echo good > out/good; echo evil > out/.profile; "
                "printf '#!/bin/sh\\ncd /work/out && exec /usr/bin/tar -cf - .profile good\\n' > bin/tar; chmod +x bin/tar; "
                "echo ready; sleep 1000")
        plain = site.submit("echo ready; sleep 1000")
        hostile = site.submit(evil, envs={"PATH": "/work/bin:/usr/bin:/bin"})
        for job in (plain, hostile):
            site.until(lambda job=job: "ready" in site.logs(job), lambda job=job: json.dumps(site.job(job)))
        here = site.platform.folder / "here"
        (here / "tree/deep").mkdir(parents=True)
        (here / "tree/deep/file").write_text("words\n")
        cli(site, "cp", str(here / "tree"), f"{plain}:/work")
        cli(site, "cp", str(here / "tree/deep/file"), f"{plain}:/work/renamed")
        assert cli(site, "exec", plain, "--", "cat", "/work/tree/deep/file", "/work/renamed")[1] == b"words\nwords\n"
        cli(site, "cp", f"{plain}:/work/tree", str(here / "back"))
        assert (here / "back/deep/file").read_text() == "words\n"
        (here / "folder").mkdir()
        cli(site, "cp", f"{plain}:/work/renamed", str(here / "folder"))
        assert (here / "folder/renamed").read_text() == "words\n"
        code, _, said = cli(site, "cp", f"{plain}:/work/renamed", str(here / "none/such"), check=False)
        assert code != 0 and "there is no folder" in said, said
        for to in (here / "folder", here / "taken"):
            cli(site, "cp", f"{hostile}:/work/out/good", str(to))
        assert (here / "folder/good").read_text() == (here / "taken").read_text() == "good\n"
        assert sorted(path.name for path in here.rglob(".*")) == [], list(here.rglob("*"))


def bytes_under(folder):
    """All that is on the disk below a folder, names included. What is only shown there is gone by now."""
    found = b""
    for place, folders, files in os.walk(folder):
        found += "\n".join(folders + files).encode()
        for name in files:
            found += (pathlib.Path(place) / name).read_bytes()
    return found


def a_volume_cannot_be_read_on_the_disk():
    """With encryption neither contents nor names are on the disk when no job has the volume; without, both are."""
    if not ENCRYPTS:
        return "[skipped] needs root, gocryptfs and fuse"
    for encryption in ("on", "off"):
        with Site(devices=False) as site:
            agent = site.agent("here", "--volume-encryption", encryption)
            assert site.ana.post("/v1/volumes", {"name": "v", "size": 50_000_000}).status == 201
            job = site.submit("echo canary-of-contents > /v/canary-of-names; env; cat /proc/self/mountinfo; sleep 600",
                              volumes=["v:/v"])
            volume = site.ana.get("/v1/volumes/v").json
            place = agent.data / "volumes" / volume["id"]
            site.until(lambda: (place / "data/canary-of-names").exists(), agent.log_text)
            assert "TRANCHE_VOLUME_KEY" not in site.logs(job)
            # An agent that was killed leaves it open for its job; the next one locks it after that.
            agent.kill()
            agent.start("--drain-on-exit", "--volume-encryption", encryption)
            site.until(lambda: "adopted" in agent.log_text(), agent.log_text)
            assert (place / "data/canary-of-names").exists()
            site.until(lambda: site.node("here")["connected"], agent.log_text)
            assert site.ana.post(f"/v1/jobs/{job}/stop").status == 200
            site.until_state(job, "failed", "succeeded", "cancelled", "stopped")
            if encryption == "on":
                site.until(lambda: not os.path.ismount(place / "data"), agent.log_text)
            raw = bytes_under(place)
            assert (b"canary-of-contents" in raw) == (encryption == "off"), encryption
            assert (b"canary-of-names" in raw) == (encryption == "off"), encryption
            assert site.ana.get("/v1/volumes/v").json["encrypted"] is (encryption == "on")
            again = site.submit("cat /v/canary-of-names", volumes=["v:/v"])
            site.until_state(again, "failed", "succeeded")
            assert site.logs(again) == "canary-of-contents\n", site.job(again)
            cli(site, "volume", "snapshot", "v", "copy")
            assert cli(site, "volume", "attach", "copy:/c", "--", "cat", "/c/canary-of-names")[1] == b"canary-of-contents\n"
            cli(site, "volume", "rm", "v", "-y")
            gone = site.ana.get(f"/v1/volumes/{volume['id']}").json
            assert ("key of its files" in gone["receipt"]["method"]) == (encryption == "on"), gone
            assert not place.exists()
            assert cli(site, "volume", "attach", "copy:/c", "--", "cat", "/c/canary-of-names")[1] == b"canary-of-contents\n"


def only(site, name):
    """New work goes to this node alone."""
    for agent in site.agents:
        answer = site.operator.call("PATCH", f"/v1/nodes/{agent.name}", {"cordoned": agent.name != name})
        assert answer.status == 200, answer


def a_shared_volume_is_had_wherever_it_is_offered():
    """Written on one node, read on another, by nobody else, never in the open; wiped by any of them, with a receipt."""
    with Site(devices=False) as site:
        pool = site.platform.folder / "pool"
        pool.mkdir()
        assert cli(site, "volume", "create", "x", "--size", "1MB", "--backend", "shared", check=False)[0] != 0
        for name in ("one", "two"):
            site.agent(name, "--shared-volumes", pool)
        site.agent("three")
        pools = {name: site.node(name)["features"]["shared_volumes"] for name in ("one", "two", "three")}
        assert pools["one"] == pools["two"] and pools["one"] and not pools["three"], pools
        made = json.loads(cli(site, "volume", "create", "lake", "--size", "50MB", "--backend", "shared", "-o", "json")[1])
        assert made["backend"] == "shared" and made["pool"] == pools["one"] and not made["encrypted"], made
        only(site, "one")
        one = site.submit("echo canary-of-contents > /v/canary-of-names", volumes=["lake:/v"])
        site.until_state(one, "succeeded", "failed")
        assert site.job(one)["job"]["node"] == "one" and site.state(one) == "succeeded", site.job(one)
        site.until(lambda: made["id"] not in pathlib.Path("/proc/self/mounts").read_text())
        raw = bytes_under(pool)
        assert (b"canary-of-contents" in raw) != ENCRYPTS and (b"canary-of-names" in raw) != ENCRYPTS, raw[:500]
        only(site, "three")
        two = site.submit("cat /v/canary-of-names", volumes=["lake:/v"])
        away = site.submit("true")
        site.until_state(away, "succeeded", "failed")
        assert site.state(two) == "pending", site.job(two)  # A node without the pool is free, and not good enough.
        only(site, "two")
        site.until_state(two, "succeeded", "failed")
        assert site.job(two)["job"]["node"] == "two" and site.logs(two) == "canary-of-contents\n", site.job(two)
        assert site.ana.get("/v1/volumes/lake").json["encrypted"] is ENCRYPTS
        site.operator.post("/v1/tenants", {"name": "blue"})
        bob = Client(site.platform.port, make_user(site.operator, "blue", "bob", ["member"])[1])
        for name in ("lake", made["id"]):
            assert bob.get(f"/v1/volumes/{name}").status == 404
            assert bob.post("/v1/jobs", {"run": "ls", "volumes": [{"name": name, "path": "/v"}]}).status in (400, 404, 422)
        cli(site, "volume", "snapshot", "lake", "before")
        assert cli(site, "volume", "attach", "before:/b", "--", "cat", "/b/canary-of-names")[1] == b"canary-of-contents\n"
        for name in ("before", "lake"):
            cli(site, "volume", "rm", name, "-y")
        gone = site.ana.get(f"/v1/volumes/{made['id']}").json
        assert gone["state"] == "gone" and gone["receipt"]["done"] and gone["receipt"]["files"] >= 1, gone
        assert list((pool / "volumes").iterdir()) == [], list((pool / "volumes").iterdir())


def keeping_a_volume_costs_money():
    """By time and size, whether a job uses it or not: in the list, in the costs, on the invoice, until it is removed."""
    with Site(devices=False) as site:
        prices = {"name": "list", "rules": [{"name": "gpus", "gpu_hour": "2"}, {"name": "disk", "storage_gib_hour": "3600"}]}
        assert site.operator.put("/v1/prices", prices).status == 200
        assert site.ana.post("/v1/volumes", {"name": "v", "size": 1 << 29}).status == 201
        shown = site.ana.get("/v1/volumes/v").json
        assert float(shown["hourly"]) == 1800 and float(shown["charged"]) == 0, shown
        assert "1800" in cli(site, "volume", "list")[1].decode()
        site.agent()
        job = site.submit("sleep 600", volumes=["v:/v"])
        site.until_state(job, "running")  # What is sold here is time.
        assert "v is kept, and costs 1800" in cli(site, "stop", job)[2]
        site.until_state(job, "stopped")
        time.sleep(1)
        cli(site, "volume", "rm", "v", "-y")
        paid = float(site.ana.get(f"/v1/volumes/{shown['id']}").json["charged"])
        assert 0.5 <= paid <= 600, paid
        operator = site.platform.operator_token
        costs = json.loads(cli(site, "cost", "show", "acme", "--by", "kind", "-o", "json", token=operator)[1])
        assert [(row["what"], float(row["cost"])) for row in costs["items"]] == [("storage", paid)], costs
        bill = cli(site, "invoice", "show", "acme", token=operator)[1].decode()
        assert "Storage kept in volumes" in bill, bill


def a_volume_covers_nothing_of_the_platforms():
    """No path of a job's choice hides the guard, the accounts or the devices."""
    with shared_site(devices=False) as site:
        assert site.ana.post("/v1/volumes", {"name": "v", "size": 1_000_000}).status == 201
        for path in ("/etc", "/etc/OpenCL", "/run/tranche", "/dev", "/usr/lib", "/", "/work", "/a/../etc", "/etc/", "//etc",
                     "/./etc", "/data\0"):
            answer = site.ana.post("/v1/jobs", {"run": "echo started", "volumes": [{"name": "v", "path": path}]})
            assert answer.status == 400 and "cannot be shown" in answer.body, (path, answer)
        answer = site.ana.post("/v1/jobs", {"run": "echo started", "checkpoint": {"path": "/etc"}})
        assert answer.status == 400 and "cannot be shown" in answer.body, answer
        job = site.submit("echo started; ls /data /work/v",
                          volumes=[{"name": "v", "path": "/data"}, {"name": "v", "path": "/work/v"}])
        site.until_state(job, "succeeded")
        # A link that its own setup leaves on the way would have the volume cover what is not the job's.
        for link in ("/", "../etc/.."):
            job = site.submit("cat /etc/passwd", setup=f"mv d old; ln -s {link} d",
                              volumes=[{"name": "v", "path": "/work/d/etc"}])
            site.until_state(job, "failed")
            detail = site.job(job)
            assert detail["end_reason"] == "setup_failed" and "a link stands on the way" in detail["message"], detail


if __name__ == "__main__":
    main([a_working_directory_travels_with_its_job, nobody_gets_anothers_working_directory,
          setup_and_secrets_are_kept_apart_from_the_run, files_are_copied_in_and_out, a_volume_outlives_jobs_and_stays_its_owners,
          a_volume_holds_no_more_than_its_size, a_volume_cannot_be_read_on_the_disk,
          a_shared_volume_is_had_wherever_it_is_offered, keeping_a_volume_costs_money,
          a_volume_covers_nothing_of_the_platforms])
