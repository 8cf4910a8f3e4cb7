#!/usr/bin/env python3
"""Properties of the tree itself, run as a test: who may include whom, how long a file is, what is banned."""
import pathlib
import re
import subprocess
import sys

EVERYTHING = {"base", "wire", "net", "policy", "engine", "journal", "server", "api", "gpu", "agent", "guard",
              "providers", "sim", "cli", "gateway", "app"}
MAY_INCLUDE = {
    "base": set(),
    "wire": {"base"},
    "net": {"base", "wire"},
    "policy": {"base", "wire"},
    "engine": {"base", "wire", "policy"},
    "journal": {"base", "wire", "engine"},
    "server": {"base", "wire", "net", "policy", "engine", "journal"},
    "api": {"base", "wire", "net", "engine", "server"},
    "gateway": {"base", "wire", "net", "policy", "engine", "server"},
    "gpu": {"base", "wire"},
    "agent": {"base", "wire", "net", "gpu", "guard"},
    "guard": set(),
    "providers": {"base", "wire", "net"},
    "sim": {"base", "wire", "policy", "engine"},
    "cli": {"base", "wire", "net"},
    "app": EVERYTHING,
}
PURE = {"base", "wire", "policy", "engine"}
BANNED_IN_PURE = {
    r"_clock::now|base/wall_clock\.hpp": "take Instant from the Envelope",
    r"\bstd::(rand|random_device|mt19937)": "take Random from the Envelope",
    r"#include <(fstream|iostream|thread|mutex|filesystem|sqlite3\.h)>": "no I/O and no threads here",
}
BANNED_IN_ENGINE = {
    r"\bunordered_(map|set)\b": "iteration order is observable; use std::map or a sorted vector",
    r"\b(float|double)\b": "use Money, or integers with a named unit",
}
NETWORK_HEADERS = re.compile(r"#include <boost/(asio|beast)")
COMMAND_HEADERS = re.compile(r"#include <CLI/")
LINES_MAX, COLUMNS_MAX = 600, 120
SOURCE_SUFFIXES = {".cpp", ".hpp", ".c", ".h", ".cl"}


def tracked(root: pathlib.Path):
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, text=True, check=True,
                           stdout=subprocess.PIPE).stdout.splitlines()
    return [root / name for name in sorted(names) if (root / name).is_file()]


def source_problems(root, path, lines):
    parts = path.relative_to(root).parts
    module = parts[1] if parts[0] == "src" and len(parts) > 2 else None
    is_test = path.stem.endswith("_test") or parts[0] in {"tests", "bench"}
    if module and module not in MAY_INCLUDE:
        yield 1, f"src/{module} is not a room of the house: see docs/architecture.md"
        return
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_MAX:
            yield number, f"line over {COLUMNS_MAX} columns"
        include = re.match(r'#include "(\w+)/', line)
        if include and module and include[1] != module and include[1] not in MAY_INCLUDE[module] and not is_test:
            yield number, f"{module} may not include {include[1]}"
        if module and module != "net" and NETWORK_HEADERS.match(line):
            yield number, "only net may include Asio and Beast"
        if module and module != "cli" and COMMAND_HEADERS.match(line):
            yield number, "only cli may include CLI11: declare commands with cli/command.hpp, which compiles faster"
        code = line.split("//")[0]
        bans = {}
        if module in PURE and not is_test and path.name != "wall_clock.hpp":
            bans |= BANNED_IN_PURE
        if module == "engine" and not is_test:
            bans |= BANNED_IN_ENGINE
        for pattern, instead in bans.items():
            if re.search(pattern, code):
                yield number, f"{pattern} is banned here: {instead}"


def problems(root: pathlib.Path):
    for path in tracked(root):
        if path.suffix not in SOURCE_SUFFIXES | {".py", ".sh", ".ts", ".tsx"}:
            continue
        lines = path.read_text(errors="replace").splitlines()
        if len(lines) > LINES_MAX:
            yield path, 1, f"{len(lines)} lines, at most {LINES_MAX}: which noun wants its own file?"
        for number, line in enumerate(lines, 1):
            if line != line.rstrip():
                yield path, number, "trailing white space"
            if re.search(r"\b(FIXME|XXX)\b", line) and path.name != "tidy.py":
                yield path, number, "finish it, or file an issue"
        if path.suffix in SOURCE_SUFFIXES:
            if "SPDX-License-Identifier" not in "".join(lines[:3]) and path.name != "test_main.cpp":
                yield path, 1, "first line: // SPDX-License-Identifier: Apache-2.0"
            yield from ((path, number, text) for number, text in source_problems(root, path, lines))


top = pathlib.Path(sys.argv[1]).resolve()
found = list(problems(top))
for where, line_number, message in found:
    print(f"{where.relative_to(top)}:{line_number}: {message}")
print(f"{0 if found else 1} passed, {len(found)} failed")
sys.exit(bool(found))
