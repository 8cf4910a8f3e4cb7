# SPDX-License-Identifier: Apache-2.0
"""Container images: an OCI archive made by hand runs as a job, and whatever is wrong with one is refused by name."""
import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import shutil
import subprocess
import tarfile
import tempfile

from node_test import Site
from storage_test import cli
from tranche_platform import TRANCHE, main

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
LAYER = "application/vnd.oci.image.layer.v1.tar"


def member(name, content=b"", kind=tarfile.REGTYPE, link="", mode=0o755):
    entry = tarfile.TarInfo(name)
    entry.size, entry.type, entry.linkname, entry.mode = len(content), kind, link, mode
    return entry, content


def tar_of(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry, content in members:
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def folder(name):
    return member(name, kind=tarfile.DIRTYPE)


def link(name, target):
    return member(name, kind=tarfile.SYMTYPE, link=target)


def programs(*names):
    """Programs of this machine with the libraries they need, as a system of its own."""
    members, seen = [folder("bin"), folder("etc"), folder("old"), folder("kept")], set()
    for name in names:
        program = os.path.realpath(shutil.which(name))
        members.append(member(f"bin/{name}", pathlib.Path(program).read_bytes()))
        needed = subprocess.run(["ldd", program], text=True, capture_output=True, check=False).stdout
        for word in needed.split():
            if word.startswith("/") and word not in seen:
                seen.add(word)
                members.append(member(word[1:], pathlib.Path(word).read_bytes()))
    return members


def blob_name(content):
    return f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"


def described(content, kind):
    return {"mediaType": kind, "digest": "sha256:" + hashlib.sha256(content).hexdigest(), "size": len(content)}


def archive(layers, config, harm=lambda files: None):
    """An OCI archive of the layers, lowest first; `harm` may change its files before they are packed."""
    layers = [(gzip.compress(layer, mtime=0), LAYER + "+gzip") if packed else (layer, LAYER) for layer, packed in layers]
    config = json.dumps({"architecture": ARCHITECTURE, "os": "linux", "config": config}).encode()
    manifest = json.dumps({"schemaVersion": 2, "config": described(config, "application/vnd.oci.image.config.v1+json"),
                           "layers": [described(layer, kind) for layer, kind in layers]}).encode()
    entry = described(manifest, "application/vnd.oci.image.manifest.v1+json")
    entry["platform"] = {"architecture": ARCHITECTURE, "os": "linux"}
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', blob_name(config): config, blob_name(manifest): manifest,
             "index.json": json.dumps({"schemaVersion": 2, "manifests": [
                 {**entry, "digest": "sha256:" + "0" * 64, "platform": {"architecture": "other", "os": "linux"}},
                 entry]}).encode()}
    for layer, _ in layers:
        files[blob_name(layer)] = layer
    harm(files)
    return tar_of([member(name, content) for name, content in files.items()])


def good_archive():
    base = programs("sh", "cat", "ls", "id", "pwd", "env")
    base += [member("etc/release", b"made by hand\n", mode=0o644), member("old/gone", b"x"), member("old/also", b"x"),
             member("kept/lower", b"x"), member("kept/hidden", b"x"), link("lib-link", "/kept"),
             member("deep/" + "long-name/" * 20 + "end", b"far\n", mode=0o644)]
    top = [member("kept/.wh..wh..opq"), member("kept/upper", b"upper\n", mode=0o644), member("old/.wh.gone"),
           member("lib-link/through", b"inside\n", mode=0o644),
           member("kept/twin", kind=tarfile.LNKTYPE, link="kept/upper"), folder("home/app"),
           member("bin/greet", b"#!/bin/sh\necho \"greet: $GREETING $1 in $(pwd)\"\n")]
    return archive([(tar_of(base), True), (tar_of(top), False)],
                   {"Env": ["GREETING=from the image", "PATH=/bin", "CUDA_VISIBLE_DEVICES=all", "OWN=image"],
                    "WorkingDir": "/home/app", "Entrypoint": ["/bin/greet"], "Cmd": ["it's me"]})


def an_archive_runs_as_a_job():
    """Through the command line: layers, whiteouts, links, environment, folder and command of an image are honoured."""
    with Site() as site:
        images = site.platform.folder / "allowed"
        (images / "team").mkdir(parents=True)
        (images / "team/tool.tar").write_bytes(good_archive())
        site.agent("here", "--images", images)
        look = ("cat /etc/release /kept/upper /kept/twin /kept/through; ls /kept /old; pwd; echo $OWN; "
                "echo [$CUDA_VISIBLE_DEVICES]; id -u; ls /usr 2>/dev/null; cat /deep/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/end; "
                "(echo x > /etc/new) 2>/dev/null || echo read-only; echo mine > /work/file && cat /work/file")
        _, out, _ = cli(site, "run", "--image", "team/tool", "--env", "OWN=job", "--wait=5m", "-o", "json", "--",
                        "/bin/sh", "-c", look)
        job = json.loads(out)["id"]
        assert site.logs(job).split() == ["made", "by", "hand", "upper", "upper", "inside", "/kept:", "through", "twin",
                                          "upper", "/old:", "also", "/home/app", "job", "[]", "1000", "far", "read-only", "mine"], \
            site.logs(job) + site.logs(job, "stderr")
        _, out, _ = cli(site, "run", "--image", "team/tool", "--wait=5m", "-o", "json")
        job = json.loads(out)["id"]
        assert site.logs(job) == "greet: from the image it's me in /home/app\n", site.logs(job) + site.logs(job, "stderr")
        cache = list((site.agents[0].data / "image-cache").iterdir())
        assert len(cache) == 1 and cache[0].name.startswith("sha256-"), cache  # Unpacked once for both.
        for name, why in (("absent", "is not on this node"), ("../allowed/team/tool", "named by its place"),
                          ("/etc", "named by its place")):
            code, out, err = cli(site, "run", "--image", name, "--wait=5m", "-o", "json", "--", "true", check=False)
            assert code != 0, (name, out, err)
            job = site.job(json.loads(out)["id"])
            assert job["end_reason"] == "image_failed" and why in json.dumps(job), job


