#!/usr/bin/env python3
"""The sandbox of jobs, attacked from inside. A probe is a small program that tries one way out and prints what it got:
each must be refused inside. Where the machine allows it, the same probe runs outside first and must succeed there, so
that a probe which can never succeed is not counted as a defence."""
import ctypes  # noqa: F401  (the probes use it; here it shows that the machine has it)
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap

root = pathlib.Path(__file__).resolve().parent.parent
build = pathlib.Path(os.environ.get("TRANCHE_BUILD_DIR", root / "build/dev"))
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


def sandbox(command, *options, timeout=120):
    return subprocess.run([build / "tranche", "agent-sandbox", "--data", folder / "data", *options, command],
                          text=True, errors="replace", timeout=timeout, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


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


def run_probes():
    global controls
    import socket
    listener = socket.create_server(("127.0.0.1", 0))
    named = socket.socket(socket.AF_UNIX)
    name = f"tranche-probe-{os.getpid()}"
    named.bind("\0" + name)
    named.listen()
    (folder / "data").mkdir(exist_ok=True)
    values = {"PROBE_PORT": str(listener.getsockname()[1]), "PROBE_NAME": name, "PROBE_PID": str(os.getpid()),
              "PROBE_DATA": str(folder / "data")}
    names = list(PROBES)
    sandbox("true")  # Makes the folders that one of the probes looks for.
    if os.geteuid() == 0:
        outside_names = [n for n in names if PROBES[n][1]]
        outside = subprocess.run([sys.executable, "-c", probe_program(outside_names)], env={**os.environ, **values},
                                 text=True, stdout=subprocess.PIPE, timeout=120, cwd=folder)
        got = results(outside.stdout, outside_names)
        for probe in outside_names:
            controls += 1
            check(f"outside, the probe can succeed: {probe}", got.get(probe) == 77, got.get(probe))
    options = [word for key, value in values.items() for word in ("--env", f"{key}={value}")]
    inside = sandbox("exec python3 - <<'PROBES'\n" + probe_program(names) + "\nPROBES", *options)
    got = results(inside.stdout, names)
    check("every probe ran inside", len(got) == len(names), inside.stderr[-500:])
    for probe in names:
        # 78: refused. A negative code: the kernel ended the process that tried.
        check(f"refused inside: {probe}", got.get(probe) is not None and got[probe] != 77, got.get(probe))


def run_limits():
    end = sandbox("python3 -c 'x = bytearray(600 << 20)'; echo survived $?", "--memory", "96MiB")
    check("memory: the kernel ended it, and the reason is named", "more memory than granted" in end.stderr or
          "survived 137" in end.stdout or "MemoryError" in end.stderr, end.stderr + end.stdout)
    end = sandbox("i=0; while [ $i -lt 64 ]; do sleep 60 & i=$((i+1)); done; echo all started", "--processes", "24")
    check("processes: a fork bomb meets its limit", "all started" not in end.stdout, end.stdout)
    end = sandbox("i=0; while :; do head -c 1048576 /dev/zero > f$i; i=$((i+1)); done", "--disk", "20MiB")
    check("disk: the quota ends it, and says so", "more scratch was used" in end.stderr, end.stderr[-400:])
    end = sandbox("i=0; while :; do : > f$i; i=$((i+1)); done", "--files", "500")
    check("files: the quota of files ends it", "more scratch was used" in end.stderr, end.stderr[-400:])
    end = sandbox("head -c 8000000 /dev/zero; echo done >&2", "--logs", "1MiB")
    check("logs: cut at the quota, with a note, and the job goes on",
          len(end.stdout) == 1 << 20 and "done" in end.stderr and "was cut at its quota" in end.stderr, end.stderr[-400:])
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
    check("wipe: nothing of any lease is left", list((folder / "data/leases").iterdir()) == [])
    check("wipe: the link's target on the node is unharmed", pathlib.Path("/etc/passwd").stat().st_size > 0)


run_probes()
run_limits()
print(f"{len(PROBES)} probes, {controls} of them shown to succeed outside")
print(f"{passed} passed, {failed} failed")
scratch.cleanup()
sys.exit(bool(failed))
