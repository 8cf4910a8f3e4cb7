#!/usr/bin/env python3
"""The sandbox of jobs, attacked from inside. A probe is a small program that tries one way out and prints what it got:
each must be refused inside. Where the machine allows it, the same probe runs outside first and must succeed there, so
that a probe which can never succeed is not counted as a defence."""
import ctypes  # noqa: F401  (the probes use it; here it shows that the machine has it)
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

root = pathlib.Path(__file__).resolve().parent.parent
build = pathlib.Path(os.environ.get("TRANCHE_BUILD_DIR", root / "build/dev")).resolve()
scratch = tempfile.TemporaryDirectory(prefix="tranche-sandbox-")
folder = pathlib.Path(scratch.name)
passed = failed = controls = 0

PRELUDE = textwrap.dedent("""
    import ctypes, os, socket, sys, errno
    libc = ctypes.CDLL(None, use_errno=True)
    def call(number, *args):
        ctypes.set_errno(0)
        got = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
        return got, ctypes.get_errno()
    def refused(number, *args):
        got, error = call(number, *args)
        return got == -1 and error in (errno.EPERM, errno.EACCES, errno.ENOSYS)
    def opens(path, flags=os.O_RDONLY):
        try:
            os.close(os.open(path, flags)); return True
        except OSError:
            return False
    def tries(action):
        try:
            action(); return True
        except Exception:
            return False
    """)


class Own:
    """Whose sandbox is tried: that of whoever runs the test."""
    data, words = folder / "data", [build / "tranche"]


class Ordinary:
    """An agent that is not root, whose sandbox bubblewrap makes."""
    user, place = 65534, folder / "ordinary"
    data, words = place / "data", ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", "env", "-i",
                                   "PATH=/usr/bin:/bin", place / "tranche"]

    @classmethod
    def prepare(cls):
        folder.chmod(0o711)
        cls.place.mkdir()
        for program in ("tranche", "libtranche-guard.so"):
            shutil.copy(build / program, cls.place)  # Whose folder may be closed to others.
        os.chown(cls.place, cls.user, cls.user)


def sandbox(command, *options, timeout=120, of=Own):
    return subprocess.run([*of.words, "agent-sandbox", "--data", of.data, *options, command], text=True, errors="replace",
                          timeout=timeout, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=of.data.parent)


def check(claim, holds, detail=""):
    global passed, failed
    if holds:
        passed += 1
    else:
        failed += 1
        print(f"FAILED {claim} {detail}", flush=True)


