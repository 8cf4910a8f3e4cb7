#!/usr/bin/env python3
"""Runs ctest in a build folder and closes with one line of counts.

A doctest binary counts by its cases, a script by its own closing line `N passed, N failed[, N skipped]`,
anything else as one. A case that prints `[skipped] why` counts as skipped, not as passed.
"""
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

DOCTEST = re.compile(r"\[doctest\] test cases:\s+\d+ \|\s+(\d+) passed \|\s+(\d+) failed \|")
PLAIN = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.M)
SKIPPED = re.compile(r"^\[skipped\] .*$", re.M)


def count(case):
    out = case.findtext("system-out") or ""
    if case.get("status") in ("notrun", "disabled"):
        return 0, 0, 1
    passed, failed, skipped = 0, 0, len(SKIPPED.findall(out))
    summaries = DOCTEST.findall(out)
    plain = PLAIN.findall(out)
    if summaries:
        passed, failed = (sum(int(row[i]) for row in summaries) for i in (0, 1))
        passed -= skipped
    elif plain:
        passed, failed, skipped = (int(value or 0) for value in plain[-1])
    elif not skipped:
        passed = 1
    if case.get("status") == "fail" and failed == 0:
        failed = 1  # It crashed, timed out, or a sanitizer spoke after the cases had passed.
    return passed, failed, skipped


def main():
    build, arguments = Path(sys.argv[1]).resolve(), sys.argv[2:]
    report = build / "tests.xml"
    # What was freed is kept apart for long enough to be caught, and not for so long that most memory is touched only once.
    os.environ.setdefault("ASAN_OPTIONS", "quarantine_size_mb=16:malloc_context_size=10")
    at_once = (os.cpu_count() or 1) + 4  # Many wait more than they work.
    run = subprocess.run(["ctest", "--test-dir", build, "--parallel", str(at_once), "--output-on-failure", "--output-junit", report,
                          "--test-output-size-passed", "1000000", "--test-output-size-failed", "1000000",
                          "--no-tests=error", *arguments], check=False)
    totals = [sum(column) for column in zip(*(count(case) for case in xml.parse(report).iter("testcase")))]
    passed, failed, skipped = totals or (0, 0, 0)
    if run.returncode and not failed:
        failed = 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed or not passed else 0


sys.exit(main())
