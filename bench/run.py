#!/usr/bin/env python3
"""Runs the workloads under every allocator in turn and compares them.

For each row and each round every allocator runs once, so that whatever disturbs
the machine disturbs all of them; the best round counts (memory: the median).
Every workload says which shared object answered its malloc, and a run served by
another allocator than the intended one is an error, not a figure.

SPDX-License-Identifier: MIT
"""

import argparse
import csv
import datetime
import hashlib
import json
import math
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from suites import SUITES, Row

HERE = Path(__file__).resolve().parent
BASELINE = "glibc"
PEERS = {  # name: file name, and where Debian has it
    "mimalloc": ("libmimalloc.so.2", "libmimalloc2.0"),
    "jemalloc": ("libjemalloc.so.2", "libjemalloc2"),
    "tcmalloc": ("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
}
TUNING = ("MALLOC_", "HAKMEM_", "MIMALLOC_", "TCMALLOC_", "GLIBC_TUNABLES")


# ---- Allocators ----------------------------------------------------------------


@dataclass(frozen=True)
class Allocator:
    name: str
    path: Path | None  # None: no preload, the C library's own

    @property
    def object_name(self) -> str:
        """File name that must be found behind malloc when this one serves."""
        return self.path.name if self.path else "libc.so.6"

    def version(self) -> str:
        if not self.path:
            return os.confstr("CS_GNU_LIBC_VERSION") or "unknown"
        digest = hashlib.sha256(self.path.read_bytes()).hexdigest()[:12]
        return f"{debian_version(self.path)}sha256:{digest}"


def debian_version(path: Path) -> str:
    """'package version ' of a file that a package owns, '' for any other."""
    if not shutil.which("dpkg-query"):
        return ""
    for name in (path, path.resolve()):
        owner = subprocess.run(["dpkg-query", "-S", str(name)], capture_output=True, text=True)
        if owner.returncode == 0:
            package = owner.stdout.split(": ")[0]
            return subprocess.run(
                ["dpkg-query", "-W", "-f", "${Package} ${Version} ", package], capture_output=True, text=True
            ).stdout
    return ""


def find_library(file_name: str) -> Path | None:
    """Asks the dynamic linker's cache."""
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        cache = subprocess.run([ldconfig, "-p"], capture_output=True, text=True).stdout
    except OSError:
        return None
    machine = "x86-64" if platform.machine() == "x86_64" else "AArch64"
    for line in cache.splitlines():
        if line.split(" ", 1)[0].strip() == file_name and machine in line:
            return Path(line.rpartition("=> ")[2])
    return None


def find_allocators(lib: Path, extra: list[str]) -> list[Allocator]:
    found = [Allocator(BASELINE, None)]
    if lib.is_file():
        found.append(Allocator("hakmem", lib.resolve()))
    else:
        say(f"hakmem: no library at {lib}; build it or give --lib; going on without")
    for name, (file_name, package) in PEERS.items():
        path = find_library(file_name)
        if path:
            found.append(Allocator(name, path))
        else:
            say(f"{name}: {file_name} is not installed (Debian package {package}); going on without")
    for text in extra:
        name, equals, path = text.partition("=")
        if not equals or not re.fullmatch(r"[\w.+-]+", name):
            fail(f"--allocator wants name=/path/lib.so, not '{text}'")
        if not Path(path).is_file():
            fail(f"--allocator {name}: no file {path}")
        found = [known for known in found if known.name != name]
        found.append(Allocator(name, Path(path).resolve()))
    return found


# ---- One run -------------------------------------------------------------------


class RunFailed(Exception):
    pass


@dataclass(frozen=True)
class Sample:
    metric: str  # key of the figure
    figure: float
    peak_kib: int
    minor_faults: int
    seconds: float  # of the whole process
    malloc_from: str


@dataclass
class Cell:
    """All rounds of one row under one allocator."""

    samples: list[Sample] = field(default_factory=list)
    error: str = ""

    @property
    def metric(self) -> str:
        return self.samples[0].metric

    def best(self) -> float | None:
        if not self.samples or self.error:
            return None
        figures = [sample.figure for sample in self.samples]
        if more_is_better(self.metric):
            return max(figures)
        # The kernel counts resident pages in batches per CPU, so a single
        # figure may be too small as well as too large.
        return statistics.median(figures) if is_memory(self.metric) else min(figures)

    def peak_mib(self) -> float:
        return statistics.median(sample.peak_kib for sample in self.samples) / 1024

    def minor_faults(self) -> float:
        return statistics.median(sample.minor_faults for sample in self.samples)


def more_is_better(metric: str) -> bool:
    return metric.endswith("_per_s")


def is_memory(metric: str) -> bool:
    return metric.endswith("_mib")


def pairs_of(line: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in line.split() if "=" in pair)


@dataclass(frozen=True)
class Runner:
    bench_dir: Path
    timeout: float

    def command(self, row: Row) -> list[str]:
        """Full path of the program, so that a missing one is found early."""
        name = row.command[0]
        path = shutil.which(name) if row.is_program else str(self.bench_dir / name)
        if not path or not os.access(path, os.X_OK):
            raise RunFailed(f"no program {name}")
        return [path, *row.command[1:]]

    def launch(self, command: list[str], preload: str, environment: dict[str, str]) -> tuple[str, dict[str, str]]:
        """Standard output, and the resources that bench/launch.c reports."""
        read_end, write_end = os.pipe()
        try:
            process = subprocess.Popen(
                [str(self.bench_dir / "launch"), str(write_end), preload, *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                cwd="/",
                env=os.environ | environment,
                pass_fds=(write_end,),
                start_new_session=True,  # Ctrl-C is for this script alone, and a timeout ends the whole group
            )
        finally:
            os.close(write_end)
        with os.fdopen(read_end) as report:
            try:
                out, err = process.communicate(timeout=self.timeout)
            except BaseException as stopped:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.communicate()
                if isinstance(stopped, subprocess.TimeoutExpired):
                    raise RunFailed(f"no end after {self.timeout:g} s") from None
                raise
            usage = pairs_of(report.read())
        status = int(usage.get("status", process.returncode))
        if status != 0:
            last = (err.strip().splitlines() or ["no message"])[-1]
            how = f"signal {signal.Signals(status - 128).name}" if status > 128 else f"exit code {status}"
            raise RunFailed(f"{how}: {last}")
        return out, usage

    def run(self, row: Row, allocator: Allocator) -> Sample:
        preload = str(allocator.path or "")
        out, usage = self.launch(self.command(row), preload, {})
        peak_kib = int(usage["peak_kib"])
        if row.is_program:
            metric, figure = "peak_mib", peak_kib / 1024
            malloc_from = self.binding(row, preload)
        else:
            result = pairs_of(out)
            metric, malloc_from = result.get("metric", ""), result.get("malloc_from", "")
            if metric not in result:
                raise RunFailed("no result line")
            figure = float(result[metric])
        if malloc_from != allocator.object_name:
            raise RunFailed(f"served by {malloc_from or 'nobody known'}, not by {allocator.object_name}")
        return Sample(metric, figure, peak_kib, int(usage["minor_faults"]), float(usage["seconds"]), malloc_from)

    def binding(self, row: Row, preload: str) -> str:
        """Who serves a program that does not say it itself: the dynamic
        linker's word, from a run of its own, since asking costs memory."""
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "bindings"
            asked = {"LD_DEBUG": "bindings", "LD_BIND_NOW": "1", "LD_DEBUG_OUTPUT": str(log)}
            self.launch(self.command(row), preload, asked)
            text = "".join(part.read_text(errors="replace") for part in Path(folder).iterdir())
        found = re.findall(r"binding file \S+ \[0\] to (\S+) \[0\]: normal symbol `malloc'", text)
        names = {Path(name).name for name in found}
        return "+".join(sorted(names))


# ---- All runs ------------------------------------------------------------------


@dataclass
class Measured:
    row: Row
    cells: dict[str, Cell]

    def metric(self) -> str:
        return next((cell.metric for cell in self.cells.values() if cell.samples), "")

    def ratio(self, name: str, other: str) -> float | None:
        """How much better `name` is than `other`: above 1 it is ahead."""
        mine, theirs = (self.cells[who].best() if who in self.cells else None for who in (name, other))
        if not mine or not theirs:
            return None
        return mine / theirs if more_is_better(self.metric()) else theirs / mine

    def best_peer(self, subject: str) -> str | None:
        """The best of all the others, glibc included."""
        peers = [name for name in self.cells if name != subject and self.cells[name].best()]
        if not peers:
            return None
        choose = max if more_is_better(self.metric()) else min
        return choose(peers, key=lambda name: self.cells[name].best())

    def vs_best(self, subject: str) -> float | None:
        peer = self.best_peer(subject)
        return self.ratio(subject, peer) if peer else None

    def goal_met(self, subject: str) -> bool | None:
        goal, verdicts = self.row.goal, []
        if goal.vs_glibc is not None:
            verdicts.append((self.ratio(subject, BASELINE) or 0) >= goal.vs_glibc)
        if goal.vs_best is not None:
            verdicts.append((self.vs_best(subject) or 0) >= goal.vs_best)
        if goal.mib_over_glibc is not None:
            mine, theirs = (self.cells[who].best() for who in (subject, BASELINE))
            verdicts.append(mine is not None and theirs is not None and mine - theirs <= goal.mib_over_glibc)
        return all(verdicts) if verdicts else None


def measure(runner: Runner, rows: list[Row], allocators: list[Allocator], rounds: int, results: list[Measured]) -> None:
    """Appends to `results` as it goes, so that what is done survives Ctrl-C."""
    progress = Progress(len(rows))
    for number, row in enumerate(rows):
        measured = Measured(row, {allocator.name: Cell() for allocator in allocators})
        results.append(measured)
        for turn in range(min(rounds, row.max_rounds)):
            progress.show(number, row.name, turn)
            first = turn % len(allocators)  # nobody always runs after the same one
            for allocator in allocators[first:] + allocators[:first]:
                cell = measured.cells[allocator.name]
                if cell.error:
                    continue
                try:
                    cell.samples.append(runner.run(row, allocator))
                except RunFailed as failure:
                    cell.error = str(failure)
                    say(f"FAILED {row.name} under {allocator.name}: {failure}")
    progress.done()


@dataclass
class Progress:
    total: int
    last: str = ""

    def show(self, number: int, name: str, turn: int) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K[{number + 1}/{self.total}] {name}, round {turn + 1}", end="", file=sys.stderr, flush=True)
        elif name != self.last:
            say(f"[{number + 1}/{self.total}] {name}")
        self.last = name

    def done(self) -> None:
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


# ---- Report --------------------------------------------------------------------


def shown(figure: float | None, metric: str) -> str:
    if figure is None:
        return "FAILED"
    if more_is_better(metric):
        scale = 0 if figure < 1e4 else 1 if figure < 1e6 else 2
        return f"{figure / 1000**scale:.2f} {('', 'k', 'M')[scale]}/s"
    if is_memory(metric):
        return f"{figure:.2f} MiB"
    return f"{figure * 1e3:.2f} ms"


def times(ratio: float | None) -> str:
    return f"{ratio:.3f}" if ratio else "-"


def geometric_mean(values: list[float | None]) -> float | None:
    positive = [value for value in values if value]
    return math.exp(statistics.fmean(map(math.log, positive))) if positive else None


def grid(rows: list[list[str]]) -> str:
    """Left-aligned first column, right-aligned others."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])] + [text.rjust(width) for text, width in zip(row[1:], widths[1:])]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def usage_ratio(measured: Measured, subject: str, other: str, figure) -> float | None:
    """How much of a resource the subject used against another: below 1 is less."""
    mine, theirs = (measured.cells.get(who) for who in (subject, other))
    if not mine or not theirs or not mine.samples or not theirs.samples or not figure(theirs):
        return None
    return figure(mine) / figure(theirs)


def comparison(results: list[Measured], subject: str) -> str:
    """Failed rows first, then those where the subject is behind, worst first."""
    head = ["row", subject, BASELINE, "best other", "", f"x {BASELINE}", "x best", "goal", "RSS/glibc", "faults/glibc"]
    table = [head]
    for measured in sorted(results, key=lambda measured: measured.vs_best(subject) or 0):
        metric, peer = measured.metric(), measured.best_peer(subject)
        met = measured.goal_met(subject)
        table.append(
            [
                measured.row.name,
                shown(measured.cells[subject].best(), metric),
                shown(measured.cells[BASELINE].best(), metric),
                shown(measured.cells[peer].best() if peer else None, metric),
                peer or "",
                times(measured.ratio(subject, BASELINE)),
                times(measured.vs_best(subject)),
                "" if met is None else "met" if met else "MISSED",
                times(usage_ratio(measured, subject, BASELINE, Cell.peak_mib)),
                times(usage_ratio(measured, subject, BASELINE, Cell.minor_faults)),
            ]
        )
    return grid(table)


def plain(results: list[Measured], names: list[str]) -> str:
    table = [["row", *names]]
    for measured in results:
        table.append([measured.row.name] + [shown(measured.cells[name].best(), measured.metric()) for name in names])
    return grid(table)


def means(results: list[Measured], names: list[str]) -> str:
    """Of every allocator against the baseline; above 1 is better in all columns.
    Memory rows are those whose figure is memory; peak RSS is that of all rows."""
    speed = [measured for measured in results if measured.metric() and not is_memory(measured.metric())]
    memory = [measured for measured in results if is_memory(measured.metric())]
    table = [["geometric means", f"speed x {BASELINE}", "x best other", f"memory rows x {BASELINE}", f"peak RSS x {BASELINE}"]]
    for name in names:
        peak = geometric_mean([usage_ratio(measured, BASELINE, name, Cell.peak_mib) for measured in results])
        table.append(
            [
                name,
                times(geometric_mean([measured.ratio(name, BASELINE) for measured in speed])),
                times(geometric_mean([measured.vs_best(name) for measured in speed])),
                times(geometric_mean([measured.ratio(name, BASELINE) for measured in memory])),
                times(peak),
            ]
        )
    return grid(table)


def report(results: list[Measured], allocators: list[Allocator], subject: str) -> str:
    names = [allocator.name for allocator in allocators]
    parts = []
    if subject in names:
        parts.append(comparison(results, subject))
        behind = sum(1 for measured in results if (measured.vs_best(subject) or 0) < 1)
        asked = [measured.goal_met(subject) for measured in results if measured.goal_met(subject) is not None]
        parts.append(
            f"x {BASELINE}, x best: above 1 is ahead. RSS/glibc, faults/glibc: what was used, below 1 is less."
        )
        verdict = f"{subject} is behind the best other allocator in {behind} of {len(results)} rows"
        if asked:
            verdict += f"; goals met: {sum(asked)} of {len(asked)}"
        parts.append(verdict)
    else:
        parts.append(plain(results, names))
    parts.append(means(results, names))
    failures = [
        f"FAILED {measured.row.name} under {name}: {cell.error}"
        for measured in results
        for name, cell in measured.cells.items()
        if cell.error
    ]
    return "\n\n".join(parts + (["\n".join(failures)] if failures else []))


# ---- Result files --------------------------------------------------------------


def machine() -> dict:
    def first(path: str, pattern: str) -> str:
        try:
            match = re.search(pattern, Path(path).read_text())
        except OSError:
            match = None
        return match.group(1) if match else "unknown"

    return {
        "architecture": platform.machine(),
        "cpu": first("/proc/cpuinfo", r"model name\s*: (.*)"),
        "cpus": os.cpu_count(),
        "memory_mib": int(first("/proc/meminfo", r"MemTotal:\s*(\d+)")) // 1024,
        "kernel": platform.release(),
        "transparent_huge_pages": first("/sys/kernel/mm/transparent_hugepage/enabled", r"\[(\w+)\]"),
        "page_bytes": os.sysconf("SC_PAGESIZE"),
        "tuning_environment": {key: value for key, value in os.environ.items() if key.startswith(TUNING)},
    }


def save(folder: Path, arguments: argparse.Namespace, allocators: list[Allocator], results: list[Measured]) -> Path:
    """One JSON file with every sample and one CSV file with a line per row and
    allocator. No paths or host names: results may be published."""
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.datetime.now(datetime.timezone.utc)
    stem = folder / f"{now:%Y-%m-%dT%H%M%SZ}-{arguments.suite}"
    document = {
        "schema": 1,
        "date": now.isoformat(timespec="seconds"),
        "suite": arguments.suite,
        "rounds": arguments.rounds,
        "machine": machine(),
        "allocators": {allocator.name: allocator.version() for allocator in allocators},
        "rows": [
            {
                "name": measured.row.name,
                "command": list(measured.row.command),
                "metric": measured.metric(),
                "more_is_better": more_is_better(measured.metric()),
                "results": {
                    name: {
                        "best": cell.best(),
                        "error": cell.error,
                        "malloc_from": cell.samples[0].malloc_from if cell.samples else "",
                        "figures": [sample.figure for sample in cell.samples],
                        "peak_kib": [sample.peak_kib for sample in cell.samples],
                        "minor_faults": [sample.minor_faults for sample in cell.samples],
                        "process_seconds": [sample.seconds for sample in cell.samples],
                    }
                    for name, cell in measured.cells.items()
                },
            }
            for measured in results
        ],
    }
    path = stem.with_suffix(".json")
    path.write_text(json.dumps(document, indent=1) + "\n")
    with stem.with_suffix(".csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow("row allocator metric best median min max rounds peak_mib minor_faults malloc_from error".split())
        for measured in results:
            for name, cell in measured.cells.items():
                figures = [sample.figure for sample in cell.samples]
                spread = [statistics.median(figures), min(figures), max(figures)] if figures else ["", "", ""]
                usage = [cell.peak_mib(), cell.minor_faults(), cell.samples[0].malloc_from] if figures else ["", "", ""]
                best = cell.best()
                writer.writerow(
                    [measured.row.name, name, measured.metric(), "" if best is None else best]
                    + spread
                    + [len(figures)]
                    + usage
                    + [cell.error]
                )
    return path


# ---- Command line --------------------------------------------------------------


def say(text: str) -> None:
    print(text if not sys.stderr.isatty() else f"\r\033[K{text}", file=sys.stderr, flush=True)


def fail(text: str) -> None:
    print(f"run.py: {text}", file=sys.stderr)
    sys.exit(2)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--suite", choices=SUITES, default="quick")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="runs per row and allocator (default 5)")
    parser.add_argument("--filter", default="", metavar="REGEX", help="only rows whose name matches")
    parser.add_argument("--list", action="store_true", help="only print the rows")
    parser.add_argument("--lib", type=Path, default=HERE.parent / "build/libhakmem.so", help="hakmem's library")
    parser.add_argument("--bench-dir", type=Path, help="the built workloads (default: bench/ in the build folder)")
    parser.add_argument("--allocator", action="append", default=[], metavar="NAME=LIB.so", help="one more to compare")
    parser.add_argument("--only", metavar="A,B", help="only these allocators, and glibc")
    parser.add_argument("--subject", default="hakmem", help="the allocator that is compared with the others")
    parser.add_argument("--timeout", type=float, default=120, metavar="S", help="longest run (default 120 s)")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder for JSON and CSV")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        fail("--rounds must be at least 1")
    try:
        arguments.filter = re.compile(arguments.filter)
    except re.error as error:
        fail(f"--filter: {error}")
    return arguments


def main() -> int:
    arguments = parse()
    rows = [row for row in SUITES[arguments.suite]() if arguments.filter.search(row.name)]
    if not rows:
        fail("no row matches --filter")
    if arguments.list:
        for row in rows:
            print(f"{row.name}: {' '.join(row.command)}")
        return 0
    bench_dir = (arguments.bench_dir or HERE.parent / "build/bench").resolve()
    if not (bench_dir / "launch").is_file():
        fail(f"no workloads in {bench_dir}; build them, or give --bench-dir")
    allocators = find_allocators(arguments.lib, arguments.allocator)
    if arguments.only:
        wanted = {BASELINE, *arguments.only.split(",")}
        unknown = wanted - {allocator.name for allocator in allocators}
        if unknown:
            fail(f"--only: no allocator {', '.join(sorted(unknown))}")
        allocators = [allocator for allocator in allocators if allocator.name in wanted]

    def interrupt(*_) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    results: list[Measured] = []
    interrupted, start = False, time.monotonic()
    try:
        measure(Runner(bench_dir, arguments.timeout), rows, allocators, arguments.rounds, results)
    except KeyboardInterrupt:
        interrupted = True
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not lose the report
        say("interrupted: this is what was measured so far")
        results = [measured for measured in results if measured.metric()]
    if results:
        print(report(results, allocators, arguments.subject))
        path = save(arguments.results, arguments, allocators, results)
        print(f"\n{time.monotonic() - start:.0f} s; results in {os.path.relpath(path)} and .csv")
    if interrupted:
        return 130
    return 1 if any(cell.error for measured in results for cell in measured.cells.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
