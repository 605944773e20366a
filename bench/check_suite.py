#!/usr/bin/env python3
"""Checks suite.toml: every row is well formed, what it names exists, and every
workload row passes with --verify, with little work, and so do the ends of sweeps.

    check_suite.py [--workloads DIRECTORY]      default: build/bench

Programs are looked up and not run, since they come from the system; one that is
missing is named, and no error. Exit status: 0 all is well, 1 not, 2 bad arguments.

SPDX-License-Identifier: MIT
"""
import argparse
import ast
import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
TRACES = HERE / "traces"
RUST = HERE / "workloads" / "rust"
REQUIRED = {"name": str, "family": str, "kind": str, "command": list}
OPTIONAL = {"threads": int, "quick": bool, "max_rounds": int, "prepare": list, "directory": str, "environment": dict,
            "needs": list, "huge_pages": str, "memory_only": bool, "beside": str, "seconds": float, "timeout_seconds": int}
SWEEP_KEYS = {"name", "command", "x", "line", "max_rounds", "seconds", "bytes_per_x"}
FAMILIES = {"reports", "literature", "latency", "programs", "sweeps"}
HUGE_PAGES = {"always", "madvise", "never"}
KINDS = {"workload", "program", "driver", "replay"}
PLACEHOLDERS = {"workloads", "programs", "traces", "inputs", "scratch"}
QUICK_ROWS = range(60, 91)

# What makes a workload short; later options win over those of the row.
SHORT = {
    "fragmentation": "--live 4M --laps 1",
    "memory_after_peak": "--total 8M --idle 20",
    "take_back": "--total 1M --rate 1000 --ops 500",
    "idle_threads": "--threads 50 --idle 0",
    "sleeping_threads": "--threads 4 --total 64K --idle 0",
    "realloc_growth": "--max 64K --ops 200",
    "big_churn": "--min 1M --max 2M --ops 8",
    "calloc_large": "--max 1M --ops 16",
    "many_owners": "--blocks 20 --ops 500",
    "producer_consumer": "--ops 100",
    "server_stress": "--requests 20 --ops 100",
    "slow_consumer": "--queue 1M --rate 2M --length 200",
    "latency": "--total 4M --blocks 20 --ends 2 --ops 500",
    "sparse_large": "--blocks 20 --idle 0",
    "work_stealing": "--starters 1 --ops 500",
    "larson": "--rounds 500 --ops 500",
    "cache_sharing": "--ops 20000",
}
SHORT_OTHERWISE = "--ops 500"
MOST_THREADS = 8
# In this order none is smaller than the one before.
LATENCIES = ["p50_us", "p99_9_us", "p99_999_us", "worst_us", "stall_us"]
SIZES = ["live_mib", "occupied_mib", "resident_mib"]


def strings_of(row):
    """Every string in which a placeholder may stand."""
    yield from row["command"]
    yield from row.get("prepare", [])
    yield from row.get("environment", {}).values()
    if "directory" in row:
        yield row["directory"]


def shape_errors(row):
    known = REQUIRED | OPTIONAL
    for key, kind in REQUIRED.items():
        if key not in row:
            yield f"has no {key}"
    for key, value in row.items():
        if key not in known:
            yield f"has an unknown key {key}"
        elif type(value) is not known[key]:
            yield f"{key} is not of type {known[key].__name__}"
        elif isinstance(value, list) and not (value and all(isinstance(word, str) for word in value)):
            yield f"{key} is not a list of strings"
        elif isinstance(value, int) and not isinstance(value, bool) and value < 1:
            yield f"{key} is below 1"


def content_errors(row):
    if row["family"] not in FAMILIES:
        yield f"family is none of {', '.join(sorted(FAMILIES))}"
    if row["kind"] not in KINDS:
        yield f"kind is none of {', '.join(sorted(KINDS))}"
    if row.get("huge_pages", "never") not in HUGE_PAGES:
        yield f"huge_pages is none of {', '.join(sorted(HUGE_PAGES))}"
    for text in strings_of(row):
        for name in re.findall(r"{(\w*)}", text):
            if name not in PLACEHOLDERS:
                yield f"unknown placeholder {{{name}}}"
        for path in re.findall(r"{programs}/([\w.]+)", text):
            if not (PROGRAMS / path).is_file():
                yield f"there is no programs/{path}"
        for path in re.findall(r"{traces}/([\w.+]+)", text):
            if not (TRACES / path).is_file():
                yield f"there is no traces/{path}"
    if row.get("memory_only") and row["kind"] != "program":
        yield "is memory_only, and no program"
    if "beside" in row and row["kind"] != "workload":
        yield "stands beside a row, and is no workload"
    if row["kind"] not in ("workload", "replay") and not row.get("needs"):
        yield "does not say what it needs"
    prepare = row.get("prepare", [])
    if prepare and (len(prepare) != 4 or prepare[2] not in targets()):
        yield f"prepare.py knows no target as in {prepare}"
    if any("{inputs}" in text for text in row["command"] + [row.get("directory", "")]) and not prepare:
        yield "uses {inputs} and prepares none"


