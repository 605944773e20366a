"""Runs a Python and a Perl program under glibc's malloc and under hakmem, proves
that hakmem served the second, and prints what each run took.

The order of the runs alternates, and of the rounds the fastest counts: what
else the machine does can only slow a run down.

SPDX-License-Identifier: MIT
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent


class Run(NamedTuple):
    seconds: float
    peak_bytes: int
    faults: int
    output: bytes
    stats: dict  # hakmem's own counters at the end of the run; empty under another allocator


def programs():
    perl = shutil.which("perl")
    if perl is None:
        sys.exit("The demo needs perl, which is not installed: `scripts/deps demo` installs it.")
    return {"python": [sys.executable, str(HERE / "workload.py")], "perl": [perl, str(HERE / "workload.pl")]}


def run(command, library, scratch):
    env = {name: value for name, value in os.environ.items()
           if name != "LD_PRELOAD" and not name.startswith(("HAKMEM_", "MALLOC_", "PYTHON", "PERL"))}
    # Python keeps pools of its own for small objects unless told otherwise: in
    # both runs every object is a malloc. And the same hashes in both.
    env.update(PYTHONMALLOC="malloc", PYTHONHASHSEED="0", PERL_HASH_SEED="0")
    stats_file = pathlib.Path(scratch, "stats.json")
    stats_file.unlink(missing_ok=True)
    if library:
        env.update(LD_PRELOAD=str(library), HAKMEM_STATS_FILE=str(stats_file))

    with open(pathlib.Path(scratch, "output"), "w+b") as output:
        begin = time.monotonic()
        process = subprocess.Popen(command, env=env, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"{' '.join(command)} failed under {'hakmem' if library else 'glibc'}: "
                     f"exit status {process.returncode}")
        output.seek(0)
        stats = json.loads(stats_file.read_text()) if stats_file.exists() else {}
        return Run(seconds, usage.ru_maxrss * 1024, usage.ru_minflt, output.read(), stats)


def table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        # Names to the left, figures to the right.
        print("  ".join(cell.ljust(width) if column < 2 else cell.rjust(width)
                        for column, (cell, width) in enumerate(zip(row, widths))))
        if number == 0:
            print("  ".join("-" * width for width in widths))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--lib", required=True, help="path of libhakmem.so")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each program under each allocator (default 2)")
    options = parser.parse_args()
    library = pathlib.Path(options.lib).resolve()
    if not library.is_file():
        sys.exit(f"There is no {options.lib}: `make` builds it.")

    runs = {}
    with tempfile.TemporaryDirectory(prefix="hakmem-demo-") as scratch:
        for number in range(options.rounds):
            for program, command in programs().items():
                for allocator in ("glibc", "hakmem") if number % 2 == 0 else ("hakmem", "glibc"):
                    print(f"round {number + 1} of {options.rounds}: {program} under {allocator} ...",
                          file=sys.stderr, flush=True)
                    made = run(command, library if allocator == "hakmem" else None, scratch)
                    runs.setdefault((program, allocator), []).append(made)

    faults = []
    rows = [("program", "allocator", "time", "peak memory", "page faults", "same output")]
    for (program, allocator), all_runs in sorted(runs.items(), key=lambda item: (item[0][0] != "python", item[0][1])):
        best = min(all_runs, key=lambda one: one.seconds)
        reference = runs[program, "glibc"][0].output
        same = all(one.output == reference for one in all_runs)
        if not same:
            faults.append(f"{program} gives another output under {allocator}.")
        rows.append((program, allocator, f"{best.seconds:.2f} s", f"{best.peak_bytes / 2**20:.1f} MiB",
                     f"{best.faults:,}", "yes" if same else "NO"))
    print()
    table(rows)

    print(f"\nThe fastest of {options.rounds} interleaved runs each. PYTHONMALLOC=malloc in all: each object is a malloc.")
    for (program, allocator), all_runs in runs.items():
        if allocator != "hakmem":
            continue
        if not all(one.stats.get("refills", 0) > 0 for one in all_runs):
            faults.append(f"hakmem did not serve {program}: its counters show no refill.")
        else:
            stats = all_runs[0].stats
            print(f"hakmem served {program}: its own counters say {stats['refills']:,} refills and "
                  f"{stats['flushes']:,} flushes of magazines, {stats['slab_count']:,} slabs at the end.")
    for fault in faults:
        print(f"FAILED: {fault}", file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