def a_command_beside_it_is_in_the_same_image():
    """exec enters the image, as its user and in its processes; a stop reaches the job, in its own way."""
    with Site(devices=False) as site:
        images = site.platform.folder / "allowed"
        images.mkdir()
        (images / "tool.tar").write_bytes(good_archive())
        site.agent("here", "--images", images)
        job = site.submit("trap 'echo told to stop; exit 7' TERM; echo ready; while :; do cat /etc/release > /dev/null; done",
                          image="tool")
        site.until(lambda: "ready" in site.logs(job))
        _, out, _ = cli(site, "exec", job, "--", "/bin/sh", "-c", "cat /etc/release; id -u; echo $GREETING; cat /proc/self/uid_map")
        out = out.decode()
        assert out.split()[:7] == ["made", "by", "hand", "1000", "from", "the", "image"], out
        assert out.split()[7] == "1000" and int(out.split()[8]) >= 700000, out
        cli(site, "stop", job, "-y")
        site.until_state(job, "stopped")
        assert "told to stop" in site.logs(job), site.logs(job)


def sandbox(images, name, command="cat /etc/release"):
    with tempfile.TemporaryDirectory() as data:
        return subprocess.run([TRANCHE, "agent-sandbox", "--data", data, "--images", images, "--image", name, command],
                              text=True, capture_output=True, timeout=120, check=False)


def whatever_is_wrong_is_refused():
    """Damage, ways out of the image, device files and unknown packings end with their reason, and leave nothing."""
    system = programs("sh", "cat") + [member("etc/release", b"whole\n", mode=0o644)]

    def with_extra(*more):
        return archive([(tar_of(system + list(more)), False)], {})

    def flip(files):
        name = max(files, key=lambda key: len(files[key]))
        middle = len(files[name]) // 2
        files[name] = files[name][:middle] + bytes([files[name][middle] ^ 1]) + files[name][middle + 1:]

    def drop(ending):
        return lambda files: [files.pop(key) for key in list(files) if key.endswith(ending) or key == ending]

    whole = archive([(tar_of(system), True)], {})
    largest = hashlib.sha256(gzip.compress(tar_of(system), mtime=0)).hexdigest()
    cases = {
        "upwards": (with_extra(member("../evil", b"x")), "leads out of the image"),
        "absolute": (with_extra(member("/evil", b"x")), "is absolute"),
        "hard-link": (with_extra(member("a", kind=tarfile.LNKTYPE, link="../../etc/shadow")), "leads out of the image"),
        "device": (with_extra(member("disk", kind=tarfile.BLKTYPE)), "device"),
        "damaged": (archive([(tar_of(system), False)], {}, flip), "damaged"),
        "packed": (archive([(tar_of(system), True)], {}, flip), "damaged"),
        "part": (archive([(tar_of(system), False)], {}, drop("oci-layout")), "no OCI archive"),
        "layer": (archive([(tar_of(system), True)], {}, drop(largest)), "part is missing"),
        "short": (whole[:len(whole) * 2 // 3], "cut short"),
        "text": (b"not an archive at all" * 100, "tar"),
        "shell": (archive([(tar_of([folder("etc")]), False)], {}), "no /bin/sh"),
    }
    with tempfile.TemporaryDirectory() as place:
        images = pathlib.Path(place)
        (images / "whole.tar").write_bytes(whole)
        done = sandbox(images, "whole")
        assert done.stdout == "whole\n", done
        for name, (content, why) in cases.items():
            (images / f"{name}.tar").write_bytes(content)
            done = sandbox(images, name)
            assert done.returncode != 0 and why in done.stderr and "whole" not in done.stdout, (name, done)
    # A link to the node's own folder leads, when something is unpacked through it, into the image or nowhere.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        images, outside = pathlib.Path(place), pathlib.Path(place) / "outside"
        outside.mkdir()
        through = [link("way", str(outside)), member("way/file", b"inside\n", mode=0o644)]
        (images / "nowhere.tar").write_bytes(with_extra(*through))
        done = sandbox(images, "nowhere")
        assert done.returncode != 0 and "leads to nothing" in done.stderr, done
        parts = outside.relative_to("/").parts
        folders = [folder("/".join(parts[:length])) for length in range(1, len(parts) + 1)]
        (images / "through.tar").write_bytes(with_extra(*folders, *through))
        done = sandbox(images, "through", f"cat {outside}/file")
        assert done.stdout == "inside\n" and list(outside.iterdir()) == [], done


def a_folder_serves_as_an_image():
    """A root file system that an operator unpacked, as it is, and read-only."""
    with tempfile.TemporaryDirectory() as place:
        root = pathlib.Path(place) / "plain"
        root.mkdir()
        with tarfile.open(fileobj=io.BytesIO(tar_of(programs("sh", "cat")))) as system:
            system.extractall(root)
        (root / "etc/release").write_text("a folder\n")
        done = sandbox(place, "plain", "cat /etc/release; (: > /bin/new) 2>/dev/null || echo read-only")
        assert done.stdout == "a folder\nread-only\n", done


if __name__ == "__main__":
    main([an_archive_runs_as_a_job, a_command_beside_it_is_in_the_same_image, whatever_is_wrong_is_refused, a_folder_serves_as_an_image])