# name -> (expression that is true when the way out is open, whether it must be open outside, for root)
PROBES = {
    # Calls that the filter refuses.
    "mount": ("not refused(165, 0, b'/tmp', 0, 4096, 0)", False),
    "umount": ("not refused(166, b'/proc', 2)", False),
    "pivot_root": ("not refused(155, b'/', b'/')", False),
    "chroot": ("not refused(161, b'/tmp')", True),
    "move_mount": ("not refused(429, -1, b'', -1, b'', 0)", True),
    "open_tree": ("not refused(428, -100, b'/', 0)", True),
    "fsopen": ("not refused(430, b'tmpfs', 0)", True),
    "mount_setattr": ("not refused(442, -100, b'/', 0, 0, 0)", True),
    "unshare a user namespace": ("not refused(272, 0x10000000)", True),
    "unshare a mount namespace": ("not refused(272, 0x20000)", True),
    "setns": ("not refused(308, 0, 0)", True),
    "clone a user namespace": ("call(56, 0x10000000 | 17, 0, 0, 0, 0)[0] >= 0", True),
    "clone a network namespace": ("call(56, 0x40000000 | 17, 0, 0, 0, 0)[0] >= 0", True),
    "clone3": ("not refused(435, 0, 0)", True),
    "ptrace a child": ("not refused(101, 0, 0, 0, 0)", True),
    "the agent's own arguments": ("os.environ['PROBE_DATA'] in open('/proc/1/cmdline').read()", False),
    "ptrace process 1": ("not refused(101, 16, 1, 0, 0)", False),
    "process_vm_readv": ("not refused(310, os.getpid(), 0, 0, 0, 0, 0)", True),
    "process_vm_writev": ("not refused(311, os.getpid(), 0, 0, 0, 0, 0)", True),
    "pidfd_getfd": ("not refused(438, -1, 0, 0)", True),
    "kcmp": ("not refused(312, os.getpid(), os.getpid(), 0, 0, 0)", True),
    "bpf": ("not refused(321, 5, 0, 0)", True),
    "perf_event_open": ("not refused(298, 0, 0, -1, -1, 0)", True),
    "userfaultfd": ("not refused(323, 0)", True),
    "io_uring_setup": ("not refused(425, 1, 0)", True),
    "keyctl": ("not refused(250, 0, -3, 1)", True),
    "add_key": ("not refused(248, b'user', b'x', b'y', 1, -2)", True),
    "request_key": ("not refused(249, b'user', b'x', 0, -2)", True),
    "kexec_load": ("not refused(246, 0, 0, 0, 0)", False),
    "init_module": ("not refused(175, 0, 0, b'')", False),
    "delete_module": ("not refused(176, b'none', 0)", False),
    "open_by_handle_at": ("not refused(304, -100, 0, 0)", False),
    "name_to_handle_at": ("not refused(303, -100, b'/', 0, 0, 0)", True),
    "reboot": ("not refused(169, 0, 0, 0, 0)", False),
    "swapon": ("not refused(167, b'/none', 0)", False),
    "settimeofday": ("not refused(164, 0, 0)", True),
    "clock_settime": ("not refused(227, 0, 0)", True),
    "sethostname": ("not refused(170, b'job', 3)", False),
    "syslog": ("not refused(103, 10, 0, 0)", True),
    "iopl": ("not refused(172, 0)", None),
    "modify_ldt": ("not refused(154, 0, 0, 0)", True),
    "personality": ("not refused(135, 0xffffffff)", True),
    "fanotify_init": ("not refused(300, 0, 0)", False),
    "quotactl": ("not refused(179, 0, 0, 0, 0)", True),
    "acct": ("not refused(163, 0)", False),
    # Networks.
    "raw socket": ("tries(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))", True),
    "packet socket": ("tries(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))", True),
    "kernel crypto socket": ("tries(lambda: socket.socket(38, socket.SOCK_SEQPACKET))", False),
    "vsock": ("tries(lambda: socket.socket(40, socket.SOCK_STREAM))", False),
    "an interface beside loopback": ("any(n != 'lo' for _, n in socket.if_nameindex())", None),
    "the node's loopback": ("tries(lambda: socket.create_connection(('127.0.0.1', int(os.environ['PROBE_PORT'])), 2))", True),
    "the node's abstract sockets": ("tries(lambda: socket.socket(socket.AF_UNIX).connect('\\0' + os.environ['PROBE_NAME']))", True),
    # Files.
    "write to /usr": ("opens('/usr/probe-of-tranche', os.O_CREAT | os.O_WRONLY)", None),
    "write to /etc": ("opens('/etc/probe-of-tranche', os.O_CREAT | os.O_WRONLY)", None),
    "write to /": ("opens('/probe-of-tranche', os.O_CREAT | os.O_WRONLY)", None),
    "write to /dev": ("opens('/dev/probe-of-tranche', os.O_CREAT | os.O_WRONLY)", None),
    "the node's /etc/shadow": ("opens('/etc/shadow')", True),
    "the node's accounts": ("len(open('/etc/passwd').read().splitlines()) > 3", True),
    "the node's /root": ("os.path.exists('/root')", True),
    "the node's /home": ("os.path.exists('/home')", True),
    "the node's /var": ("os.path.exists('/var')", True),
    "the node's /sys": ("os.path.exists('/sys/kernel')", True),
    "the agent's own folder": ("os.path.exists(os.environ['PROBE_DATA'])", True),
    "another job's scratch": ("os.path.exists(os.environ['PROBE_DATA'] + '/leases')", True),
    "a symbolic link out of scratch": ("(os.symlink(os.environ['PROBE_DATA'], 'way') or True) and os.path.exists('way/')", None),
    "files of the node through /proc/1/root": ("os.path.exists('/proc/1/root/etc/shadow')", None),
    "the node's mounts": ("any('cgroup' in line for line in open('/proc/self/mountinfo'))", True),
    # Processes.
    "processes of the node": ("any(p.isdigit() and 'sandbox_test' in open(f'/proc/{p}/cmdline', errors='replace').read()"
                              " for p in os.listdir('/proc') if os.path.exists(f'/proc/{p}/cmdline')) and os.getpid() > 300", True),
    "signal a process of the node": ("tries(lambda: os.kill(int(os.environ['PROBE_PID']), 0))", True),
    "raise priority": ("tries(lambda: os.setpriority(os.PRIO_PROCESS, 0, -5))", True),
    "become root": ("tries(lambda: os.setuid(0))", True),
    "any capability": ("int([l for l in open('/proc/self/status') if l.startswith('CapBnd')][0].split()[1], 16) != 0", True),
    "new privileges by setuid programs": ("libc.prctl(39, 0, 0, 0, 0) == 0", True),
    "take the filter off": ("libc.prctl(22, 0, 0, 0, 0) == 0", None),
    "inherited descriptors": ("any(int(d) > 2 and not os.readlink('/proc/self/fd/' + d).startswith('/proc/')"
                              " for d in os.listdir('/proc/self/fd') if os.path.islink('/proc/self/fd/' + d))", None),
    "a controlling terminal": ("opens('/dev/tty', os.O_RDWR)", None),
    "core dumps": ("__import__('resource').getrlimit(4)[1] != 0", None),
    # Devices.
    "make a device file": ("tries(lambda: os.mknod('probe', 0o20666, os.makedev(1, 1)))", None),
    "the node's memory": ("opens('/dev/mem') or opens('/dev/kmem') or opens('/proc/kcore')", None),
    "the node's disks": ("any(opens('/dev/' + n) for n in ('vda', 'sda', 'nvme0n1', 'loop0', 'loop-control'))", None),
    "fuse": ("opens('/dev/fuse', os.O_RDWR)", None),
    "kvm": ("opens('/dev/kvm', os.O_RDWR)", None),
    "tunnels": ("opens('/dev/net/tun', os.O_RDWR)", None),
    "a device that was not granted": ("any(n.startswith(('nvidia', 'kfd', 'dri')) for n in os.listdir('/dev'))", None),
    "write to kernel settings": ("opens('/proc/sys/kernel/core_pattern', os.O_WRONLY)", None),
    "write to sysrq": ("opens('/proc/sysrq-trigger', os.O_WRONLY)", None),
    # The guard.
    "replace the OpenCL driver list": ("opens('/etc/OpenCL/vendors/mine.icd', os.O_CREAT | os.O_WRONLY)", None),
    "see another OpenCL driver": ("any(n != 'tranche.icd' for n in os.listdir('/etc/OpenCL/vendors'))", None),
    "change the preload": ("opens('/etc/ld.so.preload', os.O_WRONLY)", None),
}