def targets():
    """Functions of prepare.py: its targets are named after them."""
    tree = ast.parse((PROGRAMS / "prepare.py").read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def program_errors(row, missing):
    """A program is started without a shell, and a wrapper script would be measured too."""
    for needed in row["needs"]:
        if not shutil.which(needed):
            missing.add(needed)
    path = shutil.which(row["command"][0])
    if row["kind"] == "program" and path and not is_elf(path):
        yield f"{path} is a script, not the program itself"


def beside_errors(row, rows):
    """It can be compared with the row that it stands beside: the same work, as far as both say it."""
    other = next((other for other in rows if other.get("name") == row["beside"] and "beside" not in other), None)
    if not other or other.get("kind") != "workload":
        yield f"stands beside no workload: {row['beside']}"
        return
    its, others = options_of(row["command"]), options_of(other["command"])
    for name, value in its.items():
        if others.get(name) != value:
            yield f"{name} is {value}, and {others.get(name)} in the row that it stands beside"
    if row.get("quick") != other.get("quick"):
        yield "is not quick as the row that it stands beside"


def can_be_built(row):
    """A workload that is written in Rust takes a cargo that is new enough."""
    return "beside" not in row or subprocess.run([HERE.parent / "scripts/check-cargo", RUST], stdout=subprocess.DEVNULL,
                                                 check=False).returncode == 0


def verify_errors(row, workloads, missing):
    name, *options = row["command"]
    program = workloads / name
    if not program.exists() and not can_be_built(row):
        missing.add(name)
        return
    if not os.access(program, os.X_OK):
        yield f"there is no workload {program}"
        return
    said = options_of(options)
    command = [program, *options, *SHORT.get(name, SHORT_OTHERWISE).split(), "--verify"]
    if int(said.get("--threads", 0)) > MOST_THREADS and name != "idle_threads":
        command += ["--threads", str(MOST_THREADS)]
    shown = " ".join(map(str, command))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        yield f"no end after 60 s: {shown}"
        return
    if done.returncode != 0:
        yield f"status {done.returncode}: {shown}: {done.stderr.strip()}"
        return
    if len(done.stdout.splitlines()) != 1:
        yield f"not one line of result: {shown}"
    result = dict(pair.partition("=")[::2] for pair in done.stdout.split())
    for key in ("metric", "memory"):
        figure = result.get(result.get(key))
        if (key == "metric" or key in result) and not (figure and float(figure) > 0):
            yield f"no figure for {key}: {shown}"
    if result.get("check") != "ok":
        yield f"nothing was verified: {shown}"
    if not result.get("malloc_from", "").startswith("/"):
        yield f"malloc_from names no file: {shown}"
    elif (result["malloc_from"] == str(program)) != ("beside" in row):
        yield f"served by itself, or not, as the suite says: {result['malloc_from']}: {shown}"
    latencies = [float(result[key]) for key in LATENCIES if key in result]
    if latencies != sorted(latencies) or (name == "latency" and len(latencies) != len(LATENCIES)):
        yield f"latencies {latencies} are not all there, or do not rise: {shown}"
    sizes = [float(result[key]) for key in SIZES if key in result]
    if sizes != sorted(sizes) or (name == "memory_after_peak" and len(sizes) != len(SIZES)):
        yield f"sizes {sizes} are not all there, or do not rise: {shown}"
    threads = int(said.get("--threads", 0)) or threads_of_teams(said)
    if threads and row["family"] != "sweeps" and threads != row.get("threads", 1):
        yield f"threads is {row.get('threads', 1)}, the command's are {threads}"


def threads_of_teams(said):
    """Of producers and consumers; 0 where there are none."""
    if not said.keys() & {"--pairs", "--producers", "--consumers"}:
        return 0
    return int(said.get("--pairs", 1)) * (int(said.get("--producers", 1)) + int(said.get("--consumers", 1)))


def options_of(words):
    return {word: value for word, value in zip(words, words[1:]) if word.startswith("--")}


def rows_of_sweep(sweep):
    """The rows at the ends of each curve; hak itself makes the others in the same way, and refuses what is no sweep."""
    axes = [sweep["x"]] + [sweep[key] for key in ("line",) if key in sweep]
    ends = [(axis["values"][0], axis["values"][-1]) for axis in axes]
    for values in itertools.product(*ends):
        row = {"name": f"{sweep['name']}: {values}", "family": "sweeps", "kind": "workload"}
        row["command"] = sweep["command"]
        for axis, value in zip(axes, values):
            filled = str(value // axis.get("per", 1))
            row["command"] = [word.replace(f"{{{axis['key']}}}", filled) for word in row["command"]]
        yield row


def short_of_sweep(row):
    """With so few blocks, and so small ones, that the check of all of them is short."""
    few = {"--slots": 1000, "--batch": 64, "--min": 1 << 18, "--max": 1 << 18}
    words = row["command"][:]
    for index, word in enumerate(words[:-1]):
        if word in few:
            words[index + 1] = str(min(int(words[index + 1]), few[word]))
    return {**row, "command": words}


def check(suite, workloads):
    """(row name, what is wrong) for everything that is, and the programs that are not installed."""
    errors, missing = [], set()
    rows = suite["row"][:]
    for sweep in suite.get("sweep", []):
        errors += [(sweep.get("name", "?"), f"has an unknown key {key}") for key in sweep.keys() - SWEEP_KEYS]
        rows += map(short_of_sweep, rows_of_sweep(sweep))
    for name, count in Counter(row.get("name") for row in rows).items():
        if count > 1:
            errors.append((name, f"is the name of {count} rows"))
    for row in rows:
        found = list(shape_errors(row)) or list(content_errors(row))
        if not found and "beside" in row:
            found = list(beside_errors(row, rows))
        if not found and row["kind"] == "workload":
            found = list(verify_errors(row, workloads, missing))
        elif not found and row["kind"] != "replay":
            found = list(program_errors(row, missing))
        errors += [(row.get("name", "?"), error) for error in found]
    quick = sum(row.get("quick", False) for row in rows)
    if quick not in QUICK_ROWS:
        errors.append(("suite", f"has {quick} quick rows, not {QUICK_ROWS.start} to {QUICK_ROWS.stop - 1}"))
    used = {row["command"][0] for row in rows if row.get("kind") == "workload" and row.get("command")}
    written = {path.stem for path in (HERE / "workloads").glob("*.c*")} - {"common"}
    errors += [(name, "is a workload without a row") for name in sorted(written - used)]
    replayed = {row["command"][0].rpartition("/")[2] for row in rows if row.get("kind") == "replay"}
    recorded = {path.name for path in TRACES.glob("*.trace")}
    errors += [(name, "is a trace without a row") for name in sorted(recorded - replayed)]
    return errors, missing


def main():
    parser = argparse.ArgumentParser(description="checks suite.toml; see the head of this file")
    parser.add_argument("--workloads", type=Path, default=HERE.parent / "build" / "bench",
                        help="directory of the built workloads")
    parser.add_argument("--suite", type=Path, default=HERE / "suite.toml")
    arguments = parser.parse_args()
    workloads = arguments.workloads.resolve()
    if not workloads.is_dir():
        parser.error(f"no directory {workloads}: build with -DHAKMEM_BENCH=ON, or give --workloads")
    try:
        suite = tomllib.loads(arguments.suite.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        sys.exit(f"{arguments.suite}: {error}")
    if not isinstance(suite.get("row"), list) or not all(isinstance(row, dict) for row in suite["row"]):
        sys.exit(f"{arguments.suite}: row is not a list of tables")
    errors, missing = check(suite, workloads)
    for name, error in errors:
        print(f"{name}: {error}", file=sys.stderr)
    counts = f"{len(suite['row'])} rows, {len(suite.get('sweep', []))} sweeps, {len(errors)} errors"
    print(f"{counts}; not installed: {', '.join(sorted(missing)) or 'nothing'}")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
