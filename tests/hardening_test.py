# SPDX-License-Identifier: Apache-2.0
"""What the compiler and linker were asked for is really in what we ship, and SQL is never pasted together."""
import os
import pathlib
import re
import shlex
import subprocess
import tempfile

from tranche_platform import TRANCHE, main

BUILD = pathlib.Path(os.environ["TRANCHE_BUILD_DIR"])
SOURCE = pathlib.Path(__file__).resolve().parent.parent


def readelf(flags, file):
    return subprocess.run(["readelf", "-W", flags, file], capture_output=True, text=True, check=True).stdout


def hardened(file):
    """Read-only relocations at start, nothing both writable and executable, no place of its own to look for libraries."""
    segments = readelf("-l", file)
    assert "GNU_RELRO" in segments, f"{file} has no RELRO"
    stack = next(line for line in segments.splitlines() if "GNU_STACK" in line)
    assert " RWE" not in stack, f"{file} has an executable stack"
    writable_code = [line for line in segments.splitlines() if line.strip().startswith("LOAD") and "RWE" in line]
    assert not writable_code, f"{file} has memory that is both writable and executable"
    dynamic = readelf("-d", file)
    assert re.search(r"BIND_NOW|FLAGS.*NOW", dynamic), f"{file} binds lazily"
    assert not re.search(r"\((RPATH|TEXTREL)\)", dynamic), f"{file} has an RPATH or text relocations"


def position_independent(file):
    assert "DYN" in readelf("-h", file), f"{file} is not position independent"


def stacks_are_guarded(file):
    assert "__stack_chk_fail" in readelf("--dyn-syms", file), f"{file}: stacks are not guarded"


def what_is_built_here_is_hardened():
    """Program and guard of this build. A checked program stands at a fixed place, to start sooner: it is not shipped."""
    for file in (TRANCHE, BUILD / "libtranche-guard.so"):
        hardened(file)
    position_independent(BUILD / "libtranche-guard.so")
    stacks_are_guarded(TRANCHE)


def flags_of(command):
    """What a call of the compiler asks for, without what it reads and writes."""
    words = iter(shlex.split(command.strip(": &")))
    for word in words:
        if word in ("-o", "-MT", "-MF", "-c"):
            next(words)
        elif word.startswith("-") and not word.startswith(("-l", "-MD")):
            yield word


def the_release_is_hardened():
    """A program made with the very flags of the release preset, for compiler and linker."""
    with tempfile.TemporaryDirectory() as folder:
        run = lambda *words: subprocess.run(words, cwd=SOURCE, capture_output=True, text=True, check=True).stdout
        run("cmake", "--preset", "release", "-B", folder)
        commands = run("ninja", "-C", folder, "-t", "commands", "tranche").splitlines()
        compiling = next(line for line in commands if line.endswith("src/app/main.cpp"))
        probe = pathlib.Path(folder, "probe")
        source = probe.with_suffix(".cpp")
        source.write_text('#include <cstdio>\nint main() { char line[64]; return std::fgets(line, 64, stdin) == nullptr; }\n')
        run("c++", *flags_of(compiling), "-c", source, "-o", f"{probe}.o")
        run("c++", *flags_of(commands[-1]), f"{probe}.o", "-o", probe)
        hardened(probe)
        position_independent(probe)
        stacks_are_guarded(probe)


def sql_is_prepared():
    """Statements are literals with parameters: no value of a request is ever pasted into one."""
    pasted = re.compile(r'"[^"]*\b(select|insert|update|delete|pragma)\b[^"]*"\s*\+ (?!"|std::to_string\(k)', re.IGNORECASE)
    found = []
    for file in sorted((SOURCE / "src/journal").glob("*.cpp")):
        if file.name.endswith("_test.cpp"):
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if pasted.search(line):
                found.append(f"{file.name}:{number}: {line.strip()}")
    assert not found, "\n".join(found)


main([what_is_built_here_is_hardened, the_release_is_hardened, sql_is_prepared])