def probe_program(names):
    lines = [PRELUDE]
    for number, name in enumerate(names):
        # Each in a process of its own: what one breaks must not make the next look refused.
        lines.append(f"pid = os.fork()\nif pid == 0:\n    try:\n        result = bool({PROBES[name][0]})\n"
                     f"    except Exception as error:\n        result = False\n"
                     f"    os._exit(77 if result else 78)\n_, status = os.waitpid(pid, 0)\n"
                     f"print({number}, os.waitstatus_to_exitcode(status), flush=True)\n")
    return "".join(lines)


def results(text, names):
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[0].isdigit() and int(words[0]) < len(names):
            found[names[int(words[0])]] = int(words[1])
    return found


def run_probes(of=Own, *more):
    global controls
    listener = socket.create_server(("127.0.0.1", 0))
    named = socket.socket(socket.AF_UNIX)
    name = f"tranche-probe-{os.getpid()}"
    named.bind("\0" + name)
    named.listen()
    values = {"PROBE_PORT": str(listener.getsockname()[1]), "PROBE_NAME": name, "PROBE_PID": str(os.getpid()),
              "PROBE_DATA": str(of.data)}
    names = list(PROBES)
    end = sandbox("true", of=of)  # Makes the folders that one of the probes looks for.
    check(f"a sandbox can be had: {of.__name__}", end.returncode == 0, end.stderr)
    if os.geteuid() == 0 and of is Own and not more:
        outside_names = [n for n in names if PROBES[n][1]]
        outside = subprocess.run([sys.executable, "-c", probe_program(outside_names)], env={**os.environ, **values},
                                 text=True, stdout=subprocess.PIPE, timeout=120, cwd=folder)
        got = results(outside.stdout, outside_names)
        for probe in outside_names:
            controls += 1
            check(f"outside, the probe can succeed: {probe}", got.get(probe) == 77, got.get(probe))
    options = [word for key, value in values.items() for word in ("--env", f"{key}={value}")]
    inside = sandbox("exec python3 - <<'PROBES'\n" + probe_program(names) + "\nPROBES", *options, *more, of=of)
    got = results(inside.stdout, names)
    check("every probe ran inside", len(got) == len(names), inside.stderr[-500:])
    for probe in names:
        # 78: refused. A negative code: the kernel ended the process that tried.
        check(f"refused inside ({of.__name__}): {probe}", got.get(probe) is not None and got[probe] != 77, got.get(probe))


