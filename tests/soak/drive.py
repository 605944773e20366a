"""Drives one server from its first start to its end, in a process of its own,
and writes down what it saw.

A run is bounded by a clock (Timed) or by a number of steps (Counted). Events
happen while requests are on their way, at the times of the plan.

SPDX-License-Identifier: MIT
"""
import contextlib
import os
import pathlib
import re
import signal
import statistics
import sys
import tempfile
import time

import member
import plan
import record
import verdict
from record import FAILED, OK, REFUSED, WRONG

harness = member.harness
CRASHES = 3  # after so many a server is given up
FALL_STEPS = 60  # looks at memory that goes back
FALL_STEP = 0.25  # seconds between them
WARM_UP = 10  # trickles
PACE = 0.02  # seconds of rest after a step, so that all servers together leave the machine some air
# A worker or child that crashed, and that the server itself lives on without.
CRASHED_CHILD = re.compile(r"exited on signal|terminated by signal (?!9)|Redis \S+ crashed by signal")


class Timed:
    """A run of so many seconds. All servers of a run share `begin`."""

    def __init__(self, seconds, begin):
        self.length, self._begin = seconds, begin

    def now(self):
        return time.monotonic() - self._begin

    def advance(self):
        time.sleep(PACE)


class Counted:
    """A run of so many steps."""

    def __init__(self, steps):
        self.length, self._step = steps, 0

    def now(self):
        return float(self._step)

    def advance(self):
        self._step += 1


class Runner(harness.Runner):
    """The harness's, with a way to do without the library for a while; or, on
    purpose, to forget it."""

    plant = None

    def environment(self, changes):
        env = super().environment(changes)
        if self.plant == "no-preload":
            env.pop("LD_PRELOAD", None)
        return env

    def statistics(self):
        return self._stats_directory

    @contextlib.contextmanager
    def without_library(self):
        library, self.library = self.library, None
        try:
            yield
        finally:
            self.library = library


