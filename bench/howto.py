#!/usr/bin/env python3
"""The figures of docs/howto: servers under load and programs, with hakmem and without, taking turns.

    bench/howto.py LIBRARY [--rounds N] [NAME...]      of redis, nginx, postgresql, jvm, node, python, ruby, go

A server is started anew for each run and gets the same requests; what counts of its memory is the most that was seen
resident meanwhile: the sum over its processes, in which a shared page counts for its share (Pss). A program is run,
and what counts is its time and its peak. What is printed are medians of the rounds' ratios to the run without, of the
same round; hakmem's own statistics have to show that it served. What is not installed is left out, and said.

SPDX-License-Identifier: MIT
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
FIXTURES = HERE.parent / "tests/programs/fixtures"
PATIENCE_S = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def children(pid):
    """The process and its descendants."""
    found = [pid]
    for one in found:
        for task in pathlib.Path(f"/proc/{one}/task").glob("*/children"):
            try:
                found += [int(word) for word in task.read_text().split()]
            except OSError:
                continue
    return found


def resident_mib(pid):
    """Now; what ends while it is looked at has none."""
    kib = 0
    for one in children(pid):
        try:
            text = pathlib.Path(f"/proc/{one}/smaps_rollup").read_text()
        except OSError:
            continue
        kib += int(re.search(r"^Pss: +(\d+)", text, re.MULTILINE)[1])
    return kib / 1024


class Sampler(threading.Thread):
    """The most that was resident, of what is seen five times a second: some servers' processes end with a client."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.most, self.over = pid, 0, threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.2):
            self.most = max(self.most, resident_mib(self.pid))

    def end(self):
        self.over.set()
        self.join()
        return max(self.most, resident_mib(self.pid))


def until(what, server=None):
    due = time.monotonic() + PATIENCE_S
    while not what():
        if server and server.poll() is not None or time.monotonic() > due:
            sys.exit(f"{server and server.args} does not serve: {pathlib.Path('log').read_text()[-2000:]}")
        time.sleep(0.02)


