#!/usr/bin/env python3
"""docs/memory.md does what it says: its commands are run as they stand there, and print what stands there.

    memory.py BUILD CHAPTER

One chapter in one shell, in a directory where `tests` is the project's and `build` has what is built of it: the library,
and the tool. Lines of the document's output have to come in their order; `...` stands for any others. Words have to be
the same, and numbers about the same: what is exact is the count of blocks, and what is not is what the allocator keeps.
A figure in the text has to be one of those that the chapter shows. Ends with 77, which is to skip the test, without
`hak` or a compiler, and for the chapter on huge pages where the system gives none.

SPDX-License-Identifier: MIT
"""
import mmap
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
PATIENCE_S = 30
LOOKS = 12  # of a command that only looks: what it shows may take a moment to come
NEAR, NEAR_SHARE = 0.4, 0.06
PACED, PACED_SHARE = {"Fragmentation by lifetime"}, 0.15  # how much of slabs in use goes back depends on the clock
SAMPLED_SHARE = 0.7  # of what some sixty samples say: five times its standard deviation
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
FIGURE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?) (MiB|KiB)\b")
SIZES = {"2 MiB", "1 MiB", "64 KiB", "600 KiB"}  # of pages, tiles, buffers and units, which no command shows


class Wrong(Exception):
    """The document and what happens differ."""


class Lacking(Exception):
    """What the document's commands need, and is not here."""


def stage(build, directory):
    """Makes the directory's `build`. It has the tool itself, which finds the library beside it, wherever it was built."""
    found = subprocess.run([ROOT / "tests/support/hak-of", build], text=True, capture_output=True, check=False)
    if found.returncode != 0:
        raise Lacking(found.stderr.strip())
    staged = pathlib.Path(directory, "build")
    staged.mkdir()
    for library in build.glob("libhakmem*"):
        (staged / library.name).symlink_to(library)
    shutil.copy2(found.stdout.strip(), staged / "hak")


def chapters(text):
    """Each heading with its text; what comes before the first one is called `start`."""
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    return {"start": parts[0], **dict(zip(parts[1::2], parts[2::2]))}


def steps(chapter):
    """Commands with the lines that the document shows of what they print."""
    for block in re.findall(r"^```console\n(.*?)^```", chapter, re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = part.rstrip("\n").split("\n")
            while command.count("'") % 2:
                command += "\n" + shown.pop(0)
            yield command, [line for line in shown if line.strip()]


def same_word(shown, seen, share):
    if shown == seen or re.fullmatch(r"0x[0-9a-f]+", shown) and re.fullmatch(r"0x[0-9a-f]+", seen):
        return True
    number = re.compile(r"(.*?)([+-]?\d+(?:\.\d+)?)(\W*)")
    a, b = number.fullmatch(shown), number.fullmatch(seen)
    if not a or not b or a[1] != b[1] or a[3] != b[3]:
        return False
    allowed = max(NEAR, share * abs(float(a[2])))
    return abs(float(a[2]) - float(b[2])) <= allowed


def same_line(shown, seen, share):
    """Whether the line is what the document shows. Numbers of processes are different each time."""
    shown, seen = (re.sub(r"\(\d+\)|process \d+", "PROCESS", line).split() for line in (shown, seen))
    if shown and shown[0].isdigit() and shown[:1] != seen[:1]:
        return False  # the class or the heap that the line is about
    return len(shown) == len(seen) and all(same_word(a, b, share) for a, b in zip(shown, seen))


def missing(shown, printed, share):
    """The first line of `shown` that `printed` lacks, or None. Between `...` lines have to follow each other."""
    printed = [line for line in printed.split("\n") if line.strip()]
    at, free = 0, False
    for line in shown:
        if line == "...":
            free = True
            continue
        while free and at < len(printed) and not same_line(line, printed[at], share):
            at += 1
        if at == len(printed) or not same_line(line, printed[at], share):
            return line
        at, free = at + 1, False
    return printed[at] + "   (which the document does not show)" if not free and at < len(printed) else None


class Shell:
    """One shell, in a session of its own, with a file for all that it and its children write."""

    def __init__(self, directory):
        self.out = open(pathlib.Path(directory, "printed"), "w+b")
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("LD_PRELOAD", "COLUMNS") and not name.startswith(("HAKMEM_", "MALLOC_"))}
        environment |= {"LC_ALL": "C.UTF-8", "NO_COLOR": "1", "TERM": "dumb"}
        self.process = subprocess.Popen(["bash", "--norc"], cwd=directory, env=environment, stdin=subprocess.PIPE,
                                        stdout=self.out, stderr=self.out, start_new_session=True)
        self.marks = 0

    def printed(self, begin):
        return os.pread(self.out.fileno(), 1 << 22, begin).decode(errors="replace")

    def run(self, command):
        """Runs it to its end, or starts it if it ends in `&`; gives where its output begins."""
        begin = os.fstat(self.out.fileno()).st_size
        mark = pathlib.Path(self.out.name).with_name(f"mark{self.marks}")
        self.marks += 1
        self.process.stdin.write(f"{command}\n: > {mark}\n".encode())
        self.process.stdin.flush()
        end = time.monotonic() + PATIENCE_S
        while not mark.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                raise Wrong(f"`{command}` does not end:\n{self.printed(begin)}")
            time.sleep(0.01)
        return begin

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.out.close()


