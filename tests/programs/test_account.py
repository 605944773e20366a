"""What the allocator says is resident is what the kernel says, within 2 %, in ten programs and more.

Each ends as it does by itself, with its statistics going to a pipe that is all but full: so the account
has been taken when the first words come through it, and the process then waits with all its memory for
somebody to read the rest. Meanwhile the kernel is asked.

    test_account.py ACCOUNT_PROGRAM

SPDX-License-Identifier: MIT
"""
import ctypes
import fcntl
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import termios
import time

import harness

PROGRAMS_AT_LEAST = 10
TOLERANCE = 0.02
# The background thread, or another that runs on, may give memory back between the two looks.
TRIES = 5
PIPE_BYTES, ROOM_BYTES = 4096, 128  # the first words, and no more than a few

KINDS = ("live", "cached", "outboxes", "free_in_slabs", "slab_tails", "dirty", "huge_page_slack", "metadata")


def programs(directory, shapes):
    """Names and commands, each one process; None in place of what is not installed."""
    words = directory / "words.txt"
    words.write_text("".join(f"{i * 7919 % 100003} word{i} {'x' * (i % 50)}\n" for i in range(60000)))
    objects = directory / "objects.json"
    objects.write_text(json.dumps([{"number": i, "name": f"object {i}", "list": [i] * 5} for i in range(20000)]))
    lua = next(filter(shutil.which, ("lua5.4", "lua")), "lua")
    compiler = "cc1plus"  # g++ itself only starts it
    if shutil.which("g++"):
        compiler = subprocess.run(["g++", "-print-prog-name=cc1plus"], text=True, stdout=subprocess.PIPE,
                                  check=True).stdout.strip()
        subprocess.run(["g++", "-E", harness.FIXTURES / "templates.cpp", "-o", directory / "templates.ii"], check=True)
    python = "import json\nobjects = json.load(open('objects.json'))\n" \
             "kept = [{str(i): o for i in range(20)} for o in objects[::3]]\ndel objects[::2]\n"
    found = {
        "python": [sys.executable, "-c", python],
        "perl": ["perl", harness.FIXTURES / "work.pl"],
        "lua": [lua, harness.FIXTURES / "work.lua"],
        "sqlite3": ["sqlite3", ":memory:", ".read " + str(harness.FIXTURES / "work.sql")],
        "git": ["git", "grep", "--no-index", "-c", "-E", "word[0-9]*7 |list.*name", "--", "."],
        "g++": [compiler, "-quiet", "-O2", "-fpreprocessed", "templates.ii", "-o", "templates.s"],
        "jq": ["jq", "-c", "[.[] | select(.number % 3 == 0)] | length", objects],
        "awk": ["awk", "{ seen[$2] = $3; lines[$1] = $0 } END { print length(seen) }", words],
        "sort": ["sort", "--parallel=4", "-k2", words],
        "xz": ["xz", "-k", "-9", "-f", words],
    }
    found = {name: command if shutil.which(command[0]) else None for name, command in found.items()}
    for shape in ("mostly_freed", "sparse", "grown", "threads", "child"):
        found[shape] = [shapes, shape]
    return found


