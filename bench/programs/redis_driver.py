#!/usr/bin/env python3
"""redis-server under an allocator, loaded by redis-benchmark, then emptied by 90 %.

    redis_driver.py SCRATCH [--requests N] [--keys N] [--idle SECONDS]

HAK_BENCH_PRELOAD names the allocator's library; empty or unset: the C library's
malloc. Prints one line as the workloads do: requests_per_s while it is loaded,
and resident_mib after nine keys of ten are deleted and the server was idle for a
moment. Nothing is written but in SCRATCH, and no port is opened.

Who answered is taken from the server's own dynamic linker (LD_DEBUG=bindings)
and checked against what its process has mapped.

SPDX-License-Identifier: MIT
"""
import argparse
import csv
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

COMMANDS = "set,get,incr,lpush,rpop,sadd,hset,zadd"
LOADED_BYTES = (100, 1000)  # of the values that redis-benchmark writes
OWN_BYTES = (24, 100, 400, 1500)  # of the values that are deleted
FAMILY = ("malloc", "free", "calloc", "realloc", "malloc_usable_size")


class Failure(Exception):
    pass


class Server:
    """A redis-server without persistence on a socket in `directory`."""

    def __init__(self, directory):
        self.directory = directory
        self.log = directory / "server.log"
        # Debian links redis-server to jemalloc: without a preload it is that and
        # not the C library which answers.
        self.allocator = os.environ.get("HAK_BENCH_PRELOAD") or "libc.so.6"
        environment = os.environ | {
            "LD_PRELOAD": self.allocator,
            "LD_BIND_NOW": "1",  # all bindings before the first request
            "LD_DEBUG": "bindings",
            "LD_DEBUG_OUTPUT": str(directory / "bindings"),
        }
        # A relative name: the path of a socket may have 107 bytes only.
        command = ["redis-server", "--port", "0", "--unixsocket", "socket", "--save", "", "--appendonly", "no",
                   "--daemonize", "no", "--dir", str(directory)]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, cwd=directory, env=environment, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=subprocess.STDOUT)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def connect(self):
        deadline = time.monotonic() + 20
        while True:
            if self.process.poll() is not None:
                lines = self.log.read_text(errors="replace").strip().splitlines() or ["no message"]
                raise Failure(f"redis-server ended with status {self.process.returncode}: {lines[-1]}")
            try:
                return Client()
            except OSError as error:
                if time.monotonic() > deadline:
                    raise Failure(f"redis-server does not listen after 20 s: {error}") from None
                time.sleep(0.01)

    def malloc_from(self):
        """The one object that all functions of the family are bound to: the intended one."""
        text = (self.directory / f"bindings.{self.process.pid}").read_text(errors="replace")
        found = re.findall(r"binding file (\S+) \[0\] to (\S+) \[0\]: normal symbol `(\w+)'", text)
        bound = {symbol: target for source, target, symbol in found if "redis" in source and symbol in FAMILY}
        targets = set(bound.values())
        if len(bound) != len(FAMILY) or len(targets) != 1:
            raise Failure(f"redis-server is not served by one allocator: {bound}")
        target = targets.pop()
        if os.path.basename(target) != os.path.basename(self.allocator):
            raise Failure(f"redis-server is served by {target}, not by {self.allocator}")
        mapped = Path(f"/proc/{self.process.pid}/maps").read_text()
        if not any(line.endswith(os.path.realpath(target)) for line in mapped.splitlines()):
            raise Failure(f"{target} is not mapped by redis-server")
        return target

    def memory_mib(self, key):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"^{key}:\s+(\d+) kB", status, re.MULTILINE)[1]) / 1024


class Client:
    """Enough of the protocol for integers and short strings; many commands at a time."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect("socket")
        self.requests, self.answers = self.socket.makefile("wb"), self.socket.makefile("rb")

    def ask(self, commands):
        for words in commands:
            self.requests.write(b"*%d\r\n" % len(words))
            self.requests.writelines(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self.requests.flush()
        return [self.answer() for _ in commands]

    def ask_in_batches(self, commands):
        """As many as go into the socket's buffers at once."""
        answers = []
        for first in range(0, len(commands), 500):
            answers += self.ask(commands[first:first + 500])
        return answers

    def answer(self):
        line = self.answers.readline()
        if not line.endswith(b"\r\n") or line[:1] == b"-":
            raise Failure(f"redis-server answered {line!r}")
        if line[:1] != b"$" or line == b"$-1\r\n":
            return line[1:-2]
        return self.answers.read(int(line[1:]) + 2)[:-2]


