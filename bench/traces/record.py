#!/usr/bin/env python3
"""Records the traces that suite.toml replays, by `hak trace`, into this directory or another one.

    bench/traces/record.py [--hak FILE] [--library FILE] [--output DIRECTORY] [NAME...]

NAME is redis, python or g++; without one it is all. A trace has the words of the command, sizes and addresses;
so that it has nothing of the machine's, the programs run in a fresh directory, with files that are named without
one, and with no environment but what stands here.

SPDX-License-Identifier: MIT
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAMS = HERE.parent / "programs"
sys.path.insert(0, str(PROGRAMS))
sys.dont_write_bytecode = True
import cc1plus  # noqa: E402
import redis_driver  # noqa: E402

REQUESTS, KEYS = 2000, 6000


class Recorder:
    def __init__(self, hak, library, scratch):
        self.scratch, self.trace = scratch, [hak.resolve(), "trace", "--library", library.resolve()]

    def start(self, output, command, path="/usr/bin:/bin", **environment):
        words = [*self.trace, "--output", output, "--", *command]
        return subprocess.Popen(words, cwd=self.scratch, env={"PATH": path, "LC_ALL": "C.UTF-8"} | environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def run(self, *arguments, **environment):
        must_end_well(self.start(*arguments, **environment))


def must_end_well(process):
    if process.wait() != 0:
        sys.exit(f"record.py: hak trace ended with status {process.returncode}")


def record_gxx(recorder, output):
    compiler, words = cc1plus.compiler()
    shutil.copy(PROGRAMS / "heavy.cpp", recorder.scratch)
    command = [compiler.name, *words, "-std=c++17", "-O1", "-DDEPTH=6", "-o", "/dev/null", "heavy.cpp"]
    recorder.run(output, command, path=f"{compiler.parent}:/usr/bin:/bin")


def record_python(recorder, output):
    subprocess.run([sys.executable, PROGRAMS / "prepare.py", "records", recorder.scratch], check=True)
    shutil.copy(PROGRAMS / "json_records.py", recorder.scratch)
    recorder.run(output, ["python3", "json_records.py", "records-quick.json"], PYTHONMALLOC="malloc",
                 PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1")


def record_redis(recorder, output):
    """A server on a socket: redis-benchmark's commands, all of that dropped, then keys of all sizes, and nine of ten
    deleted."""
    hak = recorder.start(output, ["redis-server", "--port", "0", "--unixsocket", "socket", "--save", "", "--appendonly",
                                  "no", "--daemonize", "no"])
    before = os.getcwd()
    os.chdir(recorder.scratch)  # the path of a socket may have 107 bytes only
    try:
        client = connected(hak)
        redis_driver.load(REQUESTS, KEYS)
        client.ask([(b"FLUSHALL", b"ASYNC")])  # by another thread
        redis_driver.fill(client, KEYS)
        redis_driver.delete_most(client, KEYS)
        client.requests.write(b"*2\r\n$8\r\nSHUTDOWN\r\n$6\r\nNOSAVE\r\n")
        client.requests.flush()
        must_end_well(hak)
    finally:
        os.chdir(before)
        if hak.poll() is None:
            hak.terminate()


def connected(hak):
    deadline = time.monotonic() + 20
    while hak.poll() is None and time.monotonic() < deadline:
        try:
            return redis_driver.Client()
        except OSError:
            time.sleep(0.01)
    sys.exit("record.py: redis-server does not listen")


TRACES = {"redis": record_redis, "python": record_python, "g++": record_gxx}


def main():
    parser = argparse.ArgumentParser(description="records the traces of suite.toml; see the head of this file")
    parser.add_argument("name", nargs="*", help="redis, python or g++; default: all")
    parser.add_argument("--hak", type=Path, default=ROOT / "build" / "hak")
    parser.add_argument("--library", type=Path, default=ROOT / "build" / "libhakmem.so")
    parser.add_argument("--output", type=Path, default=HERE, help="the directory of the traces")
    arguments = parser.parse_args()
    if unknown := set(arguments.name) - TRACES.keys():
        parser.error(f"there is no trace of {', '.join(sorted(unknown))}")
    output = arguments.output.resolve()
    for name in arguments.name or TRACES:
        with tempfile.TemporaryDirectory() as scratch:
            recorder = Recorder(arguments.hak, arguments.library, Path(scratch))
            TRACES[name](recorder, output / f"{name}.trace")


if __name__ == "__main__":
    main()
