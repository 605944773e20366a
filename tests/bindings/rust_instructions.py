#!/usr/bin/env python3
"""Allocating through the crate costs what it costs in C, in instructions, which repeat.

A call of hak_malloc and hak_free in a Rust program takes what tests/golden/fast_path.golden has; all of the
work below them, refills and flushes too, no more than tests/golden/instructions.golden has for the same work of
a C program, where the start and the end of the process count as well; and Rust adds next to nothing.

Usage: rust_instructions.py PROGRAM GOLDEN-DIRECTORY, PROGRAM being that of tests/bindings/rust_user

SPDX-License-Identifier: MIT
"""
import collections
import pathlib
import re
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parent.parent / "golden"))
import callgrind  # noqa: E402

WORKLOADS = {  # the arguments that the program has for those of the golden file
    "64 100 300000 lifo": "tiny_hot --order lifo --size 64 --batch 100 --ops 300000",
    "256 500 300000 fifo": "tiny_hot --order fifo --size 256 --batch 500 --ops 300000",
}
FUNCTIONS = "hak_malloc", "hak_free"
TOLERANCE = 0.005  # calls that go on to the slow path leave the fast one early
LEAST_SHARE = 0.85  # of what the C program takes: a count of something else would be smaller
MOST_OF_RUST = 3  # a call; the test of the alignment and a jump where they are not inlined


def counts(profile):
    """Instructions in each of FUNCTIONS, calls of each, the instructions below them all, and those of the functions
    under whose names Rust calls its allocator. The line after `calls=` is the cost of what was called."""
    own, calls = collections.Counter(), collections.Counter()
    below = of_rust = 0
    function, callee = "", None
    for line in profile.splitlines():
        key, _, value = line.partition("=")
        if key == "fn":
            function = value
        elif key == "cfn":
            callee = value
        elif key == "calls":
            calls[callee] += int(value.split()[0])
        elif line and line[0] in "0123456789+-*":
            cost = int(line.split()[-1])
            if callee is None:
                own[function] += cost
                of_rust += cost if "__rust_" in function else 0
            elif callee in FUNCTIONS:
                below += cost
            callee = None
    return own, calls, below, of_rust


def main():
    program, golden = (pathlib.Path(argument) for argument in sys.argv[1:])
    callgrind.need("valgrind")
    of_c = {workload: int(total.replace(",", "")) for total, workload in
            (line.strip().split(None, 1) for line in (golden / "instructions.golden").read_text().splitlines())}
    fast = {name: int(length) for name, length in
            re.findall(r"^(\w+): (\d+) of", (golden / "fast_path.golden").read_text(), re.MULTILINE)}
    wrong = []
    with tempfile.TemporaryDirectory(prefix="hak-clock-") as scratch:
        clock = callgrind.frozen_clock(scratch)
        for workload, in_c in WORKLOADS.items():
            own, calls, below, of_rust = counts(callgrind.profile([program, *workload.split()], clock)[1])
            for name in FUNCTIONS:
                each = own[name] / max(calls[name], 1)
                print(f"{workload}: {name} takes {each:.2f} instructions a call, {fast[name]} in C")
                if abs(each / fast[name] - 1) > TOLERANCE:
                    wrong.append(f"{workload}: {name} takes {each:.2f} instructions a call, {fast[name]} in C")
            print(f"{workload}: {below:,} below them, {of_c[in_c]:,} in the whole C program")
            if not LEAST_SHARE <= below / of_c[in_c] <= 1:
                wrong.append(f"{workload}: {below:,} instructions below {FUNCTIONS}, {of_c[in_c]:,} in C")
            of_rust /= max(sum(calls[name] for name in FUNCTIONS), 1)
            print(f"{workload}: {of_rust:.2f} a call in Rust's own functions")
            if of_rust > MOST_OF_RUST:
                wrong.append(f"{workload}: Rust's own functions take {of_rust:.1f} instructions a call")
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
