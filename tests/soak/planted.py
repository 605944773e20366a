#!/usr/bin/env python3
"""Proves that the soak's checks can fail: plants trouble in a server and demands
that exactly the named checks are red.

    planted.py --library FILE --threads-program FILE TROUBLE SERVER CHECK...

SPDX-License-Identifier: MIT
"""
import argparse
import pathlib
import re
import subprocess
import sys

FALLS = "resident size falls after the load"
SKIPPED = 77


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--threads-program", required=True)
    parser.add_argument("trouble")
    parser.add_argument("server")
    parser.add_argument("checks", nargs="+")
    options = parser.parse_args()
    # A server that does not give memory back is looked at to the end: of a right one it would be seen by then.
    looks = ["--looks", "20"] if FALLS in options.checks else []
    result = subprocess.run(
        [sys.executable, pathlib.Path(__file__).with_name("run.py"), "--library", options.library, "--threads-program",
         options.threads_program, "--steps", "60", "--seed", "3", "--servers", options.server, "--plant",
         options.trouble, *looks], stdout=subprocess.PIPE, text=True, check=False)
    print(result.stdout)
    if result.returncode == SKIPPED:
        return SKIPPED
    red = set(re.findall(rf"(?m)^FAILED {options.server}: (.*?): ", result.stdout))
    wanted = set(options.checks)
    if red != wanted or result.returncode != 1 or f", {len(wanted)} failed" not in result.stdout.splitlines()[-1]:
        print(f"planted {options.trouble}: {sorted(red)} failed instead of {sorted(wanted)}, "
              f"status {result.returncode}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
