"""What every program test shares.

A test is a function that takes a `Runner` and returns a dictionary of named
outputs. `both(test)` calls it twice, in two directories of the same name: once
as the system is, once with libhakmem preloaded into everything the runner
starts. It then demands that

  - both calls returned the same outputs, and
  - hakmem served the second one: its statistics file exists for at least one
    process and counts refills, and no process reported a faulty free.

`main_once(test)` calls it under hakmem alone, for tests that compare with something else.
`main(test)` turns this into an exit status: 0 passed, 77 skipped, else failed.
The library under test comes in the environment variable HAKMEM_LIB.

SPDX-License-Identifier: MIT
"""
import difflib
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

FIXTURES = pathlib.Path(__file__).resolve().parent / "fixtures"
PROJECT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
SHOWN_LINES = 25  # of an output in a failure message

# Administrators' programs, such as nginx, are not on everyone's PATH.
os.environ["PATH"] += ":/usr/sbin:/sbin"


class Failure(Exception):
    """The program does not behave as it should; says what a user would see."""


class Skip(Exception):
    """The test cannot be made on this machine; says why."""


class Result:
    """How a finished command ended."""

    def __init__(self, status, stdout, stderr):
        self.status, self.stdout, self.stderr = status, stdout, stderr

    @property
    def text(self):
        return self.stdout.decode(errors="replace")

    @property
    def errors(self):
        return self.stderr.decode(errors="replace")


def describe_status(status):
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def last_lines(text):
    lines = text.splitlines()
    dropped = len(lines) - SHOWN_LINES
    head = [f"[{dropped} lines before]"] if dropped > 0 else []
    return "\n".join("    " + line for line in head + lines[-SHOWN_LINES:])


class Process:
    """A command in a process group of its own, so that it can be ended with all
    that it started and nothing else. Its outputs go to files: a descendant that
    lives on cannot keep the test waiting for the end of a pipe."""

    def __init__(self, command, title, cwd, env, stdin=None):
        self.command, self.title = [str(part) for part in command], title
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self._popen = subprocess.Popen(
            self.command, cwd=cwd, env=env, start_new_session=True,
            stdin=stdin or subprocess.DEVNULL, stdout=self._out, stderr=self._err)
        self.pid = self._popen.pid
        self._pidfd = os.pidfd_open(self.pid)

    def ended(self, timeout=0):
        """Whether the process ends within `timeout` seconds. Does not reap it:
        until `finish` its id, and so that of its group, stays its own."""
        return bool(select.select([self._pidfd], [], [], timeout)[0])

    def signal(self, number):
        signal.pidfd_send_signal(self._pidfd, number)

    def finish(self):
        """Ends what is left of the group and gives the result."""
        if self._popen.returncode is None:
            os.killpg(self.pid, signal.SIGKILL)
            self._popen.wait()
            os.close(self._pidfd)
        return Result(self._popen.returncode, self._read(self._out), self._read(self._err))

    def failure(self, symptom):
        result = self.finish()
        parts = [f"{self.title}: `{' '.join(self.command)}` {symptom}"]
        for name, content in (("stdout", result.text), ("stderr", result.errors)):
            if content.strip():
                parts.append(f"  {name}:\n{last_lines(content)}")
        return Failure("\n".join(parts))

    @staticmethod
    def _read(file):
        file.seek(0)
        return file.read()


class Runner:
    """Runs commands in `directory`, with or without the library."""

    def __init__(self, directory, library, stats_directory):
        self.directory, self.library = directory, library
        self.title = "under hakmem" if library else "without hakmem"
        self.servers = []
        self._stats_directory, self._processes = stats_directory, []

    @property
    def preloaded(self):
        return self.library is not None

    def environment(self, changes):
        # No allocator setting of the caller may reach the program: neither its
        # own preload, nor HAKMEM_LIB, which the library would report as unknown.
        env = {name: value for name, value in os.environ.items()
               if name != "LD_PRELOAD" and not name.startswith(("HAKMEM_", "MALLOC_", "PYTHON"))}
        env.update(LC_ALL="C.UTF-8", TZ="UTC")
        if self.preloaded:
            env["LD_PRELOAD"] = str(self.library)
            # One file per process: children inherit the variable.
            env["HAKMEM_STATS_FILE"] = str(self._stats_directory / "%p.json")
        env.update(changes or {})
        return env

    def start(self, *command, env=None, stdin=None):
        """Starts a command and returns its Process, for servers."""
        process = Process(command, self.title, self.directory, self.environment(env), stdin)
        self._processes.append(process)
        return process

    def wait(self, process, timeout=180, status=0):
        """Waits for the end of a process and demands its exit status; with
        status=None any status that is not a crash."""
        if not process.ended(timeout):
            raise process.failure(f"did not end within {timeout} s")
        result = process.finish()
        if result.status < 0 if status is None else result.status != status:
            wanted = "" if status is None else f", expected {status}"
            raise process.failure(f"{describe_status(result.status)}{wanted}")
        return result

    def run(self, *command, env=None, stdin=None, timeout=180, status=0):
        """Runs a command to its end; `stdin` is a path."""
        if stdin is None:
            return self.wait(self.start(*command, env=env), timeout, status)
        with open(stdin, "rb") as file:
            return self.wait(self.start(*command, env=env, stdin=file), timeout, status)

    def check_server(self, process):
        """Demands that the library is in the address space of this very process,
        and later that it served it: a client's statistics are not enough."""
        self.servers.append(process)
        if not self.preloaded:
            return
        maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text()
        if str(self.library) not in maps:
            raise Failure(f"`{process.command[0]}` runs without {self.library}: the preload did not reach it")

    def finish(self):
        for process in self._processes:
            process.finish()


