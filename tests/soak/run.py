#!/usr/bin/env python3
"""The soak of real servers: see README.md beside this file.

The last line is `N passed, N failed`; the status is 0 only if checks were made
and none failed.

SPDX-License-Identifier: MIT
"""
import argparse
import multiprocessing
import pathlib
import signal
import subprocess
import sys
import time

import drive
import line_servers
import machine
import nginx_server
import plan
import record
import redis_server
import verdict

SERVERS = {kind.name: kind for kind in (redis_server.Redis, nginx_server.Nginx, line_servers.Threads,
                                        line_servers.Java, line_servers.Node)}
SECONDS_PER_EVENT = 10  # of one server
STEPS_PER_EVENT = 40
GRACE = 180  # seconds that servers get beyond the run's length to start, to fall and to end
SKIPPED = 77


def say(text):
    print(text, flush=True)


def soak(options, names, library):
    """Runs the named servers and returns (records, why servers were left out, the machine's events)."""
    context = multiprocessing.get_context("fork")
    seconds = options.minutes * 60
    world = machine.Machine(options.seed, max(seconds, 1), options.calm or options.steps is not None)
    begin = time.monotonic()
    running = {}
    try:
        for name in names:
            clock = drive.Counted(options.steps) if options.steps else drive.Timed(seconds, begin)
            count = max(2, int(options.steps / STEPS_PER_EVENT if options.steps else seconds / SECONDS_PER_EVENT))
            planned = plan.events(options.seed, name, SERVERS[name].kinds, SERVERS[name].fatal, count)
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=drive.drive, args=(
                SERVERS[name], options.seed, library, clock, planned, options.plant, options.looks, theirs))
            process.start()
            theirs.close()
            running[name] = process, ours
        records, skipped = [], []
        while running and (options.steps or time.monotonic() - begin < seconds + GRACE):
            world.step(time.monotonic() - begin)
            for name, (process, pipe) in list(running.items()):
                if pipe.poll(0.1):
                    collect(name, pipe, records, skipped)
                    process.join()
                    del running[name]
        for name in running:
            records.append(record.Record(name, crashes=["it hangs: no result in time"]))
        return records, skipped, world.seen
    finally:
        for process, _ in running.values():
            process.terminate()
        for process, _ in running.values():
            process.join()
        world.end()


def collect(name, pipe, records, skipped):
    try:
        result = pipe.recv()
    except EOFError:
        result = record.Record(name, crashes=["the soak's own driver failed: see its output above"])
    if isinstance(result, str):
        skipped.append(f"{name}: {result}")
    else:
        records.append(result)


def draw(directory):
    """Draws the CSV files, with a Python that has the library for it."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import matplotlib"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            made = subprocess.run([python, pathlib.Path(__file__).with_name("draw.py"), directory], check=False)
            return made.returncode == 0
    say("not drawn: there is no matplotlib (scripts/deps soak installs it)")
    return True


def parse():
    parser = argparse.ArgumentParser(description="The soak of real servers.")
    parser.add_argument("--library", required=True, help="the libhakmem.so to preload, or `none` to compare")
    parser.add_argument("--threads-program", required=True, type=lambda path: pathlib.Path(path).resolve(),
                        help="the built soak_threads")
    bound = parser.add_mutually_exclusive_group(required=True)
    bound.add_argument("--minutes", type=float, default=0)
    bound.add_argument("--steps", type=int, help="so many steps of each server instead of a time")
    parser.add_argument("--seed", type=int, help="default: from the clock")
    parser.add_argument("--servers", default=",".join(SERVERS), metavar="NAME,...", help="of " + ", ".join(SERVERS))
    parser.add_argument("--out", type=pathlib.Path, help="a directory for CSV files and the page")
    parser.add_argument("--calm", action="store_true", help="leave the machine's settings and memory alone")
    parser.add_argument("--plant", help=argparse.SUPPRESS)  # trouble, for tests of the checks
    parser.add_argument("--looks", type=int, default=drive.FALL_STEPS, help=argparse.SUPPRESS)  # for the same
    options = parser.parse_args()
    if options.seed is None:
        options.seed = int(time.time()) % 1000000
    options.names = options.servers.split(",")
    unknown = [name for name in options.names if name not in SERVERS]
    if unknown:
        parser.error(f"no such server: {', '.join(unknown)}")
    return options


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    library = None if options.library == "none" else pathlib.Path(options.library).resolve()
    if library and not library.is_file():
        sys.exit(f"there is no {library}")
    line_servers.Threads.program = options.threads_program
    say(f"soak of {', '.join(options.names)}, seed {options.seed}")
    records, skipped, seen = soak(options, options.names, library)

    lines, passed, failed = [], 0, 0
    for one in sorted(records, key=lambda one: options.names.index(one.name)):
        for name, good, what in verdict.checks(one, options.steps is None, library is not None):
            lines.append(f"{'passed' if good else 'FAILED'} {name}: {what}")
            passed, failed = passed + good, failed + (not good)
    lines += [f"skipped {reason}" for reason in skipped]
    lines.append(f"{passed} passed, {failed} failed")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        record.write_csv(options.out, records, seen)
        (options.out / "verdict.txt").write_text(f"seed {options.seed}\n" + "\n".join(lines) + "\n")
        if draw(options.out):
            say(f"written to {options.out}")
    say("\n".join(lines))
    if not records and skipped:
        return SKIPPED
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
