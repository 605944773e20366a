#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Proves that each library of peers.json serves programs, and that it is what it is called.

    bench/peers/check.py [--peers build/peers] [--workloads build/bench]

For each: the functions that it exports; who answers a process that preloads it, and whether its
blocks are its own; programs that must behave as they do without it. Exit status 1 if anything fails.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TIMEOUT_SECONDS = 120

C_FUNCTIONS = """malloc calloc realloc free memalign posix_memalign aligned_alloc malloc_usable_size
    valloc pvalloc""".split()

# operator new and delete: plain, array, nothrow, sized, aligned. Those that a library leaves out
# (other nothrow and sized forms) come down to these in the C++ library.
CXX_OPERATORS = """_Znwm _Znam _ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t _ZnwmSt11align_val_t
    _ZnamSt11align_val_t _ZdlPv _ZdaPv _ZdlPvm _ZdaPvm _ZdlPvSt11align_val_t
    _ZdaPvSt11align_val_t""".split()

# What each says of itself; {version} is that of peers.json.
IDENTITY = {
    "mimalloc3": "mimalloc {version}",
    "snmalloc": "snmalloc",
    "rpmalloc": "rpmalloc",
    "jemalloc": "jemalloc {version}-",
    "tcmalloc": "tcmalloc per-CPU caches",
}

PYTHON = """
import json, threading
def work(n):
    data = {str(i): list(range(i % 50)) for i in range(n)}
    assert json.loads(json.dumps(data)) == data
threads = [threading.Thread(target=work, args=(3000,)) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sum(len(str(i) * 3) for i in range(100000)))
"""
PERL = """
my %h; $h{$_ % 5000} .= "x" x ($_ % 37) for 1 .. 200000;
print join(",", map { length } @h{1 .. 20}), "\\n";
print qx(echo child);
"""


class Failure(Exception):
    """What a check found wrong."""


def require(condition, message):
    if not condition:
        raise Failure(message)


