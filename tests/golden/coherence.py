#!/usr/bin/env python3
"""Counts how often a cache line goes from one thread to another for each operation of the allocator.

turns.c lets threads take turns; valgrind's lackey writes down what memory they read and write; here each thread has a
processor with a cache that nothing falls out of, kept coherent by invalidation (MSI: M. Papamarcos and J. Patel, "A
low-overhead coherence solution for multiprocessors with private cache memories", 1984). A transfer is a read of a line
that another thread has written since, or a write to a line that another one has. What a thread reads for the first time
and nobody has written while it was looked at is no transfer. Only the allocator's own memory counts, and the second half
of the rounds.

Turns are the worst case: between two of a thread every other one has had its own. So with more threads a line that all
write costs no more than one transfer a write, and the count for each operation tells whether there is such a line.

Usage: coherence.py PROGRAM GOLDEN [--update]   compares what eight threads do
       coherence.py PROGRAM --table             the table of docs/coherence.md, in a quarter of an hour

SPDX-License-Identifier: MIT
"""
import bisect
import collections
import os
import pathlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import callgrind

LINE = 64
ROUNDS = {"pairs": 4, "batches": 4, "hand_over": 8, "pass_on": 8, "large": 8, "huge": 4, "threads": 4}
TURNS = {  # what docs/coherence.md calls them
    "pairs": "`malloc` and `free` in turn, 64 bytes",
    "batches": "1024 blocks of 256 bytes, and back",
    "hand_over": "64 bytes that the next thread frees",
    "pass_on": "256 bytes that another thread frees, which allocates none",
    "large": "8 blocks of 100 to 450 KiB, and back",
    "huge": "a block of 8 MiB, and back",
    "threads": "a thread that starts, takes and frees 10 blocks, and ends",
}
SHOWN = 6  # tables and variables in a place of the table
TOLERANCE = 0.02  # transfers an operation
OUTSIDE = "on a line with the program's"


class Places:
    """What an address belongs to: a table of the allocator, or a variable of its own."""

    def __init__(self, header, program):
        self.starts, self.turn, self.ops = [], 0, 1
        for line in header.splitlines():
            word, *rest = line.split()
            if word == "place":
                self.starts.append((int(rest[1], 16), int(rest[2], 16), rest[0]))
            elif word == "turn":
                self.turn = int(rest[0], 16)
            elif word == "ops":
                self.ops = int(rest[0])
        symbols = subprocess.run(["nm", "-S", program], capture_output=True, text=True, check=True).stdout.split("\n")
        own = {"turn", "next", "done", "box", "threads", "rounds", "a_turn"}
        variables = [(int(f[0], 16), int(f[1], 16), f[3]) for f in map(str.split, symbols) if len(f) == 4 and f[2] in "bBdD"]
        base = self.turn - next(address for address, _, name in variables if name == "turn")
        self.starts += [(base + a, base + a + n, name.split(".")[0]) for a, n, name in variables if name.split(".")[0] not in own]
        self.starts.sort()
        self.keys = [start for start, _, _ in self.starts]

    def name(self, address):
        i = bisect.bisect_right(self.keys, address) - 1
        return self.starts[i][2] if i >= 0 and address < self.starts[i][1] else None


class Line:
    __slots__ = ("holders", "writer", "writers", "is_ours", "writes")

    def __init__(self, is_ours):
        self.holders, self.writer, self.writers, self.is_ours, self.writes = 0, None, set(), is_ours, collections.Counter()


