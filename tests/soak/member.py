"""What all servers under soak have in common: to be started, loaded, hit by
events, killed and restarted, and ended in order.

SPDX-License-Identifier: MIT
"""
import os
import pathlib
import re
import resource
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "programs"))
import harness  # noqa: E402  (needs the path)
import plan  # noqa: E402
import record  # noqa: E402
import wire  # noqa: E402

UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
# Each limit, what counts against it, and how many bytes a server may still get.
LIMITS = {
    "limit-data": (resource.RLIMIT_DATA, "VmData", (64 << 10, 1 << 20, 4 << 20)),
    # The stack counts, too, and a process whose stack cannot grow is killed,
    # whatever its malloc does: the child that saves Redis' data needs 400 KiB of it.
    "limit-address-space": (resource.RLIMIT_AS, "VmSize", (8 << 20,)),
}


def status_of(pid):
    """The lines of /proc/PID/status with a number, or {} if the process has gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {name: int(value) for name, value in re.findall(r"(?m)^(\w+):\s+(\d+)", text)}


def children_of(pid):
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


class Member:
    """A server under soak. Subclasses say how it is started and what is asked of it."""

    name = ""
    kinds = []  # of events that it can stand
    fatal = [plan.KILL]  # those of them that end a life
    workers_are_server = False  # whether its children's memory counts as its own

    def __init__(self, runner, draw, plant):
        self.runner, self.draw, self.plant = runner, draw, plant
        self.process, self.killed, self.life, self.channels, self.limited = None, False, -1, [], None
        self.unserved = ""  # why hakmem is not known to serve it

    # ---- What subclasses define --------------------------------------------------

    def prepare(self):
        """Once, before the first start."""

    def launch(self):
        """Starts a server and returns its harness.Process when it answers."""
        raise NotImplementedError

    def connect(self):
        """A new channel to the server."""
        raise NotImplementedError

    def step(self, midway=None):
        """Some requests; their Outcomes. `midway` is called when they are on their way."""
        raise NotImplementedError

    def verify(self):
        """After a restart: Outcomes of the look at what should still be there."""
        return []

    def drop(self):
        """Makes the server give up all data. Returns Outcomes."""
        return []

    def trickle(self):
        """A little work, as an idle server has it. Returns Outcomes."""
        return self.step()

    def end(self):
        """Asks the server to end in order, and returns the wanted exit status."""
        raise NotImplementedError

    def may_end_so(self, log):
        """Whether the server, which is short of memory, ends in this way by design."""
        return False

    # ---- What they share -----------------------------------------------------------

    def start(self):
        self.process, self.killed = self.launch(), False
        self.life += 1
        self.runner.servers.clear()  # Only the last life has to leave statistics.
        try:
            self.runner.check_server(self.process)
        except harness.Failure as failure:
            self.unserved = str(failure)
        self.channels = []

    def refresh(self, count):
        """`count` open channels; now and then one of them is new."""
        self.channels = [channel for channel in self.channels if not channel.broken]
        if self.channels and self.draw.random() < 0.2:
            self.channels.pop(0).close()
        while len(self.channels) < count:
            self.channels.append(self.connect())
        return self.channels

    def hang_up(self):
        for channel in self.channels:
            channel.close()
        self.channels = []

    def processes(self):
        """(pid, role) of all that runs: the server's own and what it forked."""
        children = [(pid, "server" if self.workers_are_server else "child") for pid in children_of(self.process.pid)]
        return [(self.process.pid, "server")] + children

    def sample(self):
        """(life, pid, role, resident KiB, swap KiB) of each process."""
        rows = []
        for pid, role in self.processes():
            status = status_of(pid)
            if "VmRSS" in status:
                rows.append((self.life, pid, role, status["VmRSS"], status.get("VmSwap", 0)))
        return rows

    def resident(self):
        return sum(row[3] for row in self.sample() if row[2] == "server")

    def gone(self):
        return self.killed or self.process.ended()

    def kill(self):
        """Kills the server with all that it started; returns how it ended."""
        self.killed = True
        if not self.process.ended():
            self.process.signal(signal.SIGKILL)
        result = self.process.finish()
        # What was killed while it wrote its statistics left half of a file.
        for path in self.runner.statistics().iterdir():
            if not path.read_text().rstrip().endswith("}"):
                path.unlink()
        return result

    def pause(self, seconds):
        """Stops all processes of the server for a while."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.killpg(self.process.pid, signal.SIGCONT)

    def limit(self, kind):
        """Lets each process of the server get only so many bytes from now on; returns how many."""
        which, line, headrooms = LIMITS[kind]
        headroom = self.draw.choice(headrooms)
        for pid, role in self.processes():
            used = status_of(pid).get(line, 0) * 1024
            if role == "server" and used:
                resource.prlimit(pid, which, (used + headroom, resource.RLIM_INFINITY))
        self.limited = kind
        return f"{headroom >> 10} KiB"

    def unlimit(self):
        if self.limited is None:
            return
        for pid, _ in self.processes():
            try:
                resource.prlimit(pid, LIMITS[self.limited][0], UNLIMITED)
            except ProcessLookupError:
                pass
        self.limited = None

    def event(self, kind):
        """Carries out an event of the server's own kinds; returns Outcomes."""
        raise NotImplementedError(kind)


def ask(channels, requests, judge, midway=None):
    """Sends requests[i], a list of (bytes, context), over channels[i]; `judge` turns
    (context, answer, microseconds) into an Outcome. Missing answers are FAILED."""
    batches = [(channel, [text for text, _ in pairs]) for channel, pairs in zip(channels, requests)]
    outcomes = []
    for pairs, answers in zip(requests, wire.exchange(batches, midway)):
        outcomes += [judge(context, answer, time_taken) for (_, context), (answer, time_taken) in zip(pairs, answers)]
        outcomes += [record.Outcome(record.FAILED, 0, "no answer")] * (len(pairs) - len(answers))
    return outcomes
