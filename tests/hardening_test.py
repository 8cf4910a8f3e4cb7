# SPDX-License-Identifier: Apache-2.0
"""What the compiler and linker were asked for is really in what we ship, and SQL is never pasted together."""
import os
import pathlib
import re
import subprocess

from tranche_platform import TRANCHE, main

BUILD = pathlib.Path(os.environ["TRANCHE_BUILD_DIR"])
SOURCE = pathlib.Path(__file__).resolve().parent.parent


def readelf(flags, file):
    return subprocess.run(["readelf", "-W", flags, file], capture_output=True, text=True, check=True).stdout


def shipped_files_are_hardened():
    """Program and guard: position independent, read-only relocations at start, no executable stack, guarded stacks."""
    for file in (TRANCHE, BUILD / "libtranche-guard.so"):
        assert "DYN" in readelf("-h", file), f"{file} is not position independent"
        segments = readelf("-l", file)
        assert "GNU_RELRO" in segments, f"{file} has no RELRO"
        stack = next(line for line in segments.splitlines() if "GNU_STACK" in line)
        assert " RWE" not in stack, f"{file} has an executable stack"
        writable_code = [line for line in segments.splitlines() if line.strip().startswith("LOAD") and "RWE" in line]
        assert not writable_code, f"{file} has memory that is both writable and executable"
        dynamic = readelf("-d", file)
        assert re.search(r"BIND_NOW|FLAGS.*NOW", dynamic), f"{file} binds lazily"
        assert not re.search(r"\((RPATH|TEXTREL)\)", dynamic), f"{file} has an RPATH or text relocations"
    assert "__stack_chk_fail" in readelf("--dyn-syms", TRANCHE), "stacks are not guarded"


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


main([shipped_files_are_hardened, sql_is_prepared])
