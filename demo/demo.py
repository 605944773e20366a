"""Runs a Python and a Perl program under glibc's malloc and under hakmem, proves
that hakmem served the second, and prints what each took and which differences
are noise.

The rounds are short and many: a difference counts only if the rounds agree on
it. In each one every program runs under both, and they take turns in who is
first, so that a slow minute of the machine meets both.

SPDX-License-Identifier: MIT
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import noise

HERE = pathlib.Path(__file__).resolve().parent
ALLOCATORS = ("glibc", "hakmem")


class Run(NamedTuple):
    seconds: float
    peak_bytes: int
    faults: int
    output: bytes
    stats: dict  # hakmem's own counters at the end of the run; empty under another allocator


# What is compared: its name, where it is, and how it is written.
METRICS = [
    ("time", lambda run: run.seconds, lambda value: f"{value:.3f} s"),
    ("peak memory", lambda run: run.peak_bytes, lambda value: f"{value / 2**20:.1f} MiB"),
    ("page faults", lambda run: run.faults, lambda value: f"{value:,.0f}"),
]


def programs(scale):
    perl = shutil.which("perl")
    if perl is None:
        sys.exit("The demo needs perl, which is not installed: `scripts/deps demo` installs it.")
    return {"python": [sys.executable, str(HERE / "workload.py"), str(scale)],
            "perl": [perl, str(HERE / "workload.pl"), str(scale)]}


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


class Progress:
    """One line that changes, or on what is no terminal a line for each round."""

    def __init__(self):
        self.changes, self.said = sys.stderr.isatty(), None

    def say(self, round_name, rest):
        if self.changes:
            print(f"\r\033[K{round_name}: {rest}", end="", file=sys.stderr, flush=True)
        elif round_name != self.said:
            print(f"{round_name} ...", file=sys.stderr, flush=True)
        self.said = round_name

    def end(self):
        if self.changes:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def measure(commands, library, rounds):
    """The runs of each program under each allocator, in the order of the rounds."""
    runs = {(program, allocator): [] for program in commands for allocator in ALLOCATORS}
    progress = Progress()
    with tempfile.TemporaryDirectory(prefix="hakmem-demo-") as scratch:
        # The first round finds files and memory colder than the others: it does not count.
        for number in range(rounds + 1):
            name = f"round {number} of {rounds}" if number > 0 else "warm-up"
            for program, command in commands.items():
                for allocator in ALLOCATORS if number % 2 == 0 else reversed(ALLOCATORS):
                    progress.say(name, f"{program} under {allocator}")
                    made = run(command, library if allocator == "hakmem" else None, scratch)
                    if number > 0:
                        runs[program, allocator].append(made)
    progress.end()
    return runs


def rows(runs):
    """A line for each metric of each program."""
    lines = [("", "", *ALLOCATORS, "difference")]
    for program in dict.fromkeys(program for program, _ in runs):
        for number, (metric, of, written) in enumerate(METRICS):
            base, ours = ([of(one) for one in runs[program, allocator]] for allocator in ALLOCATORS)
            lines.append((program if number == 0 else "", metric, written(min(base)), written(min(ours)),
                          noise.words(noise.ratio(ours, base))))
    return lines


def table(lines):
    """Its lines as text: figures to the right, everything else to the left."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = []
    for number, line in enumerate(lines):
        cells = (cell.rjust(width) if column in (2, 3) else cell.ljust(width)
                 for column, (cell, width) in enumerate(zip(line, widths)))
        if line[0] and number > 0:
            text.append("")
        text.append("   ".join(cells).rstrip())
    return text


def explained(rounds):
    if rounds >= noise.FEWEST_ROUNDS:
        between = (f"In brackets where it is, at a confidence of {noise.CONFIDENCE * 100:.0f} %; "
                   "noise: it may as well be none.")
    else:
        between = f"?: too few rounds to tell it from noise; {noise.FEWEST_ROUNDS} would do."
    return ["Less is better. Figures are the least of the rounds; the difference is the",
            f"median of the {rounds} rounds' own, in which both ran in turn.", between,
            "PYTHONMALLOC=malloc in all: each object is a malloc."]


def served(runs):
    """What hakmem says of its runs, and what is wrong with any."""
    said, faults = [], []
    for (program, allocator), made in runs.items():
        if any(one.output != runs[program, "glibc"][0].output for one in made):
            faults.append(f"{program} gives another output under {allocator}.")
        if allocator != "hakmem":
            continue
        if not all(one.stats.get("refills", 0) > 0 for one in made):
            faults.append(f"hakmem did not serve {program}: its counters show no refill.")
            continue
        stats = made[0].stats
        said.append(f"hakmem served {program}: it counted {stats['refills']:,} refills, "
                    f"{stats['flushes']:,} flushes, {stats['slab_count']:,} slabs.")
    if not faults:
        said.append("Both programs print the same under both.")
    return said, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--lib", required=True, help="path of libhakmem.so")
    parser.add_argument("--rounds", type=int, default=9, help="runs of each program under each allocator (default 9)")
    parser.add_argument("--scale", type=float, default=0.3, help="how much the programs have to do (default 0.3)")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("there has to be a round")
    library = pathlib.Path(options.lib).resolve()
    if not library.is_file():
        sys.exit(f"There is no {options.lib}: `make` builds it.")
    if re.search("[ :]", str(library)):
        sys.exit(f"The demo cannot preload '{library}': LD_PRELOAD takes a blank and a colon for the end of a name. "
                 "Have it in another folder.")

    runs = measure(programs(options.scale), library, options.rounds)
    said, faults = served(runs)
    print("\n".join(["", *table(rows(runs)), "", *explained(options.rounds), "", *said]))
    for fault in faults:
        print(f"FAILED: {fault}", file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