def wait_until(condition, process, what, timeout=120):
    """Polls until condition() holds. Fails when `process` ends before that."""
    deadline = time.monotonic() + timeout
    while not condition():
        if process.ended():
            raise process.failure(f"ended before {what}")
        if time.monotonic() > deadline:
            raise process.failure(f"runs, but for {timeout} s the test waited in vain until {what}")
        time.sleep(0.02)


def can_connect(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


def free_port():
    """A TCP port of the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def require(*programs):
    """Skips the test unless the programs are on the PATH."""
    for program in programs:
        if shutil.which(program) is None:
            raise Skip(f"{program} is not installed; `scripts/deps test` installs it")


def difference(name, plain, preloaded):
    if isinstance(plain, bytes) and isinstance(preloaded, bytes):
        try:
            plain, preloaded = plain.decode(), preloaded.decode()
        except UnicodeDecodeError:
            at = next((i for i, (a, b) in enumerate(zip(plain, preloaded)) if a != b),
                      min(len(plain), len(preloaded)))
            return f"{name}: {len(plain)} and {len(preloaded)} bytes, the first difference is at byte {at}"
    if isinstance(plain, str) and isinstance(preloaded, str):
        lines = difflib.unified_diff(plain.splitlines(), preloaded.splitlines(),
                                     "without hakmem", "under hakmem", "", "", 1, "")
        shown = [line for line, _ in zip(lines, range(SHOWN_LINES))]
        return f"{name}:\n" + "\n".join("    " + line for line in shown)
    return f"{name}: {plain!r} without hakmem, {preloaded!r} under hakmem"


def compare(plain, preloaded):
    if plain.keys() != preloaded.keys():
        odd = ", ".join(sorted(plain.keys() ^ preloaded.keys()))
        raise Failure(f"outputs that only one of the two runs has: {odd}")
    for name in plain:
        if plain[name] != preloaded[name]:
            raise Failure(f"the output under hakmem differs in {difference(name, plain[name], preloaded[name])}")


def prove_served(stats_directory, servers):
    """Demands from the library's own counters that it served the run, and each
    of the servers, and that it saw no faulty free."""
    for server in servers:
        if not (stats_directory / f"{server.pid}.json").exists():
            raise Failure(f"`{server.command[0]}` ended without writing its HAKMEM_STATS_FILE")
    refills, processes = 0, 0
    for path in stats_directory.iterdir():
        try:
            stats = json.loads(path.read_text())
        except ValueError as error:
            raise Failure(f"HAKMEM_STATS_FILE: {path.name} is not JSON ({error}): {path.read_text()[:200]!r}")
        if stats["errors"]:
            raise Failure(f"process {path.stem}: hakmem reported {stats['errors']} faulty frees in a correct program")
        refills += stats["refills"]
        processes += stats["refills"] > 0
    if refills == 0:
        raise Failure("hakmem served no process of the preloaded run: no statistics file counts a refill")
    return f"hakmem served {processes} processes with {refills} refills"


def both(test):
    """Runs `test` without and with the library and compares; see above."""
    library = pathlib.Path(os.environ["HAKMEM_LIB"]).resolve()
    # A short path: names of sockets may have no more than 107 bytes.
    with tempfile.TemporaryDirectory(prefix="hakmem-", dir="/tmp") as scratch:
        outputs, seconds = [], []
        for preload in (None, library):
            directory = pathlib.Path(scratch, "work")
            stats_directory = pathlib.Path(scratch, "stats")
            directory.mkdir()
            stats_directory.mkdir(exist_ok=True)
            runner = Runner(directory, preload, stats_directory)
            begin = time.monotonic()
            try:
                outputs.append(test(runner))
            finally:
                runner.finish()
            seconds.append(time.monotonic() - begin)
            shutil.rmtree(directory)
        compare(*outputs)
        served = prove_served(stats_directory, runner.servers)
        same = ", ".join(outputs[0]) if len(outputs[0]) < 6 else f"{len(outputs[0])} outputs"
        print(f"same {same}; {served}; {seconds[0]:.1f} s without, {seconds[1]:.1f} s under hakmem")


def once(test):
    """Runs `test` under the library alone, where there is nothing to compare with."""
    library = pathlib.Path(os.environ["HAKMEM_LIB"]).resolve()
    with tempfile.TemporaryDirectory(prefix="hakmem-", dir="/tmp") as scratch:
        directory, stats_directory = pathlib.Path(scratch, "work"), pathlib.Path(scratch, "stats")
        directory.mkdir()
        stats_directory.mkdir()
        runner = Runner(directory, library, stats_directory)
        try:
            test(runner)
        finally:
            runner.finish()


def main_once(test):
    main(test, once)


def main(test, how=both):
    # A test that is told to stop cleans up like one that fails.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    library = os.environ.get("HAKMEM_LIB", "")
    if not os.path.isfile(library):
        sys.exit(f"HAKMEM_LIB has to name the library to test, but is {library!r}")
    try:
        how(test)
    except Skip as reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    except Failure as failure:
        sys.exit(f"FAILED: {failure}")