def run(command, peer=None):
    """Standard output of a command that must end well and say nothing else."""
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "GLIBC_TUNABLES")}
    environment["PYTHONMALLOC"] = "malloc"
    if peer:
        environment.update(peer["environment"], LD_PRELOAD=str(peer["path"]))
    try:
        done = subprocess.run(
            [str(word) for word in command], env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise Failure(f"{command[0]}: no end after {TIMEOUT_SECONDS} s") from None
    except OSError as error:
        raise Failure(f"{command[0]}: {error.strerror}") from None
    told = (done.stderr.strip() or done.stdout.strip())[-500:]
    require(done.returncode == 0, f"{command[0]}: status {done.returncode}: {told}")
    # A library that cannot be preloaded is no more than a line here.
    require(not done.stderr.strip(), f"{command[0]}: {told}")
    return done.stdout


def check_symbols(peer, _tools):
    defined = {
        line.split()[-1].split("@")[0]
        for line in run(["nm", "-D", "--defined-only", peer["path"]]).splitlines()
    }
    missing = [name for name in C_FUNCTIONS + CXX_OPERATORS if name not in defined]
    require(not missing, "does not define " + " ".join(missing))


def check_thread_local(peer, _tools):
    """Variables of a thread are reached at fixed offsets, without a call."""
    require("STATIC_TLS" in run(["readelf", "-dW", peer["path"]]), "no initial-exec TLS")


def check_identity(peer, tools):
    answers = dict(re.findall(r"^(.*?)=(.*)$", run([tools["whose"]], peer), re.MULTILINE))
    for name in C_FUNCTIONS:
        origin = answers.get(f"from {name}", "")
        require(origin and os.path.realpath(origin) == os.path.realpath(peer["path"]),
                f"{name} comes from {origin}")
    require(peer["name"] in IDENTITY, "its identity is not known to this check")
    expected = IDENTITY[peer["name"]].format(version=peer["version"])
    identity = answers.get("identity", "")
    require(identity.startswith(expected), f"says {identity!r}, not {expected!r}")
    require(answers.get("owns a local variable", "no") == "no", "owns what it never returned")
    owned = {name: value for name, value in answers.items() if name.startswith("owns ")}
    require("owns malloc" in owned, "the probe did not finish")
    foreign = [name[5:] for name, value in owned.items()
               if value != "yes" and name != "owns a local variable"]
    require(not foreign, "does not own the blocks of " + ", ".join(foreign))


def check_exercise(peer, tools):
    require(run([tools["exercise"]], peer) == "ok\n", "exercise did not say ok")


def same_output(command):
    def check(peer, _tools):
        expected = run(command)
        require(expected, f"{command[0]} printed nothing")
        require(run(command, peer) == expected, f"{command[0]}: output differs from glibc's")
    return check


def workload(*command):
    def check(peer, tools):
        program = tools["workloads"] / command[0]
        if not program.exists():
            return f"no {program}"
        line = dict(word.split("=", 1) for word in run([program, *command[1:]], peer).split() if "=" in word)
        require(line.get("check") == "ok", f"{command[0]}: check={line.get('check')}")
        origin = Path(line.get("malloc_from", "")).name
        require(origin == peer["path"].name, f"{command[0]}: served by {origin}")
        return None
    return check


CHECKS = {
    "exports the malloc family": check_symbols,
    "initial-exec TLS": check_thread_local,
    "answers and owns its blocks": check_identity,
    "C++, threads, fork": check_exercise,
    "python3": same_output(["python3", "-c", PYTHON]),
    "perl": same_output(["perl", "-e", PERL]),
    "random_mixed --verify": workload("random_mixed", "--seconds", "0.5", "--verify"),
    "larson --verify": workload("larson", "--threads", "2", "--seconds", "0.5", "--verify"),
}


def control(tools, directory):
    """The checks fail where they must: without a peer, and with a library that serves nothing."""
    without = run([tools["whose"]])
    require("identity=unknown" in without and "owns malloc=no" in without,
            "the probe sees a peer where none is")
    empty = directory / "libempty.so"
    compile_program(directory, "empty.c", "cc", ["-shared", "-fPIC"], empty, text="int nothing;\n")
    fake = {"name": "mimalloc3", "version": "0", "path": empty, "environment": {}}
    for check in (check_symbols, check_thread_local, check_identity):
        try:
            check(fake, tools)
        except Failure:
            continue
        raise Failure(f"{check.__name__} passes for a library without malloc")


def compile_program(directory, source, default, flags, program, text=None):
    path = HERE / "check" / source
    if text is not None:
        path = directory / source
        path.write_text(text)
    compiler = os.environ.get("CXX" if default == "c++" else "CC") or default
    run([compiler, "-O1", *flags, path, "-o", program])


def compile_tools(directory, workloads):
    tools = {"whose": directory / "whose", "exercise": directory / "exercise", "workloads": workloads}
    compile_program(directory, "whose.c", "cc", [], tools["whose"])
    compile_program(directory, "exercise.cpp", "c++", ["-std=c++17", "-pthread"], tools["exercise"])
    return tools


def read_peers(directory):
    path = directory / "peers.json"
    try:
        peers = json.loads(path.read_text())
        for peer in peers:
            peer["path"] = directory / peer["library"]
            peer["name"], peer["version"], peer["environment"]  # must be there
    except OSError as error:
        sys.exit(f"check.py: {path}: {error.strerror}; build the peers first, see {HERE / 'README.md'}")
    except (ValueError, KeyError, TypeError) as error:
        sys.exit(f"check.py: {path} is not a list of peers: {error!r}")
    if not peers:
        sys.exit(f"check.py: {path} lists no peer")
    return peers


def main():
    parser = argparse.ArgumentParser(description="Check the shared objects of bench/peers.")
    parser.add_argument("--peers", type=Path, default=ROOT / "build/peers", metavar="DIR")
    parser.add_argument("--workloads", type=Path, default=ROOT / "build/bench", metavar="DIR")
    options = parser.parse_args()
    peers = read_peers(options.peers.resolve())
    lacking = [tool for tool in ("nm", "readelf", "perl", "python3") if not shutil.which(tool)]
    if lacking:
        sys.exit("check.py: not on the PATH: " + ", ".join(lacking))

    counts = {"passed": 0, "failed": 0, "skipped": 0}

    def report(result, name, why=None):
        counts[result] += 1
        print(f"{result:8}{name}" + (f": {why}" if why else ""), flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        try:
            tools = compile_tools(directory, options.workloads.resolve())
            control(tools, directory)
            report("passed", "control")
        except Failure as failure:
            sys.exit(f"check.py: {failure}")
        for peer in peers:
            for name, check in CHECKS.items():
                try:
                    skipped = check(peer, tools)
                    report("skipped" if skipped else "passed", f"{peer['name']}: {name}", skipped)
                except Failure as failure:
                    report("failed", f"{peer['name']}: {name}", failure)

    print(", ".join(f"{count} {result}" for result, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
