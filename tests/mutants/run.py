#!/usr/bin/env python3
"""Builds the tests with one planted bug and requires that they find it.

A .mutant file says what is wrong and who has to notice:

    # why it matters, in words
    file: src/slab/slab.c
    find: unit Slab.*          (program, filter of GoogleTest; several lines: any of them may find it)
    <<<<
    text that occurs once in the file
    ====
    what stands there instead
    >>>>

Usage: run.py BUILD.json FILE.mutant
       run.py BUILD.json --control PROGRAM FILE.mutant...   runs the same tests without a bug: they pass
       run.py BUILD.json --apply FILE.mutant...             only looks whether each has its place in the source

SPDX-License-Identifier: MIT
"""
import contextlib
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

# A hang is a find, too: all threads sleep, and none has woken for so long; or a process has used so much time of
# the processor. The time that passes says little: on a busy machine a right test takes many times as long.
ASLEEP_SECONDS, BUSY_SECONDS, LONGEST_SECONDS = 2, 5, 60
TRIES = 5  # an interleaving may need another seed; bounded work each


def parse(path):
    text = path.read_text()
    file = re.search(r"^file: (\S+)$", text, re.MULTILINE).group(1)
    finders = re.findall(r"^find: (\w+) (\S+)$", text, re.MULTILINE)
    changes = re.findall(r"^<<<<\n(.*?)^====\n(.*?)^>>>>$", text, re.MULTILINE | re.DOTALL)
    if not finders or not changes:
        sys.exit(f"{path.name}: no 'find:' or no change")
    return file, finders, changes


def mutate(source, name, changes):
    text = source.read_text()
    for was, becomes in changes:
        if text.count(was) != 1:
            sys.exit(f"{name} does not apply any more: {source} has its text {text.count(was)} times, not once.\n"
                     f"Bring the mutant up to date with the source:\n{was}")
        text = text.replace(was, becomes)
    return text


def build(config, program, texts, directory):
    """The test program with other texts for some source files."""
    parts = config["programs"][program]
    binary = directory / program
    commands, objects = [], []
    for source, text in texts.items():
        changed = directory / f"{program}_{source.name}"
        changed.write_text(text)
        objects.append(f"{changed}.o")
        commands.append([config["cc"], *config["flags"], *parts["flags"], "-iquote", str(source.parent),
                         "-I", f"{config['source']}/include", "-c", str(changed), "-o", objects[-1]])
    commands.append([config["cxx"], *config["link_flags"], "-o", str(binary), *parts["objects"].split(";"), *objects,
                     parts["core"], *config["libraries"], "-pthread", "-ldl"])
    for command in commands:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if result.returncode != 0:
            sys.exit(f"the mutant does not build: it has to be a bug, not an error of syntax\n{result.stdout}")
    return binary


class Hang(Exception):
    pass


def asleep(group):
    """How often each thread of a group of processes has gone to sleep; None if one does not sleep."""
    sleeps = {}
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(status.read_text().rpartition(")")[2].split()[2]) != group:
                continue
            for task in status.with_name("task").iterdir():
                text = (task / "status").read_text()
                if re.search(r"^State:\s+[SZ]", text, re.MULTILINE) is None:
                    return None
                sleeps[task.name] = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.MULTILINE).group(1)
        except (OSError, AttributeError):  # it has just ended
            return None
    return sleeps


def watch(process, patience):
    """Returns what the process wrote when it has ended; ends it if it hangs."""
    begin = since = time.monotonic()
    before = None
    while True:
        try:
            return process.communicate(timeout=0.25)[0]
        except subprocess.TimeoutExpired:
            now, at = asleep(process.pid), time.monotonic()
            if now is None or now != before:
                since, before = at, now
            if at - since > ASLEEP_SECONDS or at - begin > LONGEST_SECONDS * patience:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                raise Hang from None


