#!/usr/bin/env python3
"""Counts the instructions of single calls when everything goes well, those of the C library that they lead to (memset)
and the loop around them included, and compares them with calls.golden. They may not differ.

Usage: calls.py LIBRARY PROGRAM GOLDEN [--update], PROGRAM being that of calls.cc
       calls.py PROGRAM --table NAME=LIBRARY...   the table of docs/performance.md; glibc's needs no library

SPDX-License-Identifier: MIT
"""
import os
import pathlib
import re
import sys

import callgrind

CALLS = 1000


def count(program, library=None):
    """Instructions of a call, by kind. That of `nothing`, which is the loop's, is in all of them."""
    printed, profile = callgrind.profile([program], library)
    *kinds, server = printed.split()
    if library and os.path.realpath(server.removeprefix("malloc_from=")) != os.path.realpath(library):
        sys.exit(f"{library}: another allocator served it: {server}")
    # What `measured` has called, with all that came of it.
    calls, _, _ = profile.partition("\nfn=measured\n")[2].partition("\nfn=")
    found = re.findall(r"^cfn=kind_(\w+)\ncalls=1 .*\n\d+ (\d+)$", calls, re.MULTILINE)
    counts = {kind: round(int(instructions) / CALLS, 1) for kind, instructions in found}
    if set(counts) != set(kinds):
        sys.exit(f"{library}: instructions of {', '.join(counts)} only")
    return {kind: counts[kind] for kind in kinds}


def table(program, allocators):
    counts = {"glibc": count(program)} | {name: count(program, library) for name, library in allocators}
    print("| call |", " | ".join(counts), "|")
    print("|---|" + "---:|" * len(counts))
    for kind in counts["glibc"]:
        print("| " + kind.replace("_", " ") + " |", " | ".join(f"{of[kind]:.0f}" for of in counts.values()), "|")


def main():
    callgrind.need("valgrind")
    if sys.argv[2] == "--table":
        return table(sys.argv[1], [argument.split("=", 1) for argument in sys.argv[3:]])
    library, program, golden = (pathlib.Path(argument) for argument in sys.argv[1:4])
    counts = count(program, str(library.resolve()))
    if "--update" in sys.argv:
        golden.write_text("".join(f"{number:>8}  {kind}\n" for kind, number in counts.items()))
    expected = {kind: float(number) for number, kind in map(str.split, golden.read_text().splitlines())}
    for kind, number in counts.items():
        print(f"{number:>8}  {kind}")
    if counts != expected:
        sys.exit(f"expected {expected}\nIf the change is meant, --update writes the new counts for review.")


if __name__ == "__main__":
    main()
