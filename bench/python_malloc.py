#!/usr/bin/env python3
"""What PYTHONMALLOC=malloc brings or costs: three programs of Python's standard library, under glibc and hakmem.

    bench/python_malloc.py LIBRARY [ROUNDS]

Python has an allocator of its own for objects of up to 512 bytes; with PYTHONMALLOC=malloc they come from
malloc, too. The ways to run a program take turns, and what is printed are medians of processor time and of
peak memory, as shares of Python as it is under glibc, with the middle half of the rounds for the time.

SPDX-License-Identifier: MIT
"""
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile

# Preloaded, and with PYTHONMALLOC=malloc.
WAYS = {"glibc": (False, False), "glibc, malloc": (False, True),
        "hakmem": (True, False), "hakmem, malloc": (True, True)}


def programs(folder):
    """Names and commands; what they read is made in `folder`."""
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    for package in "asyncio", "email", "unittest", "xml", "concurrent", "http", "logging", "multiprocessing":
        shutil.copytree(library / package, folder / "sources" / package,
                        ignore=shutil.ignore_patterns("__pycache__", "test*"))
    numbers = random.Random(1)
    # Piece by piece: what this process has ever held would count as the others' peak.
    with open(folder / "records.json", "w", encoding="ascii") as file:
        for i in range(100_000):
            tags = [f"tag{numbers.randrange(1000)}" for _ in range(5)]
            record = {"id": i, "name": f"name {i}", "tags": tags, "x": numbers.random(), "y": numbers.random()}
            file.write(("," if i else "[") + json.dumps(record))
        file.write("]")
    return {
        "compileall": ["-m", "compileall", "-q", "-f", folder / "sources"],
        "2to3": ["-W", "ignore", "-m", "lib2to3", "-p", folder / "sources" / "http", folder / "sources" / "xml"],
        "json.tool": ["-m", "json.tool", folder / "records.json", folder / "pretty.json"],
    }


def run(command, environment):
    """Processor time in seconds, and peak resident memory in KiB."""
    process = subprocess.Popen([sys.executable, *command], env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def main():
    library = pathlib.Path(sys.argv[1]).resolve()
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 9
    base = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "PYTHONMALLOC")}
    environments = {}
    for way, (preloaded, malloc) in WAYS.items():
        extra = {"LD_PRELOAD": str(library)} if preloaded else {}
        environments[way] = base | extra | ({"PYTHONMALLOC": "malloc"} if malloc else {})
    print(f"Python {sys.version.split()[0]}, {rounds} rounds\n")
    print("| program | | processor time | middle half | peak memory |\n|---|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory(prefix="hak-python-") as folder:
        for name, command in programs(pathlib.Path(folder)).items():
            taken = {way: [] for way in environments}
            for _ in range(rounds):
                for way, environment in environments.items():
                    taken[way].append(run(command, environment))
            time, memory = (statistics.median(one[i] for one in taken["glibc"]) for i in (0, 1))
            for way, each in taken.items():
                shares = [seconds / time for seconds, _ in each]
                low, middle, high = statistics.quantiles(shares, n=4)
                peak = statistics.median(kib for _, kib in each)
                said = f"{time:.2f} s" if way == "glibc" else f"{middle:.2f}"
                held = f"{peak / 1024:.0f} MiB" if way == "glibc" else f"{peak / memory:.2f}"
                print(f"| {name} | {way} | {said} | {low:.2f} to {high:.2f} | {held} |", flush=True)


if __name__ == "__main__":
    main()