def check(shell, command, shown, share=NEAR_SHARE):
    """Runs a command; it has to print what is shown. One that only looks may look again, and what is started or
    signalled prints a moment later."""
    looks = LOOKS if re.match(r"(hak inspect|grep) ", command) else 1
    lacks = None
    if "hak profile" in command:
        share = SAMPLED_SHARE
    for look in range(looks):
        begin = shell.run(command)
        end = time.monotonic() + (0 if looks > 1 or not shown else PATIENCE_S)
        while (lacks := missing(shown, shell.printed(begin), share)) is not None and time.monotonic() < end:
            time.sleep(0.02)
        if lacks is None:
            return
        time.sleep(0.2)
    raise Wrong(f"`{command}`\n  does not print\n    {lacks}\n  but\n{shell.printed(begin)}")


def wrong_figures(name, chapter):
    """Figures of the text that the chapter does not show."""
    shown = [float(number[0]) for _, lines in steps(chapter) for line in lines for number in NUMBER.finditer(line)]
    text = re.sub(r"^```.*?^```", "", chapter, flags=re.DOTALL | re.MULTILINE)
    for number, unit in FIGURE.findall(text):
        digits = len(number.partition(".")[2])
        if f"{number} {unit}" not in SIZES and not any(f"{abs(one):.{digits}f}" == number for one in shown):
            yield f"{name}: {number} {unit} is in the text and in no output"


def anchor(heading):
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def check_table(every):
    """Each row of the table asks what its chapter asks."""
    asked = {anchor(name): [command for command, _ in steps(text)] for name, text in every.items()}
    rows = re.findall(r"^\| [^|]+ \| `([^|]+)` \| [^|]+ \| \[[^]]+\]\(#([\w-]+)\) \|$", every["start"], re.MULTILINE)
    for command, chapter in rows:
        if not any(command in one for one in asked.get(chapter, [])):
            raise Wrong(f"the table asks `{command}`, which {chapter} does not")
    if {chapter for _, chapter in rows} != asked.keys() - {"start"}:
        raise Wrong("the table does not lead to each chapter")


def huge_pages():
    """Whether the system has some for whoever asks for them."""
    with mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
        try:
            area.madvise(mmap.MADV_HUGEPAGE)
        except OSError:
            return False
        for at in range(0, len(area), mmap.PAGESIZE):
            area[at] = 1
        found = re.search(r"AnonHugePages: +(\d+)", pathlib.Path("/proc/self/smaps_rollup").read_text())
        return found is not None and int(found[1]) >= 60 << 10


def main():
    build, wanted = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    every = chapters((ROOT / "docs/memory.md").read_text())
    try:
        if wanted == "text":
            check_table(every)
            if wrong := [line for name, text in every.items() for line in wrong_figures(name, text)]:
                raise Wrong("\n".join(wrong))
            return 0
        if shutil.which("cc") is None:
            raise Lacking("there is no cc")
        if wanted == "Huge-page slack" and not huge_pages():
            raise Lacking("the system gives no huge pages")
        with tempfile.TemporaryDirectory(prefix="hakmem-", dir="/tmp") as directory:
            stage(build, directory)
            pathlib.Path(directory, "tests").symlink_to(ROOT / "tests")
            shell, ran = Shell(directory), 0
            try:
                for command, shown in [*steps(every["start"]), *steps(every[wanted])]:
                    check(shell, command, shown, PACED_SHARE if wanted in PACED else NEAR_SHARE)
                    ran += 1
            finally:
                shell.close()
        print(f"{ran} commands do what the document says")
        return 0
    except Lacking as lacking:
        print(f"skipped: {lacking}")
        return SKIPPED
    except Wrong as wrong:
        print(f"docs/memory.md, {wanted}: {wrong}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
