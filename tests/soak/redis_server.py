"""redis-server under soak. With `appendfsync always`, no write that it has
acknowledged may be lost when it is killed; a ledger holds it to that.

Redis ends itself by design when malloc gives it nothing; it says so in its log,
and comes back with all its data.

SPDX-License-Identifier: MIT
"""
import zlib

import ledger
import member
import plan
import record
import wire

CONNECTIONS, PIPELINE = 4, 12
KEYS = 1500  # of each connection
LARGEST = 14  # values have up to two to this power bytes
TEXT = bytes(i * 7919 % 251 for i in range(1 << 17))


def request(*words):
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def value_of(key, version):
    """The value that a key has in a version: any damage shows."""
    at = zlib.crc32(f"{key} {version}".encode())
    size = (1 << 4 + at % (LARGEST - 4)) + (at >> 8) % 1000
    return b"%d " % version + TEXT[at % 65536:at % 65536 + size]


class Redis(member.Member):
    name = "redis"
    kinds = [plan.KILL, "pause", "bgsave", "rewrite", "limit-data", "limit-address-space"]
    fatal = [plan.KILL, "limit-data", "limit-address-space"]  # it ends itself when malloc gives it nothing

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.ledger, self.versions = ledger.Ledger(), 0
        self.address = str(self.runner.directory / "redis.socket")

    def launch(self):
        process = self.runner.start(
            "redis-server", "--port", "0", "--unixsocket", self.address, "--dir", self.runner.directory, "--save", "",
            "--daemonize", "no", "--io-threads", "2", "--appendonly", "yes", "--appendfsync", "always",
            "--stop-writes-on-bgsave-error", "no", "--auto-aof-rewrite-min-size", "32mb")
        member.harness.wait_until(self.answers, process, "it answers", timeout=60)
        return process

    def answers(self):
        channel = self.connect()
        [answers] = wire.exchange([(channel, [request("PING")])])
        channel.close()
        return answers[:1] != [] and answers[0][0] == ("PONG",)

    def connect(self):
        return wire.Channel(self.address, wire.RespReader())

    # ---- Load ------------------------------------------------------------------------

    def step(self, midway=None):
        channels = self.refresh(CONNECTIONS)
        requests = [[pair for _ in range(PIPELINE) for pair in self.requests(i)] for i in range(CONNECTIONS)]
        if self.limited and self.draw.random() < 0.1:
            # More than the limit leaves, if nothing of that size is free.
            requests[0] += [(request("SET", "large", TEXT * 96), None), (request("DEL", "large"), None)]
        return member.ask(channels, requests, self.judge, midway)

    def requests(self, connection):
        """One to three requests of one kind, for keys that only this connection writes."""
        number, choice = self.draw.randrange(KEYS), self.draw.random()
        if choice < 0.1:
            churned = f"churn:{connection}:{number % 20}"
            return [(request("RPUSH", churned, TEXT[:self.draw.randrange(600)]), None),
                    (request("ZADD", churned + "z", number, f"member{number}"), None),
                    (request("LTRIM", churned, -100, -1), None)]
        words = ("SET", "GET", "DEL", f"string:{connection}:{number}")
        if choice < 0.25:
            words = ("HSET", "HGET", "HDEL", f"hash:{connection}:{number % 10}", f"field{number}")
        write, read, delete, *key = words
        if self.draw.random() < 0.4:
            return [(request(read, *key), ("read", " ".join(key)))]
        self.versions += 1
        if self.draw.random() < 0.1:
            return [self.written(request(delete, *key), " ".join(key), -self.versions)]
        name = " ".join(key)
        return [self.written(request(write, *key, value_of(name, self.versions)), name, self.versions)]

    def written(self, text, name, version):
        self.ledger.sent(name, version)
        return text, ("write", name)

    def judge(self, context, answer, microseconds, restarted=False):
        value, = answer
        if isinstance(value, Exception):
            if context and context[0] == "write":
                self.ledger.refused(context[1])
            out_of_memory = str(value).startswith("OOM")
            return record.Outcome(record.REFUSED if out_of_memory else record.FAILED, microseconds, str(value))
        problem = None
        if context and context[0] == "write":
            self.ledger.acknowledged(context[1])
        elif context:
            problem = self.judge_value(context[1], value, restarted)
        return record.Outcome(record.WRONG if problem else record.OK, microseconds, problem or "")

    def judge_value(self, name, value, restarted):
        version = 0
        if value is not None:
            digits = value.split(b" ", 1)[0]
            version = int(digits) if digits.isdigit() else -1
            if value != value_of(name, version):
                return f"{name}: the value of version {version} is damaged"
        return (self.ledger.judge_restarted if restarted else self.ledger.judge_running)(name, version)

    # ---- Events ------------------------------------------------------------------------

    def verify(self):
        if self.plant == "loss":
            # On purpose, and unknown to the ledger.
            wire.exchange([(self.connect(), [request("DEL", name.split()[0]) for name in self.ledger.keys()[:20]])])
        names, outcomes = self.ledger.keys(), []
        for first in range(0, len(names), 500):
            channel = self.connect()
            pairs = [(request("GET" if " " not in name else "HGET", *name.split()), ("read", name))
                     for name in names[first:first + 500]]
            outcomes += member.ask([channel], [pairs], lambda *parts: self.judge(*parts, restarted=True))
            channel.close()
        return outcomes

    def event(self, kind):
        words = {"bgsave": "BGSAVE", "rewrite": "BGREWRITEAOF"}
        # Refused while another child works, which is an answer like any other.
        wire.exchange([(self.refresh(CONNECTIONS)[0], [request(words[kind])])])
        return []

    def may_end_so(self, log):
        return "Out Of Memory allocating" in log

    # ---- The end -------------------------------------------------------------------------

    def drop(self):
        outcomes = self.verify()
        self.ledger.clear()
        outcomes += member.ask(self.refresh(CONNECTIONS)[:1], [[(request("FLUSHALL"), None)]], self.judge)
        return outcomes

    def trickle(self):
        pairs = [(request("SET", f"trickle{i}", TEXT[:self.draw.randrange(1 << self.draw.randrange(4, LARGEST))]), None)
                 for i in range(500)]
        return member.ask(self.refresh(1), [pairs], self.judge)

    def end(self):
        wire.exchange([(self.connect(), [request("SHUTDOWN")])])
        return 0