def run_in_what_another_left():
    """What a job of the same tenant used before is taken over only if nothing of it can be seen."""
    look = "readlink /proc/self/ns/net; ls /dev/shm /tmp /work | grep -c left"
    end = sandbox(look, "--before", "readlink /proc/self/ns/net; touch /dev/shm/left /tmp/left /work/left")
    first, second, left = end.stdout.split()
    check("a network that nobody used goes to the tenant's next job", first == second, end.stdout)
    check("nothing else does", left == "0", end.stdout)
    spoil = "import socket; s = socket.create_server(('127.0.0.1', 29500)); c = socket.create_connection(s.getsockname()); " \
            "a, _ = s.accept(); a.close(); c.close()"
    end = sandbox("readlink /proc/self/ns/net; python3 -c \"import socket; socket.socket().bind(('127.0.0.1', 29500))\"",
                  "--before", f"readlink /proc/self/ns/net; python3 -c \"{spoil}\"")
    first, second = end.stdout.split()
    check("one whose connections linger does not", first != second, end.stdout)
    check("and the next job finds every port free", end.returncode == 0, end.stderr)
    run_probes(Own, "--before", "true")


def run_in_images():
    """A job with an image, started by the agent itself and through a container runtime: the same list."""
    images = folder / "images"
    whole = images / "whole"
    (whole / "usr").mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (whole / name).symlink_to(f"usr/{name}")
    shutil.copytree("/etc", whole / "etc", symlinks=True, ignore=lambda place, names: [
        name for name in names if place == "/etc" and name not in ("ld.so.cache", "python3", "alternatives")])
    subprocess.run(["mount", "--bind", "/usr", whole / "usr"], check=True)
    null = os.stat("/dev/null")
    try:
        for runtime in ("none", "auto") if shutil.which("crun") else ("none",):
            chosen = ("--images", images, "--image", "whole", "--image-runtime", runtime)
            end = sandbox("tr '\\0' ' ' < /proc/2/cmdline; cat /proc/self/uid_map; id -u; exit 5", *chosen)
            check(f"image ({runtime}): the one who was to start it did", ("crun" in end.stdout) == (runtime == "auto"),
                  end.stdout + end.stderr)
            check(f"image ({runtime}): its user is the job's, and its code comes back", end.stdout.split()[-1:] == ["1000"] and
                  end.returncode == 5, end.stdout + end.stderr)
            run_probes(Own, *chosen)
            end = sandbox("(sleep 600 &) ; sleep 600", *chosen, "--time", "500ms")
            check(f"image ({runtime}): ended at its limit", "time limit" in end.stderr, end.stderr)
            end = sandbox("python3 -c 'x = bytearray(600 << 20)'; echo survived $?", *chosen, "--memory", "96MiB")
            check(f"image ({runtime}): held to its memory", "more memory than granted" in end.stderr or
                  "survived 137" in end.stdout or "MemoryError" in end.stderr, end.stderr + end.stdout)
    finally:
        subprocess.run(["umount", whole / "usr"], check=True)
    check("image: the node's own files keep their owners", (null.st_uid, null.st_gid) ==
          (os.stat("/dev/null").st_uid, os.stat("/dev/null").st_gid))
    check("image: nothing runs on", subprocess.run(["pgrep", "-f", f"crun.*{folder}"], stdout=subprocess.PIPE,
                                                   check=False).stdout == b"")


def run_group_limits():
    """Those that need rights to control groups."""
    end = sandbox("python3 -c 'x = bytearray(600 << 20)'; echo survived $?", "--memory", "96MiB")
    check("memory: the kernel ended it, and the reason is named", "more memory than granted" in end.stderr or
          "survived 137" in end.stdout or "MemoryError" in end.stderr, end.stderr + end.stdout)
    end = sandbox("i=0; while [ $i -lt 64 ]; do sleep 60 & i=$((i+1)); done; echo all started", "--processes", "24")
    check("processes: a fork bomb meets its limit", "all started" not in end.stdout, end.stdout)


