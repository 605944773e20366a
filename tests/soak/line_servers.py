"""The servers under soak that are programs of ours: a C++ program of many
threads, a JVM and node. All answer `work SEED` with a result that is the
seed's alone; what the same program answers under the system's malloc is right.

SPDX-License-Identifier: MIT
"""
import pathlib

import member
import plan
import record
import wire

SERVERS = pathlib.Path(__file__).resolve().parent / "servers"
SEEDS = 32
PLANTED_ONCE = ("crash", "double-free")  # trouble that the next life is free of


class LineServer(member.Member):
    connections, pipeline = 4, 2
    kinds = [plan.KILL, "pause"]

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.address = str(self.runner.directory / f"{self.name}.socket")
        self.expected = {}

    def command(self):
        raise NotImplementedError

    def prepare(self):
        """Asks the program under the system's malloc what is right."""
        with self.runner.without_library():
            process = self.launch()
            pairs = [(f"work {seed}\n".encode(), seed) for seed in range(SEEDS)]
            member.ask([self.connect()], [pairs], self.learn)
            process.finish()
        if len(self.expected) < SEEDS:
            raise process.failure("does not answer under the system's malloc")

    def learn(self, seed, answer, _):
        self.expected[seed] = answer
        return record.Outcome(record.OK)

    def launch(self):
        pathlib.Path(self.address).unlink(missing_ok=True)
        planted = self.plant if self.expected and (self.life < 0 or self.plant not in PLANTED_ONCE) else ""
        process = self.runner.start(*self.command(), env={"SOAK_PLANT": planted or ""})
        member.harness.wait_until(self.listens, process, "it listens", timeout=60)
        return process

    def listens(self):
        channel = self.connect()
        connected = not channel.broken
        channel.close()
        return connected

    def connect(self):
        return wire.Channel(self.address, wire.LineReader())

    def step(self, midway=None):
        return self.work(self.refresh(self.connections), midway)

    def work(self, channels, midway=None):
        requests = []
        for _ in channels:
            seeds = [self.draw.randrange(SEEDS) for _ in range(self.pipeline)]
            requests.append([(f"work {seed}\n".encode(), self.expected[seed]) for seed in seeds])
        return member.ask(channels, requests, self.judge, midway)

    @staticmethod
    def judge(expected, answer, microseconds):
        if answer == expected:
            return record.Outcome(record.OK, microseconds)
        if answer == "refused":
            return record.Outcome(record.REFUSED, microseconds, "it is out of memory")
        return record.Outcome(record.WRONG, microseconds, f"answers `{answer}` instead of `{expected}`")

    def drop(self):
        return member.ask(self.refresh(1), [[(b"drop\n", "ok 0")]], self.judge)

    def trickle(self):
        # What it keeps of this again is dropped, too.
        channels = self.refresh(1)
        return self.work(channels) + member.ask(channels, [[(b"drop\n", "ok 0")]], self.judge)

    def end(self):
        wire.exchange([(self.connect(), [b"quit\n"])])
        return 0


class Threads(LineServer):
    name = "threads"
    kinds = LineServer.kinds + ["limit-data", "limit-address-space"]
    program = None  # run.py sets it to where the build has put it

    def command(self):
        return [self.program, self.address]


class Java(LineServer):
    """No limits: HotSpot ends itself when its own threads get no memory. Its heap
    has one size, so that what moves is native memory."""
    name = "java"

    def prepare(self):
        member.harness.require("javac", "java")
        self.runner.run("javac", "-J-Xshare:auto", "-nowarn", "-d", ".", SERVERS / "Soak.java")
        super().prepare()

    def command(self):
        return ["java", "-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC", "-cp", ".", "Soak",
                self.address]


class Node(LineServer):
    """No limits: V8 ends itself when it gets no memory."""
    name = "node"

    def prepare(self):
        member.harness.require("node")
        super().prepare()

    def command(self):
        return ["node", "--expose-gc", "--max-old-space-size=128", SERVERS / "soak.js", self.address]