def simulate(trace, places, threads, rounds, most):
    """Transfers by place, and writes to lines that several threads wrote, in the second half."""
    lines, counts = {}, False
    transfers = collections.Counter()
    who, turns, nobody = None, 0, 2 * most
    for text in trace:
        if text[0] != " " or text[1] not in "SLM":
            continue
        comma = text.index(",")
        address, size = int(text[3:comma], 16), int(text[comma + 1:])
        if text[1] == "S" and places.turn <= address <= places.turn + nobody:
            who = address - places.turn
            who = None if who == nobody else who
            turns += who is not None and who < most
            counts = turns > threads * rounds // 2
            continue
        if who is None:
            continue
        for number in range(address // LINE, (address + size - 1) // LINE + 1):
            line = lines.get(number)
            if line is None:
                line = lines[number] = Line(places.name(address) is not None)
            if not line.is_ours:
                continue
            bit = 1 << who
            if text[1] == "L":
                moved = not line.holders & bit and line.writer not in (None, who)
                line.holders |= bit
            else:
                moved = bool(line.holders & ~bit) or (not line.holders & bit and line.writer not in (None, who))
                line.holders, line.writer = bit, who
                if counts:
                    line.writers.add(who)
                    line.writes[address] += 1
            if counts and moved:
                transfers[address] += 1
    shared = collections.Counter()
    for line in lines.values():
        if len(line.writers) > 1:
            shared.update(line.writes)
    return by_name(transfers, places), by_name(shared, places)


def by_name(counts, places):
    sums = collections.Counter()
    for address, times in counts.items():
        sums[places.name(address) or OUTSIDE] += times
    return sums


def measure(program, scenario, threads):
    rounds, most = ROUNDS[scenario], 256
    with tempfile.TemporaryDirectory(prefix="hak-coherence-") as scratch:
        fifo = pathlib.Path(scratch) / "trace"
        os.mkfifo(fifo)
        out = pathlib.Path(scratch) / "out"
        with out.open("w") as header:
            child = subprocess.Popen(["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-file={fifo}", program, scenario,
                                      str(threads), str(rounds)], stdout=header)
            grep = subprocess.Popen(["grep", "-a", "^ [SLM]", fifo], stdout=subprocess.PIPE, text=True)
            first = grep.stdout.readline()
            while "\nops" not in out.read_text():
                first = grep.stdout.readline()  # nobody's turn yet
                if not first:
                    sys.exit(f"{scenario}: exit status {child.wait()}")
            places = Places(out.read_text(), program)
            transfers, shared = simulate(grep.stdout, places, threads, rounds, most)
        if child.wait() != 0 or grep.wait() != 0:
            sys.exit(f"{scenario}: exit status {child.returncode}")
    ops = places.ops * threads * (rounds - rounds // 2)
    return {n: c / ops for n, c in transfers.items()}, {n: c / ops for n, c in shared.items()}


def show(figures):
    most = sorted(figures.items(), key=lambda f: -f[1])[:SHOWN]
    return ", ".join(f"{name} {value:.2f}" for name, value in most if value >= 0.005)


def measure_all(program, counts):
    jobs = [(scenario, threads) for scenario in ROUNDS for threads in counts]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(jobs, pool.map(lambda job: measure(program, *job), jobs)))


def main():
    program = sys.argv[1]
    callgrind.need("valgrind")
    if "--table" in sys.argv:
        for (scenario, threads), (transfers, shared) in measure_all(program, (2, 16, 64, 256)).items():
            turn = TURNS[scenario] if threads == 2 else ""
            print(f"| {turn} | {threads} | {sum(transfers.values()):.2f} | {show(transfers)} | {show(shared)} |")
        return
    golden = pathlib.Path(sys.argv[2])
    now = {f"{scenario} {threads}": sum(transfers.values())
           for (scenario, threads), (transfers, _) in measure_all(program, (8,)).items()}
    if "--update" in sys.argv:
        golden.write_text("".join(f"{value:8.2f}  {name}\n" for name, value in now.items()))
    before = {name: float(value) for value, name in (line.split(None, 1) for line in golden.read_text().splitlines())}
    wrong = [f"{name}: not in both" for name in before.keys() ^ now.keys()]
    for name, value in now.items():
        print(f"{value:8.2f}  {name}")
        if abs(value - before.get(name, value)) > max(TOLERANCE, 0.05 * value):
            wrong.append(f"{name}: {before[name]:.2f} transfers an operation expected, {value:.2f} counted")
    if wrong:
        sys.exit("\n".join([*wrong, "If the change is meant, --update writes the new counts for review."]))


if __name__ == "__main__":
    main()