def run_limits(of=Own):
    def sandbox(*words):  # pylint: disable=redefined-outer-name
        return globals()["sandbox"](*words, of=of)

    end = sandbox("i=0; while :; do head -c 1048576 /dev/zero > f$i; i=$((i+1)); done", "--disk", "20MiB")
    check("disk: the quota ends it, and says so", "more scratch was used" in end.stderr, end.stderr[-400:])
    end = sandbox("i=0; while :; do : > f$i; i=$((i+1)); done", "--files", "500")
    check("files: the quota of files ends it", "more scratch was used" in end.stderr, end.stderr[-400:])
    end = sandbox("head -c 8000000 /dev/zero; echo done >&2", "--logs", "1MiB")
    check("logs: cut at the quota, with a note, and the job goes on",
          len(end.stdout) == 1 << 20 and "done" in end.stderr and "was cut at its quota" in end.stderr, end.stderr[-400:])
    end = sandbox("head -c 3000000 /dev/zero | tr '\\0' x; echo done >&2", "--logs", "1MiB")
    check("logs: one line without an end is cut like any other", len(end.stdout) == 1 << 20 and "done" in end.stderr,
          end.stderr[-400:])
    end = sandbox("head -c 4000000000 /dev/zero > /dev/shm/f; stat -c %s /dev/shm/f; rm /dev/shm/f; echo after")
    check("shared memory: has an end, and the job goes on", end.stdout.endswith("after\n") and
          int(end.stdout.split()[0]) <= 1 << 30, end.stdout + end.stderr[-400:])
    end = sandbox("exec python3 -c 'import os\nheld = []\ntry:\n  while len(held) < 2000000: held.append(os.open(\"/dev/null\", 0))\n"
                  "except OSError as error: print(error.errno)'")
    check("descriptors: have an end, and the job can go on", end.stdout == "24\n", end.stdout + end.stderr[-400:])
    end = sandbox("sleep 600", "--time", "300ms")
    check("time: ended at the limit, with the reason", "time limit" in end.stderr, end.stderr)
    end = sandbox("cat made", "--setup", "echo from setup > made")
    check("setup: what it made is there for the run", end.stdout == "from setup\n", end.stdout)
    end = sandbox("echo never", "--setup", "exit 9")
    check("setup: its failure ends the job", end.returncode == 9 and "setup step" in end.stderr and
          "never" not in end.stdout, end.stderr)
    end = sandbox("exit 3")
    check("exit: the job's own code", end.returncode == 3, end.returncode)
    end = sandbox("(sleep 600 &) ; exit 0")
    check("end: what the job left running is gone, at once", end.returncode == 0)
    end = sandbox("env", "--env", "LD_PRELOAD=/work/evil.so", "--env", "SECRET=canary")
    check("environment: a preload of the job reaches the job alone", "SECRET=canary" in end.stdout and
          "could not be set up" not in end.stderr, end.stderr)
    end = sandbox("ln -s /etc/passwd link; mkdir -p a/b; chmod 000 a; ls -la /work")
    check("wipe: links and closed folders are removed too", "scratch wiped: yes" in end.stderr, end.stderr)
    check("wipe: nothing of any lease is left", list((of.data / "leases").iterdir()) == [])
    check("wipe: the link's target on the node is unharmed", pathlib.Path("/etc/passwd").stat().st_size > 0)


def run(*words):
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)


NODE, NEIGHBOUR, PUBLIC, PRIVATE = "198.51.100.1", "198.51.100.2", "203.0.113.7", "10.9.9.9"
ANSWER = ("import socket\nserver = socket.create_server(('0.0.0.0', 7000))\nprint('open', flush=True)\n"
          "while True:\n    server.accept()[0].close()")


