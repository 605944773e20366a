#!/usr/bin/env python3
"""What heap profilers cost five programs: time, memory and bytes written.

    bench/profilers.py BUILD --jemalloc LIB [--rounds N] [--short] [--only NAME,…] [--programs NAME,…]

Each program runs in turn with an allocator alone, and with the same allocator and its profiler. A row has the
processor time of the program itself (user and system) with the profiler against that without, as the median of the rounds and as
that of the least times; the time of the profiler's own processes; the memory that was resident at most; and the bytes
that were written. A run in which another allocator answers than was meant ends it all.

LIB is a libjemalloc.so that was configured with --enable-prof, which Debian's is not. Debian's packages heaptrack and
libgoogle-perftools4 have to be there, and cc, g++, jq, perl and sqlite3. BUILD has libhakmem.so and hak.

SPDX-License-Identifier: MIT
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "programs"))
import cc1plus  # noqa: E402

PROGRAMS = {
    "python3 JSON": ["/usr/bin/python3", f"{HERE}/programs/json_records.py", "records.json"],
    "perl": ["/usr/bin/perl", f"{HERE}/programs/words.pl", "prose.txt", "9000"],
    "jq": ["/usr/bin/jq", "-c", "-f", f"{HERE}/programs/records.jq", "records.json"],
    "sqlite3": ["/usr/bin/sqlite3", "-batch", ":memory:", ".read orders.sql"],
    "cc1plus": ["-std=c++17", "-O1", "-DDEPTH=12", f"{HERE}/programs/heavy.cpp", "-o", "/dev/null"],
}
SHORT = {"records.json": "records-quick.json", "9000": "2200", ".read orders.sql": ".read orders-quick.sql",
         "-DDEPTH=12": "-DDEPTH=1"}
ENVIRONMENT = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0"}


def profilers(build, jemalloc):
    """Name: the allocator's library; the profiler's environment, and its command before the program's; who answers then."""
    hakmem = f"{build}/libhakmem.so"
    tcmalloc = next(map(str, Path("/usr/lib").glob("*/libtcmalloc.so.4")))
    hak = [f"{build}/hak", "profile", "--library", hakmem, "--pprof", "{out}/profile", "--"]
    return {
        "hak profile": (hakmem, {}, hak, hakmem),
        "jemalloc": (jemalloc, {"MALLOC_CONF": "prof:true,prof_final:true,prof_prefix:{out}/profile"}, [], jemalloc),
        "gperftools sampling": (tcmalloc, {"TCMALLOC_SAMPLE_PARAMETER": "524288"}, [], tcmalloc),
        "gperftools HEAPPROFILE": (tcmalloc, {"HEAPPROFILE": "{out}/profile"}, [], tcmalloc),
        "heaptrack": ("", {}, ["heaptrack", "-o", "{out}/profile"], "libheaptrack_preload.so"),
    }


def run(command, program, environment, inputs, answers):
    """Seconds of the program, seconds of others that it was run by, MiB resident at most, KiB written."""
    with tempfile.TemporaryDirectory() as scratch:
        told, out = Path(scratch, "told"), Path(scratch, "out")
        out.mkdir()
        environment = {**os.environ, **ENVIRONMENT, "OWN_TIME": str(told), "OWN_TIME_OF": program, **environment}
        environment = {name: value.replace("{out}", str(out)) for name, value in environment.items()}
        command = [part.replace("{out}", str(out)) for part in command]
        with open(f"{scratch}/errors", "w+") as errors:
            child = subprocess.Popen(command, env=environment, cwd=inputs, stdout=subprocess.DEVNULL, stderr=errors)
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            if status != 0:
                errors.seek(0)
                sys.exit(f"{' '.join(command)} failed: {errors.read()}")
        seconds, resident, where = told.read_text().split()
        if Path(where).resolve().name != Path(answers).resolve().name:
            sys.exit(f"{where} has answered, not {answers}")
        written = sum(file.stat().st_size for file in out.iterdir())
    total = used.ru_utime + used.ru_stime
    # A profiler without processes of its own does its last work at the program's exit, after it has been told.
    own = total if Path(command[0]).name == program else float(seconds)
    return own, total - own, int(resident) / 1024, written / 1024


def row(command, profiler, own_time, inputs, rounds):
    library, environment, before, answers = profiler
    program = Path(command[0]).name
    runs = {True: [], False: []}
    for number in range(rounds):
        for profiled in (number % 2 == 0, number % 2 != 0):
            # What stands before the program preloads the allocator, or what is in its place, itself.
            preload = str(own_time) if profiled and before else f"{library} {own_time}".strip()
            runs[profiled].append(run((before if profiled else []) + command, program,
                                      {"LD_PRELOAD": preload, **(environment if profiled else {})}, inputs,
                                      answers if profiled else library or "libc.so.6"))
    time, others, resident, written = zip(*runs[True])
    time_without, _, resident_without, _ = zip(*runs[False])
    middle = statistics.median
    ratio = middle(one / other for one, other in zip(time, time_without))
    return (f"{middle(time_without):.2f} s | × {ratio:.2f} | × {min(time) / min(time_without):.2f} | {middle(others):.2f} s | "
            f"{middle(resident):.0f} of {middle(resident_without):.0f} | {middle(written):.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--jemalloc", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", type=lambda text: text.split(","), help="names of profilers, with commas between")
    parser.add_argument("--programs", type=lambda text: text.split(","), default=PROGRAMS, help="names of programs, likewise")
    parser.add_argument("--short", action="store_true", help="the programs with a fraction of their work")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    inputs = build / "profilers"
    inputs.mkdir(exist_ok=True)
    for target in ("records", "prose", "sqlite"):
        subprocess.run([sys.executable, HERE / "programs/prepare.py", target, inputs], check=True)
    own_time = inputs / "own_time.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", own_time, HERE / "own_time.c"], check=True)
    compiler, words = cc1plus.compiler()
    print("| program | profiler | time without | with, median | with, least | profiler's own | MiB, of MiB without | KiB written |")
    print("|---|---|---|---|---|---|---|---|")
    for program in arguments.programs:
        command = [SHORT.get(part, part) if arguments.short else part for part in PROGRAMS[program]]
        if program == "cc1plus":
            command = [str(compiler), *words, *command]
        for name, profiler in profilers(build, str(arguments.jemalloc.resolve())).items():
            if arguments.only is None or name in arguments.only:
                print(f"| {program} | {name} | {row(command, profiler, own_time, inputs, arguments.rounds)} |", flush=True)


if __name__ == "__main__":
    main()
