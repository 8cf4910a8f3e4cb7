#!/usr/bin/env python3
"""Compares the stand-in's declarations with a CUDA toolkit's header, where one is installed: every signature, and
the size and field offsets of every structure. Prints `N passed, N failed, N skipped`."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).parent
toolkit = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"


def preprocessed(header, *flags):
    text = subprocess.run(["gcc", "-E", "-P", "-x", "c", *flags, str(header)], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    return re.sub(r"__attribute__\s*\(\(.*?\)\)", "", text)


def plain(kind):
    kind = re.sub(r"_v\d\b", "", kind.strip())
    array = re.search(r"\[\d*\]$", kind)
    kind = re.sub(r"\[\d*\]$", "", kind)
    named = re.match(r"^(.*[\s*])(\w+)$", kind)
    if named and named[2] not in {"int", "char", "short", "long"} and re.search(r"\w", named[1].replace("const", "")) \
            and named[1].strip() not in {"unsigned", "const"}:
        kind = named[1]
    return re.sub(r"\s+", "", kind + ("*" if array else "")).replace("unsignedlonglong", "u64").replace("size_t", "u64")


def signatures(text):
    found = {}
    for name, parameters in re.findall(r"CUresult\s+(cu\w+)\s*\(([^;{}]*?)\)\s*;", text, re.S):
        found.setdefault(name, [plain(p) for p in parameters.replace("CUdeviceptr_v1", "CUdeviceptr").split(",")])
    return found


def layout_program(header, layouts):
    lines = ["#include <stdio.h>", "#include <stddef.h>", f"#include \"{header}\"", "int main(void) {"]
    for name, fields in layouts.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        lines += [f'printf("{name}.{f} %zu\\n", offsetof({name}, {f}));' for f in fields]
    return "\n".join([*lines, "return 0; }"])


def run_layout(header, layouts, include):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "layout.c"
        source.write_text(layout_program(header, layouts))
        program = pathlib.Path(folder) / "layout"
        subprocess.run(["gcc", "-w", f"-I{include}", str(source), "-o", str(program)], check=True)
        return subprocess.run([str(program)], check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()


def main():
    if not (toolkit / "cuda.h").exists():
        print("[skipped] no CUDA toolkit header here")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    own = signatures(preprocessed(here / "standin_cuda.h"))
    theirs = signatures(preprocessed(toolkit / "cuda.h", "-D__CUDA_API_VERSION_INTERNAL"))
    wrong = [f"{name}: ours {own[name]}, theirs {theirs.get(name)}" for name in own
             if name in theirs and own[name] != theirs[name]]
    wrong += [f"{name}: not in the toolkit's header" for name in own if name not in theirs]
    layouts = {}
    for body, name in re.findall(r"typedef struct \w+ \{([^{}]*)\} (CU\w+);", (here / "standin_cuda.h").read_text()):
        names = [re.sub(r"[*\s]|\[.*", "", part.split()[-1]) for line in body.split(";") if line.strip()
                 for part in line.split(",")]
        layouts[name] = [n for n in names if not re.search(r"reserved|pad|sizeof", n)]
    pairs = zip(run_layout("standin_cuda.h", layouts, here), run_layout("cuda.h", layouts, toolkit))
    compared = 0
    for ours, real in pairs:
        compared += 1
        if ours != real:
            wrong.append(f"layout: ours {ours}, theirs {real}")
    for line in wrong:
        print(line)
    print(f"{len(own) + compared - len(wrong)} passed, {len(wrong)} failed, 0 skipped")
    return bool(wrong)


sys.exit(main())
