"""In a control group whose memory ends: programs that live under hakmem, and are killed without it.

Usage: test_container.py python|phases|threads [WORD... PROGRAM]

  python            reads records into large buffers, keeps a small key of each, and goes on to larger
                    buffers: the C library's heap keeps the gaps between the keys, and grows
  phases, threads   the program `limited_program phases`, without a second thread and with one: it
                    lives because hakmem looks at the group, and is killed with HAKMEM_INT=off. The words
                    before it start it under a filter of system calls (tests/life/filtered_program.c)

Needs a memory controller, of version 1 or 2, in which groups can be made: mostly by root, outside of
containers. The group lies below our own, and is removed afterwards.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys

import harness

MIB = 1 << 20
RECORDS = """
kept = []
for size in (16000, 24000, 36000, 54000):
    count = 160_000_000 // size
    records = [(bytearray(size), b"key" * 200 + i.to_bytes(8, "little")) for i in range(count)]
    kept.append([key for _, key in records])
    del records
print("ok", sum(map(len, kept)))
"""


class Group:
    """A control group of our own with a limit."""

    def __init__(self, limit):
        self.place, self.limit_file, swap_file = self.find()
        self.directory = self.place / f"hakmem-test-{os.getpid()}"
        try:
            self.directory.mkdir()
        except OSError as error:
            raise harness.Skip(f"no control group can be made in {self.place}: {error.strerror}")
        try:
            (self.directory / self.limit_file).write_text(f"{limit}")
            if (self.directory / swap_file).exists():
                (self.directory / swap_file).write_text("0" if swap_file == "memory.swap.max" else f"{limit}")
        except OSError as error:
            self.directory.rmdir()
            raise harness.Skip(f"a control group in {self.place} takes no limit: {error.strerror}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.directory.rmdir()

    @staticmethod
    def find():
        groups = {}
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            groups[controllers] = path
        version, path = next(((1, path) for names, path in groups.items() if "memory" in names.split(",")),
                             (2, groups.get("", "/")))
        for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
            left, right = line.split(" - ", 1)
            root, mount = left.split(" ")[3:5]
            kind, _, options = right.split(" ", 2)
            if (kind, version) != ("cgroup", 1) and (kind, version) != ("cgroup2", 2):
                continue
            if version == 1 and "memory" not in options.split(","):
                continue
            below = path[len(root):] if root != "/" and path.startswith(root) else path
            place = pathlib.Path(mount + below)
            if version == 2 and "memory" not in (place / "cgroup.subtree_control").read_text().split():
                raise harness.Skip(f"{place} hands no memory controller on to groups below it")
            return (place, *(("memory.limit_in_bytes", "memory.memsw.limit_in_bytes") if version == 1 else
                             ("memory.max", "memory.swap.max")))
        raise harness.Skip("there is no memory controller")

    def run(self, command, **environment):
        """How the command ends in this group; its output."""
        join = 'echo $$ > "$0" && exec "$@"'
        ours = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
        result = subprocess.run(["sh", "-c", join, self.directory / "cgroup.procs", *command],
                                env={**ours, **environment}, capture_output=True, text=True)
        return result.returncode, result.stdout, result.stderr


def require_ok(who, ended):
    status, out, errors = ended
    if status != 0 or not re.match(r"ok|\d+\n", out) or errors:
        raise harness.Failure(f"{who} {harness.describe_status(status)}:\n{out}{errors}")


def require_killed(who, run):
    """Or the limit is no limit, and the test void. What lies freed depends on time (what is purged beside other
    work): one run of forty lives on a busy machine, so one of up to four must be killed."""
    statuses = []
    while len(statuses) < 4 and -signal.SIGKILL not in statuses:
        statuses.append(run()[0])
    if statuses[-1] != -signal.SIGKILL:
        raise harness.Failure(f"{who} {harness.describe_status(statuses[-1])}, but should be killed: the test is void")


def main(way, *program):
    library = os.environ["HAKMEM_LIB"]
    limit = 240 * MIB if way == "python" else 170 * MIB
    command = {"python": [sys.executable, "-c", RECORDS], "phases": [*program, "phases"],
               "threads": [*program, "phases", "1"]}[way]
    with Group(limit) as group:
        if way == "python":
            require_killed("Python without hakmem", lambda: group.run(command))
        else:
            require_killed("the program with HAKMEM_INT=off",
                           lambda: group.run(command, LD_PRELOAD=library, HAKMEM_INT="off"))
        require_ok("under hakmem it", group.run(command, LD_PRELOAD=library))
    print(f"lived with {limit // MIB} MiB")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except harness.Skip as reason:
        print(f"skipped: {reason}")
        sys.exit(harness.SKIPPED)
    except harness.Failure as failure:
        sys.exit(f"FAILED: {failure}")
