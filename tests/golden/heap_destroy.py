#!/usr/bin/env python3
"""Destroying a heap of 1 GiB takes less than a millisecond beyond what the system takes, whatever lies in it: it is
counted in instructions and in calls to the system, as times do not repeat.

Usage: heap_destroy.py PROGRAM, that of heap_destroy.c

SPDX-License-Identifier: MIT
"""
import re
import sys

import callgrind

# A processor that does two in a nanosecond takes a millisecond for them.
MOST_INSTRUCTIONS = 2_000_000
# What is not kept of 512 SuperSlabs goes back, each with its two bitmaps.
MOST_CALLS = 4 * 512
SIZES = 1024, 65536, 300000, 8 << 20  # slabs of small blocks and of large ones, lone blocks, those with a run of their own


def main():
    callgrind.need("valgrind")
    wrong = []
    for size in SIZES:
        printed, profile = callgrind.profile([sys.argv[1], size], options=["--toggle-collect=hak_heap_destroy"])
        instructions = int(re.search(r"^(?:summary|totals): (\d+)", profile, re.MULTILINE)[1])
        calls = int(printed)
        said = f"blocks of {size}: {instructions:,} instructions, {calls} calls to the system"
        print(said)
        # A count of something else would be smaller: 16 384 units have a word each.
        if not 16384 <= instructions <= MOST_INSTRUCTIONS or calls > MOST_CALLS:
            wrong.append(said)
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