def make_world():
    """This process moves to a network of its own, where it plays the node; beyond a wire is everybody else."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x40000000 | 0x20000) != 0:
        raise OSError(ctypes.get_errno(), "cannot make a network for the test")
    names = folder / "resolv.conf"
    names.write_text("nameserver 127.0.0.1\n")
    run("mount", "--make-rprivate", "/")
    run("mount", "--bind", names, os.path.realpath("/etc/resolv.conf"))
    world = subprocess.Popen(["unshare", "-n", "sh", "-c", "ip link set lo up; exec python3 -c \"$0\"", ANSWER],
                             stdout=subprocess.PIPE, text=True)
    world.stdout.readline()
    inside = ("nsenter", "-n", "-t", world.pid, "ip")
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", world.pid)
    run("ip", "addr", "add", NODE + "/30", "dev", "wire")
    run("ip", "addr", "add", "fd00:7::1/64", "dev", "wire", "nodad")
    run("ip", "link", "set", "wire", "up")
    run(*inside, "addr", "add", NEIGHBOUR + "/30", "dev", "wire")
    run(*inside, "link", "set", "wire", "up")
    for address in (PUBLIC, PRIVATE):
        run(*inside, "addr", "add", address + "/32", "dev", "lo")
        run("ip", "route", "add", address, "via", NEIGHBOUR)
    return world


def answer_names():
    """A name server on the node's loopback, where many distributions have one."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))

    def serve():
        while True:
            question, asker = server.recvfrom(512)
            end = question.index(b"\0", 12) + 5
            known = question[end - 4:end - 2] == b"\0\1"  # An address of the old kind.
            answer = b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4" + socket.inet_aton(PUBLIC) if known else b""
            server.sendto(question[:2] + b"\x81\x80\0\1" + (b"\0\1" if known else b"\0\0") + b"\0\0\0\0" +
                          question[12:end] + answer, asker)
    threading.Thread(target=serve, daemon=True).start()


def reaches(address, port, timeout=3):
    try:
        socket.create_connection((address, port), timeout).close()
        return True
    except OSError:
        return False


def carriers():
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"slirp4netns" in (entry / "cmdline").read_bytes() and \
                    os.readlink(entry / "ns/net") == os.readlink("/proc/self/ns/net"):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def run_networks():
    """A job with a network of its own reaches the world, and neither the node, nor its neighbours, nor other jobs."""
    global controls
    if os.geteuid() != 0 or not shutil.which("slirp4netns") or not shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin"):
        print("skipped: networks of jobs need root, slirp4netns and nft")
        return
    world = make_world()
    answer_names()
    listener = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    port = listener.getsockname()[1]
    private = ("--job-network", "private")
    try_it = ("import socket, sys\ndef reaches(address, port, device=None):\n    s = socket.socket(socket.AF_INET6 if ':' in "
              "address else socket.AF_INET)\n    s.settimeout(3)\n    try:\n        if device: "
              "s.setsockopt(socket.SOL_SOCKET, 25, device)\n        s.connect((address, port)); return True\n"
              "    except OSError: return False\n")
    # What is asked inside, and where the same door is seen from the node.
    doors = {"the node's loopback through the gateway": (f"('10.0.2.2', {port})", ("127.0.0.1", port)),
             "the node's loopback through the name server": (f"('10.0.2.3', {port})", ("127.0.0.1", port)),
             "the node by its own address": (f"('{NODE}', {port})", (NODE, port)),
             "the node by its address, around the routes": (f"('{NODE}', {port}, b'tap0')", (NODE, port)),
             "the node by its address of the new kind": (f"('fd00:7::1', {port})", ("fd00:7::1", port)),
             "a neighbour of the node": (f"('{NEIGHBOUR}', 7000)", (NEIGHBOUR, 7000)),
             "a private network": (f"('{PRIVATE}', 7000)", (PRIVATE, 7000))}
    for door, (_, outside) in doors.items():
        controls += 1
        check(f"on the node, the door is open: {door}", reaches(*outside))
    asked = "".join(f"print('open:' if reaches{inside} else 'closed:', {door!r})\n" for door, (inside, _) in doors.items())
    wanted = f"print('world', reaches('{PUBLIC}', 7000), socket.gethostbyname('anybody.example'))\n"
    end = sandbox("exec python3 - <<'P'\n" + try_it + asked + wanted + "P", *private)
    for door in doors:
        check(f"closed to a job with a network: {door}", f"closed: {door}\n" in end.stdout, end.stdout + end.stderr)
    check("the world is open, by number and by name", f"world True {PUBLIC}" in end.stdout, end.stdout + end.stderr)
    end = sandbox("python3 - <<'P'\n" + try_it + f"print(reaches('{PUBLIC}', 7000))\nP")
    check("without asking there is no network", end.stdout == "False\n", end.stdout + end.stderr)
    end = sandbox("python3 - <<'P'\n" + try_it + f"print(reaches('{PRIVATE}', 7000), reaches('{NODE}', {port}))\nP", *private,
                  "--job-network-allow", PRIVATE + "/32", "--job-network-allow", NODE + "/32")
    check("what the operator allows is open, the node never is", end.stdout == "True False\n", end.stdout + end.stderr)
    end = sandbox("for command in 'ip route add 10.9.9.9 dev tap0' 'ip link set tap0 down' 'nft flush ruleset' "
                  "'nft list ruleset'; do /usr/sbin/$command && echo changed; done; ip -o link show tap0", *private)
    check("a job cannot change its network", "changed" not in end.stdout and "tap0" in end.stdout, end.stdout + end.stderr)
    networked_probes(private)
    two_tenants(private, try_it)
    job = begin("third", "touch /checkpoint/ready; exec sleep 600", private)
    os.kill(next(pid for pid in carriers() if is_below(pid, job.pid)), 9)
    check("a network that breaks is the node's fault, and said", "network of the job broke down" in job.communicate()[1])
    check("nothing that carries packets is left", carriers() == [], carriers())
    world.kill()