def connects(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


def served(command, port, load, environment, stop=signal.SIGTERM):
    """Requests a second and resident MiB of a server."""
    with open("log", "wb") as log:
        server = subprocess.Popen([str(word) for word in command], env=environment, stdout=log, stderr=log)
    try:
        until(lambda: connects(port), server)
        sampler = Sampler(server.pid)
        rate = load()
        return rate, sampler.end()
    finally:
        server.send_signal(stop)
        try:
            server.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def output(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


def ab(port, requests, path="/", keep=("-k",)):
    text = output("ab", "-q", *keep, "-n", requests, "-c", 20, f"http://127.0.0.1:{port}{path}")
    if "Non-2xx" in text or not re.search(r"Failed requests: +0\n", text):
        sys.exit(text)
    return float(re.search(r"Requests per second: +([\d.]+)", text)[1])


def redis(environment):
    port = free_port()

    def load():
        run = ("redis-benchmark", "-p", port, "-c", 50, "-d", 500, "-r", 100000, "--csv", "-n", 60000)
        rates = [float(line.split('","')[1]) for line in output(*run, "-t", "set,get").splitlines()[1:]]
        return statistics.harmonic_mean(rates)

    return served(["redis-server", "--port", port, "--save", "", "--bind", "127.0.0.1"], port, load, environment)


def nginx(environment):
    port = free_port()
    pathlib.Path("files").mkdir(exist_ok=True)
    pathlib.Path("files/page.txt").write_text("".join(f"line {i * 7919 % 1000}\n" for i in range(1500)))
    os.chmod(".", 0o755)
    text = (FIXTURES / "nginx.conf").read_text().replace("PORT", str(port)).replace("USER", "root")
    pathlib.Path("nginx.conf").write_text(text)
    command = ["nginx", "-p", os.getcwd(), "-c", "nginx.conf", "-e", "stderr"]
    return served(command, port, lambda: ab(port, 20000, "/packed/page.txt"), environment, signal.SIGQUIT)


def postgresql(environment):
    port = free_port()
    # It refuses to be run by root.
    as_user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    user = {"PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "postgres", "PGDATABASE": "postgres"}
    os.environ.update(user)
    fresh = not pathlib.Path("data").exists()
    if fresh:
        if as_user:
            os.chmod(".", 0o777)
            os.chmod("..", 0o755)
        output(*as_user, "initdb", "-D", "data", "-A", "trust", "-U", "postgres", "--no-sync")
    command = [*as_user, "postgres", "-D", "data", "-p", port, "-k", "", "-c", "fsync=off", "-h", "127.0.0.1"]

    def load():
        until(lambda: subprocess.run(["pg_isready", "-q"], check=False).returncode == 0)
        if fresh:
            output("pgbench", "-i", "-q", "-s", "5")
        pathlib.Path("query.sql").write_text(
            "select abalance, count(*), array_agg(aid) from pgbench_accounts where aid % 100 = 7 group by abalance;\n")
        rates = [float(re.search(r"tps = ([\d.]+)", output("pgbench", "-n", *words))[1])
                 for words in (("-S", "-c", "8", "-t", "3000"), ("-f", "query.sql", "-c", "4", "-t", "12"))]
        return statistics.geometric_mean(rates)

    return served(command, port, load, environment, signal.SIGINT)


def node(environment):
    port = free_port()
    return served(["node", HERE / "howto/serve.js", port], port, lambda: ab(port, 6000), environment)


def python(environment):
    port = free_port()
    command = ["gunicorn", "--chdir", HERE / "howto", "-w", 2, "--threads", 4, "-b", f"127.0.0.1:{port}",
               "serve:application"]
    return served(command, port, lambda: ab(port, 2500, keep=()), environment)


def ruby(environment):
    port = free_port()
    command = ["puma", "-q", "-t", "4:4", "-w", 2, "-b", f"tcp://127.0.0.1:{port}", HERE / "howto/serve.ru"]
    return served(command, port, lambda: ab(port, 2500), environment)


def program(command, environment):
    """Runs a second, and peak MiB."""
    begin = time.monotonic()
    with open("log", "wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command}: {pathlib.Path('log').read_text()[-2000:]}")
    return 1 / (time.monotonic() - begin), usage.ru_maxrss / 1024


def jvm(environment):
    if not pathlib.Path("Work.class").exists():
        output("javac", "-d", ".", FIXTURES / "Work.java")
    return program(["java", "-Xmx256m", "-cp", ".", "Work"], environment)


def go(environment):
    if not pathlib.Path("program").exists():
        subprocess.run(["go", "build", "-o", os.path.abspath("program"), "."], cwd=HERE / "howto/cgo", check=True)
    return program(["./program"], environment)


PROGRAMS = {
    "redis": (redis, ["redis-server", "redis-benchmark"]), "nginx": (nginx, ["nginx", "ab"]),
    "postgresql": (postgresql, ["postgres", "initdb", "pgbench"]), "jvm": (jvm, ["java", "javac"]),
    "node": (node, ["node", "ab"]), "python": (python, ["gunicorn", "ab"]), "ruby": (ruby, ["puma", "ab"]),
    "go": (go, ["go", "gcc"]),
}
# What is linked with another allocator is compared with glibc's by preloading the C library itself.
SHIPPED_WITH_ANOTHER = {"redis": "jemalloc"}


def ways(name, library):
    libc = next(pathlib.Path("/lib").glob("*-linux-gnu/libc.so.6"))
    found = {"glibc": {"LD_PRELOAD": str(libc)}} if name in SHIPPED_WITH_ANOTHER else {"glibc": {}}
    found["hakmem"] = {"LD_PRELOAD": str(library), "HAKMEM_STATS_FILE": os.path.abspath("stats/%p")}
    if name in SHIPPED_WITH_ANOTHER:
        found[f"as shipped ({SHIPPED_WITH_ANOTHER[name]})"] = {}
    if name in ("ruby", "python", "jvm", "node"):
        found["glibc, MALLOC_ARENA_MAX=2"] = {"MALLOC_ARENA_MAX": "2"}
    return found


def prove():
    stats = [json.loads(path.read_text()) for path in pathlib.Path("stats").iterdir() if path.stat().st_size]
    if not any(one["refills"] for one in stats):
        sys.exit("hakmem served no process")
    shutil.rmtree("stats")


def measure(name, library, rounds):
    run, _ = PROGRAMS[name]
    plain = {key: value for key, value in os.environ.items()
             if key not in ("LD_PRELOAD",) and not key.startswith(("HAKMEM_", "MALLOC_"))}
    turns = list(ways(name, library).items())
    found = {way: [] for way, _ in turns}
    run(plain)  # does not count: what it reads is colder than for those after it
    for number in range(rounds):
        for way, variables in turns[number % len(turns):] + turns[:number % len(turns)]:
            pathlib.Path("stats").mkdir(exist_ok=True)
            os.chmod("stats", 0o777)
            found[way].append(run(plain | variables))
            if way == "hakmem":
                prove()
    for way, values in found.items():
        ratios = [(own[0] / base[0], own[1] / base[1]) for own, base in zip(values, found["glibc"])]
        rates, memory = zip(*ratios)
        low, high = sorted(rates)[len(rates) // 4], sorted(rates)[-1 - len(rates) // 4]
        print(f"| {name} | {way} | {statistics.median(rates):.2f} | {low:.2f} to {high:.2f} | "
              f"{statistics.median(memory):.2f} | {statistics.median(value[1] for value in values):.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("library", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("names", nargs="*", default=list(PROGRAMS), metavar="NAME")
    options = parser.parse_intermixed_args()
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    print("| program | allocator | requests/s, or speed | middle half | memory | MiB |\n|---|---|---:|---:|---:|---:|")
    for name in options.names:
        missing = [one for one in PROGRAMS[name][1] if shutil.which(one) is None]
        if missing:
            print(f"{name} is left out: there is no {missing[0]}", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory(prefix="hakmem-", dir="/tmp") as place:
            here = os.getcwd()
            os.chdir(tempfile.mkdtemp(dir=place))
            try:
                measure(name, options.library, options.rounds)
            finally:
                os.chdir(here)


if __name__ == "__main__":
    main()
