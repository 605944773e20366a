#!/usr/bin/env python3
"""Compares the instructions that the library executes under fixed workloads with
instructions.golden: one line a workload, in thousands. A count within 1 % passes.

It is the gate against slow regressions: instruction counts repeat, times do not.
Only instructions of the library itself count, so neither libc's version nor the
workload's compiler matters. With one thread, a fixed number of operations and a
clock that stands still (frozen_clock.c) nothing is left to chance.

Usage: instructions.py LIBRARY WORKLOADS-DIRECTORY GOLDEN [--update]

SPDX-License-Identifier: MIT
"""
import os
import pathlib
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import callgrind

TOLERANCE = 0.01
WORKLOADS = [
    "random_mixed --slots 256 --ops 300000",
    "random_mixed --slots 8192 --ops 300000",
    "random_mixed --slots 4096 --min 16 --max 32768 --ops 200000",
    "tiny_hot --order lifo --size 64 --batch 100 --ops 300000",
    "tiny_hot --order fifo --size 256 --batch 500 --ops 300000",
    "tiny_hot --order interleave --size 1024 --batch 2000 --ops 300000",
    "pairs --family mid_large --ops 200000",
    "pairs --family mid_large --batch 32 --ops 200000",
    "pairs --family large --batch 8 --ops 100000",
    "comprehensive --ops 300000",
    "pareto --ops 200000",
    "larson --threads 1 --ops 200000",
    "fragmentation --live 4M",
    "scenarios --scenario json --ops 100000",
    "scenarios --scenario mir --ops 100000",
    "scenarios --scenario vm --ops 100000",
    "scenarios --scenario mixed --ops 100000",
    "objects --scenario string_builder --ops 100000",
    "objects --scenario token_stream --ops 100000",
    "objects --scenario small_objects --ops 100000",
    "realloc_growth --mode vector --ops 5000",
    "realloc_growth --mode string --ops 100000",
    "calloc_large --min 1G --max 1G --slots 1 --ops 10",
]


def count(clock, library, directory, workload):
    program, *arguments = workload.split()
    printed, profile = callgrind.profile([directory / program, *arguments], f"{clock}:{library}")
    if f"malloc_from={library}" not in printed.split():
        sys.exit(f"{workload}: another allocator served it\n{printed}")
    return callgrind.instructions_of(profile, library)


def main():
    library, directory, golden = (pathlib.Path(argument) for argument in sys.argv[1:4])
    library = str(library.resolve())
    callgrind.need("valgrind")
    with tempfile.TemporaryDirectory(prefix="hak-clock-") as scratch, ThreadPoolExecutor(os.cpu_count()) as pool:
        clock = callgrind.frozen_clock(scratch)
        counts = dict(zip(WORKLOADS, pool.map(lambda workload: count(clock, library, directory, workload), WORKLOADS)))
    if "--update" in sys.argv:
        golden.write_text("".join(f"{total:>12,}  {workload}\n" for workload, total in counts.items()))
    expected = {}
    for line in golden.read_text().splitlines():
        total, workload = line.strip().split(None, 1)
        expected[workload] = int(total.replace(",", ""))
    wrong = [f"{workload}: not in {golden.name}" for workload in counts.keys() - expected.keys()]
    wrong += [f"{workload}: in {golden.name}, but not run" for workload in expected.keys() - counts.keys()]
    for workload, total in counts.items():
        was = expected.get(workload, total)
        change = total / was - 1
        print(f"{total:>12,}  {change:+7.2%}  {workload}")
        if abs(change) > TOLERANCE:
            wrong.append(f"{workload}: {was:,} instructions expected, {total:,} executed ({change:+.2%})")
    if wrong:
        sys.exit("\n".join([*wrong, "If the change is meant, --update writes the new counts for review."]))


if __name__ == "__main__":
    main()