def run(*command, patience=1, **environment):
    seconds = BUSY_SECONDS * patience
    limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    with subprocess.Popen(command, env=dict(os.environ, **environment), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          process_group=0, preexec_fn=limit) as process:
        text = watch(process, patience)
    if process.returncode in (-signal.SIGKILL, -signal.SIGXCPU):
        raise Hang
    return subprocess.CompletedProcess(command, process.returncode, text)


def cases(binary, tests):
    """The names of the cases that the filter chooses."""
    suite, names = "", []
    for line in run(binary, f"--gtest_filter={tests}", "--gtest_list_tests").stdout.splitlines():
        if line.startswith("  "):
            names.append(suite + line.split()[0])
        elif line.split("#")[0].strip().endswith("."):
            suite = line.split()[0]
    if not names:
        sys.exit(f"no test is called {tests}")
    return names


def finds(binary, names, seed, patience=1, **environment):
    """How one of these cases failed, in a line; None if all passed. Each case has a
    process of its own, as under ctest."""
    for case in names:
        try:
            result = run(binary, f"--gtest_filter={case}", patience=patience, HAK_STRESS_SEED=str(seed),
                         **environment)
        except Hang:
            return f"{case} hung"
        if result.returncode != 0:
            lines = [line for line in result.stdout.splitlines()
                     if line and not line.startswith(("[", "Note:", "Running main"))]
            return f"{case}, exit status {result.returncode}: " + " | ".join(lines[:3] or ["(no words)"])
    return None


def control(config, program, mutants):
    """A mutant that is found proves something only if the tests pass without it, built
    as mutants are."""
    files, names = set(), set()
    for mutant in sorted(set(mutants)):
        file, finders, _ = parse(mutant)
        for finder, tests in finders:
            if finder == program:
                files.add(file)
                names.update(cases(config["programs"][program]["executable"], tests))
    if not names:
        sys.exit(f"no mutant is looked for by {program}")
    with workplace() as directory:
        sources = {pathlib.Path(config["source"]) / file for file in files}
        binary = build(config, program, {source: source.read_text() for source in sources}, directory)
        # Of a test's many inputs, all of which fuzz_test runs, every fourth.
        names = [name for name in names if int((re.search(r"/(\d+)$", name) or [0, 0])[1]) % 4 == 0]
        how = finds(binary, sorted(names), 1, patience=10, HAK_STRESS_PERCENT="25")
        if how:
            sys.exit(f"{program} fails without any bug planted: {how}")
        print(f"passes: {program}, {len(names)} cases")


@contextlib.contextmanager
def workplace():
    """A directory for what is built, and for the files of tests that end before they can remove them."""
    with tempfile.TemporaryDirectory(prefix="hak-mutant-") as name:
        os.environ["TMPDIR"] = name
        yield pathlib.Path(name)


def main():
    config = json.loads(pathlib.Path(sys.argv[1]).read_text())
    if sys.argv[2] == "--control":
        control(config, sys.argv[3], [pathlib.Path(name) for name in sys.argv[4:]])
        return
    if sys.argv[2] == "--apply":
        for mutant in map(pathlib.Path, sys.argv[3:]):
            file, _, changes = parse(mutant)
            mutate(pathlib.Path(config["source"]) / file, mutant.name, changes)
        print(f"{len(sys.argv) - 3} have their places")
        return
    mutant = pathlib.Path(sys.argv[2])
    file, finders, changes = parse(mutant)
    source = pathlib.Path(config["source"]) / file
    text = mutate(source, mutant.name, changes)
    with workplace() as directory:
        binaries = {}
        for seed in range(1, TRIES + 1):
            for program, tests in finders:
                if program not in binaries:
                    binaries[program] = build(config, program, {source: text}, directory)
                how = finds(binaries[program], cases(binaries[program], tests), seed)
                if how:
                    print(f"found by {program} {tests}, try {seed}: {how}")
                    return
    sys.exit(f"{mutant.name} survives: the tests that should find it pass with it in place")


if __name__ == "__main__":
    main()
