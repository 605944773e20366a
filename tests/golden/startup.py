#!/usr/bin/env python3
"""Compares what the library costs a program that hardly uses it with startup.golden: instructions of the library, in
processes of a few milliseconds; calls to the system that it adds, its loading included; and pages that it and its heap
have written, as each of them is a fault. Instructions may differ by 1 %, the rest by nothing.

Left out are what other kernels do otherwise: the names of mappings (prctl), and that Linux 6.7 to 6.12 have to be
asked twice for some places (a mmap that lands elsewhere, and the munmap that undoes it).

Usage: startup.py LIBRARY PROGRAM GOLDEN [--update], PROGRAM being that of startup.c

SPDX-License-Identifier: MIT
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import callgrind
from instructions import TOLERANCE

WORKS = "nothing", "few", "shell"


def run(command, library=None):
    environment = {"PATH": os.environ["PATH"]} | ({"LD_PRELOAD": library} if library else {})
    result = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {result.returncode}\n{result.stderr}")
    return result.stdout


def instructions(program, work, library):
    _, profile = callgrind.profile([program, work], library, {"PATH": os.environ["PATH"]})
    return callgrind.instructions_of(profile, library)


def calls(program, work, library=None):
    preload = ["-E", f"LD_PRELOAD={library}"] if library else []
    with tempfile.NamedTemporaryFile("r") as trace:
        run(["strace", "-f", "-o", trace.name, *preload, program, work])
        count, undone = 0, set()
        for line in trace.read().splitlines():
            call = re.match(r"\d+\s+(?:<\.\.\. )?(\w+)(?:\(| resumed>)(?:(0x[0-9a-f]+))?.*= (\S+)", line)
            if call is None or call[1] in ("prctl", "read", "write"):  # of smaps, whose length is the system's
                continue
            if call[1] == "mmap" and call[2] and call[3] != call[2]:
                undone.add(call[3])
            elif call[1] == "munmap" and call[2] in undone:
                undone.remove(call[2])
            else:
                count += 1
        return count


def written_kib(program, work, library):
    """Written pages of the library, with the variables behind it, and of mappings without a file."""
    total, wanted, name = 0, False, ""
    for line in run([program, work], library).splitlines():
        mapping = re.match(r"([0-9a-f]+)-[0-9a-f]+ \S+ \S+ \S+ \S+\s*(.*)", line)
        if mapping:
            is_nameless = mapping[2] == "" or mapping[2].startswith("[anon:hakmem")
            in_window = int(mapping[1], 16) < 0x500000000000
            wanted = mapping[2] == library or is_nameless and (in_window or name == library)
            name = mapping[2]
        elif wanted and line.startswith("Anonymous:"):
            total += int(line.split()[1])
    return total


def main():
    library, program, golden = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    library = str(library)
    callgrind.need("valgrind", "strace")
    found = {}
    for work in WORKS:
        found[work] = (instructions(program, work, library), calls(program, work, library) - calls(program, work),
                       written_kib(program, work, library))
    if "--update" in sys.argv:
        golden.write_text("".join(f"{i:>9,} instructions {c:>4} calls {d:>4} KiB  {w}\n" for w, (i, c, d) in found.items()))
    wrong, expected = [], {}
    for line in golden.read_text().splitlines():
        count, _, call, _, kib, _, work = line.split()
        expected[work] = int(count.replace(",", "")), int(call), int(kib)
    for work, now in found.items():
        print("%9s instructions %4d calls %4d KiB  %s" % (f"{now[0]:,}", *now[1:], work))
        was = expected[work]
        if abs(now[0] / was[0] - 1) > TOLERANCE or now[1:] != was[1:]:
            wrong.append(f"{work}: {was[0]:,} instructions, {was[1]} calls and {was[2]} KiB expected")
    if wrong:
        sys.exit("\n".join([*wrong, "If the change is meant, --update writes the new counts for review."]))


if __name__ == "__main__":
    main()