def is_below(pid, ancestor):
    while pid > 1 and pid != ancestor:
        pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return pid == ancestor


def begin(name, command, options):
    """A job that goes on beside the test, once it says that it is at work."""
    job = subprocess.Popen([build / "tranche", "agent-sandbox", "--data", folder / name, *options, command],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: job.poll() is not None or list((folder / name).glob("checkpoints/*/ready")))
    check(f"the job of {name} is at work", job.poll() is None, job.stderr.read() if job.poll() is not None else "")
    return job


def networked_probes(private):
    """The whole list again: a network opens none of the other ways out."""
    names = [n for n in PROBES if n != "an interface beside loopback" and "PROBE_" not in PROBES[n][0]]
    inside = sandbox("exec python3 - <<'PROBES'\n" + probe_program(names) + "\nPROBES", *private)
    got = results(inside.stdout, names)
    for probe in names:
        check(f"refused inside, with a network: {probe}", got.get(probe) is not None and got[probe] != 77, got.get(probe))


def wait_until(holds):
    end = time.monotonic() + 60
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    return holds()


def two_tenants(private, try_it):
    """Two jobs at the same time: one listens wherever it can, the other looks for it everywhere."""
    listen = ("exec python3 - <<'P'\nimport socket, time\nserver = socket.create_server(('', 5555))\nnamed = socket.socket("
              "socket.AF_UNIX)\nnamed.bind('\\0of-a-tenant')\nnamed.listen()\nsocket.create_connection(('10.0.2.100', 5555))\n"
              "open('/checkpoint/ready', 'w')\nserver.accept()\nserver.settimeout(600)\nserver.accept()\n"
              "open('/checkpoint/reached', 'w')\nP")
    first = begin("the first tenant", listen, private)
    look = ("found = [a for a in ['127.0.0.1', '%s', '%s'] + [f'10.0.2.{n}' for n in range(1, 255)] if reaches(a, 5555)]\n"
            "try:\n    socket.socket(socket.AF_UNIX).connect('\\0of-a-tenant'); found.append('by name')\n"
            "except OSError: pass\nprint('found', found)\n" % (NODE, NEIGHBOUR))
    end = sandbox("exec python3 - <<'P'\n" + try_it + look + "P", *private)
    check("the second tenant's job finds it nowhere", end.stdout == "found []\n", end.stdout + end.stderr)
    check("nobody reached the first", not list((folder / "the first tenant").glob("checkpoints/*/reached")))
    check("from the node itself it is not reached either", not any(reaches(a, 5555) for a in ("127.0.0.1", NODE)))
    supervisor = int(pathlib.Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()[0])
    os.kill(supervisor, 9)
    first.wait()
    check("with its supervisor the job's network ends", wait_until(lambda: carriers() == []), carriers())


run_probes()
if os.geteuid() == 0:
    run_in_what_another_left()
    run_in_images()
run_group_limits()
run_limits()
if os.geteuid() == 0 and shutil.which("bwrap"):
    Ordinary.prepare()
    run_probes(Ordinary)
    run_limits(Ordinary)
else:
    print("skipped: the sandbox of an ordinary user needs root, to become one, and bubblewrap")
run_networks()
print(f"{len(PROBES)} probes, {controls} of them shown to succeed outside")
print(f"{passed} passed, {failed} failed")
scratch.cleanup()
sys.exit(bool(failed))