def load(requests, keys):
    """Requests per second over all tests, by redis-benchmark's own clock."""
    seconds = total = 0
    for size in LOADED_BYTES:
        # Clients and pipelines as many as it takes for the server to be the bottleneck.
        command = ["redis-benchmark", "-s", "socket", "--csv", "-n", str(requests), "-r", str(keys),
                   "-d", str(size), "-c", "16", "-P", "32", "-t", COMMANDS]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise Failure(f"redis-benchmark ended with status {done.returncode}: {lines[0]}")
        for row in csv.DictReader(done.stdout.splitlines()):
            total += requests
            seconds += requests / float(row["rps"])
    return total, seconds


def fill(client, keys):
    """Strings of all sizes under names of their own, each one known."""
    client.ask_in_batches([(b"SET", b"own:%d" % key, value_of(key)) for key in range(keys)])


def value_of(key):
    unit = b"%d " % key
    return unit * (OWN_BYTES[key * 7919 % len(OWN_BYTES)] // len(unit))


def delete_most(client, keys):
    """Nine keys of ten, in no order: the tenth is left between the holes."""
    survivors = range(0, keys, 10)
    doomed = sorted((key for key in range(keys) if key % 10), key=lambda key: key * 2654435761 % (1 << 32))
    client.ask_in_batches([(b"DEL", b"own:%d" % key) for key in doomed])
    kept = client.ask_in_batches([(b"GET", b"own:%d" % key) for key in survivors])
    if kept != [value_of(key) for key in survivors]:
        raise Failure("redis-server lost or damaged a value")
    if client.ask([(b"EXISTS", b"own:%d" % doomed[0])]) != [b"0"]:
        raise Failure("redis-server kept a deleted key")


def measure(server, arguments):
    client = server.connect()
    malloc_from = server.malloc_from()
    requests, seconds = load(arguments.requests, arguments.keys)
    # What redis-benchmark wrote depends on timing; from here on it does not.
    client.ask([(b"FLUSHALL", b"SYNC")])
    fill(client, arguments.keys)
    full = server.memory_mib("VmRSS")
    delete_most(client, arguments.keys)
    time.sleep(arguments.idle)
    return {
        "workload": "redis",
        "requests": requests,
        "keys": arguments.keys,
        "seconds": f"{seconds:.6g}",
        "requests_per_s": f"{requests / seconds:.0f}",
        "full_mib": f"{full:.6g}",
        "peak_mib": f"{server.memory_mib('VmHWM'):.6g}",
        "resident_mib": f"{server.memory_mib('VmRSS'):.6g}",
        "metric": "requests_per_s",
        "memory": "resident_mib",
        "malloc_from": malloc_from,
        "check": "ok",
    }


def whole_number(text):
    value = int(text)
    if not 1000 <= value <= 100_000_000:
        raise argparse.ArgumentTypeError("must be from 1000 to 100000000")
    return value


def main():
    parser = argparse.ArgumentParser(description="redis-server under an allocator; see the head of this file")
    parser.add_argument("scratch", type=Path, help="directory for the socket and the logs")
    parser.add_argument("--requests", type=whole_number, default=40_000, help="of each command and value size")
    parser.add_argument("--keys", type=whole_number, default=60_000, help="that are written, and deleted but for a tenth")
    parser.add_argument("--idle", type=float, default=2, help="seconds between the deletion and the memory figure")
    arguments = parser.parse_args()
    scratch = arguments.scratch.resolve()
    # Whoever ends this script ends the server too: `finally` runs.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("redis_driver.py: terminated"))
    server = None
    try:
        os.chdir(scratch)
        server = Server(scratch)
        result = measure(server, arguments)
    except (Failure, OSError) as error:
        sys.exit(f"redis_driver.py: {error}")
    finally:
        if server:
            server.stop()
    print(*(f"{key}={value}" for key, value in result.items()))


if __name__ == "__main__":
    main()
