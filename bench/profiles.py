#!/usr/bin/env python3
"""Compares the settings of HAKMEM_PROFILE: processor time and resident memory, as ratios to `balanced`.

Usage: profiles.py LIBHAKMEM.so DIRECTORY_OF_WORKLOADS [ROUNDS]

The settings take turns, so that the machine's other work meets all alike. Of each row the least
processor time counts, and the median of the mean resident memory, which is looked at every two
milliseconds. After the workloads come programs of a few MiB; the last rows are a Python program that fills 50 MB,
drops it, and does little for a while, six times.

SPDX-License-Identifier: MIT
"""
import os
import pathlib
import statistics
import subprocess
import sys
import time

SETTINGS = ["balanced", "memory", "speed"]
ROWS = [
    "random_mixed --slots 8192 --ops 2000000", "random_mixed --slots 8192 --threads 8 --ops 1000000",
    "comprehensive --ops 1000000", "pairs --family large --batch 8 --ops 10000000",
    "scenarios --scenario mixed --ops 3000000", "server_stress --threads 8 --ops 1000000",
    "fragmentation --live 32M", "memory_after_peak --total 64M", "idle_threads --threads 200", "big_churn --ops 80"]
PROGRAMS = pathlib.Path(__file__).parent / "programs"
PYTHON_ROWS = ["dicts.py 900", "objects.py 35"]
BURSTS = """
import sys, threading, time
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
for burst in range(6):
    blocks = [bytes(100 + number % 5000) for number in range(20000)]
    del blocks
    end = time.time() + float(sys.argv[1])
    while time.time() < end:
        time.sleep(0.05)
        little = [str(number) for number in range(200)]
"""
PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20


def run(command, library, setting):
    """Seconds of processor time, and the mean of resident MiB."""
    environment = dict(os.environ, LD_PRELOAD=library, HAKMEM_PROFILE=setting, PYTHONMALLOC="malloc")
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    resident = []
    pid = 0
    while pid == 0:
        pages = pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()
        resident.append(int(pages[1]) * PAGE_MIB)
        time.sleep(0.002)
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
    if status != 0:
        sys.exit(f"{' '.join(command)}: status {status}")
    return usage.ru_utime + usage.ru_stime, statistics.mean(resident)


def main():
    library, workloads = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    rows = [(row, [str(workloads / row.split()[0])] + row.split()[1:]) for row in ROWS]
    rows += [(f"python3 {row}", ["/usr/bin/python3", str(PROGRAMS / row.split()[0]), row.split()[1]]) for row in PYTHON_ROWS]
    rows += [(f"bursts, {pause} s apart", ["/usr/bin/python3", "-c", BURSTS, pause]) for pause in ("0.5", "1.5")]
    print("| row | memory: time | resident | speed: time | resident |\n|---|---:|---:|---:|---:|")
    for name, command in rows:
        results = {setting: [] for setting in SETTINGS}
        for _ in range(rounds):
            for setting in SETTINGS:
                results[setting].append(run(command, library, setting))
        seconds = {s: min(result[0] for result in results[s]) for s in SETTINGS}
        mib = {s: statistics.median(result[1] for result in results[s]) for s in SETTINGS}
        cells = [f"{seconds[s] / seconds['balanced']:.2f} | {mib[s] / mib['balanced']:.2f}" for s in SETTINGS[1:]]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
