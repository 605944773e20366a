"""What was seen of one server during a run, and the CSV files that keep it.

A record is plain data, so that it can be sent from the process that drives the
server to the one that judges.

SPDX-License-Identifier: MIT
"""
import csv
import dataclasses

import series

OK, REFUSED, FAILED, WRONG = "ok", "refused", "failed", "wrong"


@dataclasses.dataclass
class Outcome:
    """An answered, or unanswered, request. REFUSED: the server is out of memory and
    says so. FAILED: no answer, or an error. WRONG: an answer, but not the right one."""
    kind: str
    microseconds: float = 0.0
    detail: str = ""


@dataclasses.dataclass
class Latency:
    """The requests of one second, or of one step. `disturbed`: an event hit the server then."""
    at: float
    requests: int
    refused: int
    failed: int
    wrong: int
    p50: float
    p999: float
    worst: float
    disturbed: bool


@dataclasses.dataclass
class Record:
    name: str
    length: float = 0.0
    samples: list = dataclasses.field(default_factory=list)  # (at, life, pid, role, resident KiB, swap KiB)
    latencies: list = dataclasses.field(default_factory=list)
    events: list = dataclasses.field(default_factory=list)  # (at, kind, detail)
    crashes: list = dataclasses.field(default_factory=list)
    reports: list = dataclasses.field(default_factory=list)  # lines that start with "hakmem:"
    wrong: list = dataclasses.field(default_factory=list)
    errors: list = dataclasses.field(default_factory=list)  # that no event excuses
    requests: int = 0
    excused: int = 0
    base: int = 0  # resident KiB before any load
    after: int = 0  # and after it
    processes: int = 1  # that the server consists of
    served: str = ""  # why hakmem is not known to have served it

    def lives(self):
        """The resident KiB of the server's own processes over time, per life."""
        totals = {}
        for at, life, _, role, resident, _ in self.samples:
            if role == "server":
                totals.setdefault(life, {}).setdefault(at, 0)
                totals[life][at] += resident
        return [sorted(life.items()) for life in totals.values()]


def summarize(at, outcomes, disturbed):
    """The outcomes of one second as one Latency."""
    times = [outcome.microseconds for outcome in outcomes if outcome.kind == OK] or [0.0]
    count = {kind: sum(outcome.kind == kind for outcome in outcomes) for kind in (REFUSED, FAILED, WRONG)}
    return Latency(at, len(outcomes), count[REFUSED], count[FAILED], count[WRONG], series.percentile(times, 50),
                   series.percentile(times, 99.9), max(times), disturbed)


def write_csv(directory, records, machine_events):
    def table(name, heads, rows):
        with open(directory / name, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(heads)
            writer.writerows(rows)

    table("resident.csv", ["seconds", "server", "life", "pid", "role", "resident_kib", "swap_kib"],
          [(f"{at:.2f}", r.name, *rest) for r in records for at, *rest in r.samples])
    table("latency.csv",
          ["seconds", "server", "requests", "refused", "failed", "wrong", "p50_us", "p999_us", "worst_us", "disturbed"],
          [(f"{p.at:.2f}", r.name, p.requests, p.refused, p.failed, p.wrong, round(p.p50), round(p.p999),
            round(p.worst), int(p.disturbed)) for r in records for p in r.latencies])
    table("events.csv", ["seconds", "server", "event", "detail"],
          [(f"{at:.2f}", r.name, *rest) for r in records for at, *rest in r.events]
          + [(f"{at:.2f}", "machine", *rest) for at, *rest in machine_events])