def window(pid):
    """The mappings of the process that hakmem may write to: (header, Size, Rss), in bytes.

    They lie where nothing else does (docs/design.md, "The window"): between a quarter and a half of the
    power of two below the stack."""
    mappings, stack = [], 0
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        header = re.match(r"([0-9a-f]+)-[0-9a-f]+ (\S+)", line)
        if header:
            begin = int(header[1], 16)
            mappings.append([begin, header[2], line, 0, 0])
            stack = begin if line.endswith("[stack]") else stack
        elif line.startswith(("Size:", "Rss:")):
            mappings[-1][3 if line.startswith("Size:") else 4] = int(line.split()[1]) * 1024
    span = 1 << (stack.bit_length() - 1)
    return [(line, size, resident) for begin, rights, line, size, resident in mappings
            if span // 4 <= begin < span // 2 and "w" in rights]


def names_are_given():
    """Whether this kernel lets anonymous mappings be named (CONFIG_ANON_VMA_NAME)."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(None, ctypes.c_size_t(4096), 3, 0x22, -1, ctypes.c_long(0))
    return libc.prctl(0x53564D41, 0, ctypes.c_ulong(at), ctypes.c_ulong(4096), b"a name") == 0


def waits_with(pipe):
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]


def reports(pid):
    """The process itself, or a child of its own that writes its statistics into the pipe."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else pid


def measure(runner, name, command, pipe_path):
    """What the program said of its heap, and its mappings at that moment."""
    if pipe_path.exists():
        pipe_path.unlink()
    os.mkfifo(pipe_path)
    reader = os.open(pipe_path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(pipe_path, os.O_WRONLY)
    capacity = fcntl.fcntl(reader, 1031, PIPE_BYTES)  # F_SETPIPE_SZ
    filling = capacity - ROOM_BYTES
    os.write(writer, b" " * filling)
    process = runner.start(*command, env={"HAKMEM_STATS_FILE": str(pipe_path)})
    try:
        harness.wait_until(lambda: waits_with(reader) > filling, process, f"{name} had taken the account")
        mappings = window(reports(process.pid) if name == "child" else process.pid)
        os.close(writer)
        writer = None
        os.set_blocking(reader, True)
        text = b"".join(iter(lambda: os.read(reader, 65536), b""))
    finally:
        os.close(reader)
        if writer is not None:
            os.close(writer)
    runner.wait(process)
    return json.loads(text[filling:]), mappings


def check(name, said, mappings, named):
    """Why the two do not agree, or None."""
    resident, mapped = sum(rss for _, _, rss in mappings), sum(size for _, size, _ in mappings)
    kinds = sum(said[f"resident_{kind}"] for kind in KINDS)
    blocks = said["slab_bytes"] + said["large_bytes"] + said["huge_bytes"]
    if said["is_measured"] is not True:
        return "it could not ask what is resident"
    if kinds != said["resident"] or said["resident"] + said["returned"] != said["mapped"]:
        return f"its own sums are off: {said}"
    if name != "threads" and said["live"] + said["cached"] + said["outboxes"] + said["free_in_slabs"] != blocks:
        return f"its blocks do not add up: {said}"
    if abs(said["resident"] - resident) > TOLERANCE * resident:
        return f"it says that {said['resident']} bytes are resident, the kernel says {resident}"
    if abs(said["mapped"] - mapped) > TOLERANCE * mapped:
        return f"it says that {said['mapped']} bytes are mapped, the kernel says {mapped}"
    nameless = [line for line, _, _ in mappings if "[anon:hakmem " not in line]
    return f"mappings without a name: {nameless}" if named and nameless else None


def test(runner, shapes):
    measured, named = 0, names_are_given()
    for name, command in programs(runner.directory, shapes).items():
        if command is None:
            print(f"{name:>14}: not installed")
            continue
        for _ in range(TRIES):
            said, mappings = measure(runner, name, command, runner.directory / "pipe")
            wrong = check(name, said, mappings, named)
            if wrong is None:
                break
        if wrong is not None:
            raise harness.Failure(f"{name}: {wrong}")
        measured += 1
        resident = sum(rss for _, _, rss in mappings)
        shares = ", ".join(f"{kind} {said[f'resident_{kind}'] / resident:.1%}" for kind in KINDS)
        print(f"{name:>14}: {resident / 2**20:8.2f} MiB, {said['resident'] - resident:+d} bytes: {shares}")
    if measured < PROGRAMS_AT_LEAST:
        raise harness.Skip(f"only {measured} programs are installed; `scripts/deps test` installs more")


if __name__ == "__main__":
    harness.main_once(lambda runner: test(runner, sys.argv[1]))
