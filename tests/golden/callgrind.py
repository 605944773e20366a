"""Programs under valgrind's callgrind, for the tests that count instructions: these repeat, times do not.

SPDX-License-Identifier: MIT
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


def need(*tools):
    """Ends with 77, which is to skip the test, where one of the tools is missing."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        print("there is no", *missing)
        sys.exit(77)


def frozen_clock(directory):
    """A library to preload, under which no time passes."""
    clock = pathlib.Path(directory, "frozen_clock.so")
    source = pathlib.Path(__file__).with_name("frozen_clock.c")
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-o", clock, source], check=True)
    return clock


def profile(command, preload="", environment=None, options=()):
    """What the command prints, and callgrind's profile of it, in which every name stands in full. It has to end well."""
    environment = dict(os.environ if environment is None else environment)
    if preload:
        environment["LD_PRELOAD"] = str(preload)
    with tempfile.TemporaryDirectory(prefix="hak-callgrind-") as scratch:
        file = pathlib.Path(scratch, "profile")
        words = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={file}", "--compress-strings=no",
                 "--compress-pos=no", *options, *map(str, command)]
        result = subprocess.run(words, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if result.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}: exit status {result.returncode}\n{result.stdout}{result.stderr}")
        return result.stdout, file.read_text(errors="replace")


def instructions_of(text, library):
    """The instructions executed in the library, from a profile: lines of cost belong to the object named last; the
    line after `calls=` is another's."""
    total, counts, is_callee = 0, False, False
    for line in text.splitlines():
        if line.startswith("ob="):
            counts = line[3:] == library
        elif line.startswith("calls="):
            is_callee = True
        elif line and line[0] in "0123456789+-*":
            if counts and not is_callee:
                total += int(line.split()[-1])
            is_callee = False
    return total