class Drive:
    def __init__(self, server, clock, planned, looks):
        self.server, self.clock, self.planned, self.looks = server, clock, list(planned), looks
        self.record = record.Record(server.name, clock.length)
        self.bucket, self.bucket_at, self.disturbed = [], 0.0, False
        self.limited_until = None
        self.parent = os.getppid()

    # ---- Writing down ----------------------------------------------------------------

    def note(self, kind, detail=""):
        self.record.events.append((self.clock.now(), kind, detail))
        self.disturbed = True

    def count(self, outcomes, excused=()):
        """`excused`: kinds of outcomes that an event accounts for."""
        for outcome in outcomes:
            self.record.requests += 1
            if outcome.kind == WRONG:
                self.record.wrong.append(f"{outcome.detail} at {self.clock.now():.1f}")
            elif outcome.kind != OK and outcome.kind in excused:
                self.record.excused += 1
            elif outcome.kind != OK:
                self.record.errors.append(f"{outcome.detail} at {self.clock.now():.1f}")
        self.bucket += outcomes

    def tick(self):
        """Closes the second, or step, that is over."""
        if self.clock.now() - self.bucket_at < 1:
            return
        if self.bucket:
            self.record.latencies.append(record.summarize(self.bucket_at, self.bucket, self.disturbed))
        self.bucket, self.bucket_at, self.disturbed = [], self.clock.now(), self.server.limited is not None
        self.sample()

    def sample(self):
        at = self.clock.now()
        self.record.samples += [(at, *row) for row in self.server.sample()]

    def read_outputs(self, result):
        text = result.text + result.errors
        self.record.reports += [line for line in text.splitlines() if line.startswith("hakmem:")]
        self.record.crashes += [line for line in text.splitlines()
                                if CRASHED_CHILD.search(line) and not self.server.may_end_so(text)]

    # ---- A server that ends ------------------------------------------------------------

    def restart(self):
        self.limited_until, self.server.limited = None, None
        self.server.start()
        self.count(self.server.verify())

    def kill(self):
        result = self.server.kill()
        self.read_outputs(result)

    def look_whether_it_lives(self):
        """Returns whether the server had ended by itself and was started again."""
        if not self.server.process.ended(0.2):
            return False
        result = self.server.process.finish()
        self.read_outputs(result)
        how = harness.describe_status(result.status)
        if self.server.limited and self.server.may_end_so(result.text + result.errors):
            self.note("ended by design", how)
        else:
            self.note("crash", how)
            last = harness.last_lines(result.errors).strip().splitlines()[-1:]
            self.record.crashes.append(" ".join([f"{how} at {self.clock.now():.1f}"] + last))
            if len(self.record.crashes) >= CRASHES:
                raise harness.Failure("given up after too many crashes")
        self.restart()
        return True

    # ---- The run ---------------------------------------------------------------------------

    def warm_up(self):
        """What is resident when the server knows its work and holds no data."""
        for _ in range(WARM_UP):
            self.count(self.server.trickle())
        self.record.base = self.server.resident()
        self.record.processes = sum(role == "server" for _, role in self.server.processes())

    def load(self):
        while self.clock.now() < self.clock.length:
            if os.getppid() != self.parent:
                sys.exit("the soak is gone")
            at = self.clock.now() / self.clock.length
            if self.limited_until is not None and at >= self.limited_until:
                self.server.unlimit()
                self.limited_until = None
                self.note("unlimited")
                # What was given up half-way while memory was short.
                self.count(self.server.step(), (FAILED, REFUSED))
            elif self.planned and self.planned[0].at <= at:
                self.disturb(self.planned.pop(0))
            else:
                self.step()
            self.clock.advance()
            self.tick()

    def step(self):
        outcomes = self.server.step()
        if any(outcome.kind == FAILED for outcome in outcomes) and self.look_whether_it_lives():
            self.count(outcomes, (FAILED, REFUSED))
        else:
            self.count(outcomes, self.excused())

    def excused(self):
        """What a server that is short of memory may answer."""
        return (FAILED, REFUSED) if self.server.limited else ()

    def disturb(self, event):
        if event.kind == plan.KILL:
            self.note(event.kind)
            self.count(self.server.step(midway=self.kill), (FAILED, *self.excused()))
            self.restart()
            self.disturbed = True
        elif event.kind == "pause":
            self.note(event.kind)
            self.count(self.server.step(midway=lambda: self.server.pause(0.3)), self.excused())
        elif event.kind in member.LIMITS:
            if self.limited_until is None:
                self.note(event.kind, self.server.limit(event.kind))
                self.limited_until = event.at + event.length
        elif self.server.limited is None:
            self.note(event.kind)
            self.count(self.server.event(event.kind))

    def fall(self):
        """The load is over: how much memory goes back while hardly anything happens."""
        self.server.unlimit()
        self.count(self.server.drop(), ())
        last = [row[1] for life in self.record.lives() for row in life[-10:]]
        level = statistics.median(last) if last else self.record.base
        target = verdict.fallen(self.record.base, level, self.record.processes)
        sizes = []
        for _ in range(self.looks):
            self.count(self.server.trickle(), ())
            time.sleep(FALL_STEP)
            sizes.append(self.server.resident())
            self.sample()
            if len(sizes) >= 8 and max(sizes[-4:]) <= target:
                break
        self.record.after = statistics.median(sizes[-4:])

    def end(self):
        self.server.hang_up()
        process = self.server.process
        status = self.server.end()
        if not process.ended(60):
            raise process.failure("does not end when it is asked to")
        result = process.finish()
        self.read_outputs(result)
        if result.status != status:
            self.record.crashes.append(f"at its end it {harness.describe_status(result.status)}")

    def prove_served(self):
        runner = self.server.runner
        try:
            if runner.preloaded:
                harness.prove_served(runner.statistics(), runner.servers)
            self.record.served = self.server.unserved
        except harness.Failure as failure:
            self.record.served = str(failure)

    def run(self):
        try:
            self.server.prepare()
            self.server.start()
            self.warm_up()
            self.load()
            self.note("the load ends")
            self.fall()
            self.end()
            self.prove_served()
        except harness.Failure as failure:
            # A server that does not start, answer or end is as bad as one that crashes.
            self.record.crashes.append(str(failure))
            self.record.served = "its end was not reached"
        return self.record


def drive(kind, seed, library, clock, planned, plant, looks, pipe):
    """The main function of the process that drives a server of class `kind`."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    # A short path: names of sockets may have no more than 107 bytes.
    with tempfile.TemporaryDirectory(prefix="hakmem-soak-", dir="/tmp") as scratch:
        directory, statistics_directory = pathlib.Path(scratch, "work"), pathlib.Path(scratch, "stats")
        directory.mkdir()
        statistics_directory.mkdir()
        runner = Runner(directory, library, statistics_directory)
        runner.plant = plant
        try:
            server = kind(runner, plan.generator(seed, kind.name, "load"), plant)
            pipe.send(Drive(server, clock, planned, looks).run())
        except harness.Skip as reason:
            pipe.send(str(reason))
        finally:
            runner.finish()
