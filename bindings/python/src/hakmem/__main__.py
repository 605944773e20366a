"""python -m hakmem: starts this Python anew, under hakmem, with what follows.

SPDX-License-Identifier: MIT
"""
import os
import sys

from . import ProblemError, __version__, enable_for_children

USAGE = """\
usage: python [option of Python ...] -m hakmem [--malloc] script.py [argument ...]
       python [option of Python ...] -m hakmem [--malloc] -m module [argument ...]
       python [option of Python ...] -m hakmem [--malloc] -c code [argument ...]

Runs a Python program under the memory allocator hakmem, and the programs that it starts.

  --malloc   Python's small objects, too, which it has an allocator of its own for: PYTHONMALLOC=malloc
  --version  the version of hakmem
  --help     this text

HAKMEM_STATS=1 in the environment prints a report at exit; docs/configuration.md has the other settings.
"""


def fail(message):
    print(f"python -m hakmem: {message}", file=sys.stderr)
    sys.exit(2)


def options_of_python():
    """What stands before the program's own words, less `-m hakmem`, whose letter may end a word of others (-Im)."""
    words = sys.orig_argv[1:len(sys.orig_argv) - len(sys.argv[1:])]
    module = words.pop()
    letters = words.pop() if module == __package__ else module.removesuffix(__package__)
    letters = letters.removesuffix("m")
    return words if letters == "-" else [*words, letters]


def main():
    words = sys.argv[1:]
    while words and words[0].startswith("--"):
        option = words.pop(0)
        if option == "--help":
            print(USAGE, end="")
            return
        if option == "--version":
            print(f"hakmem {__version__}")
            return
        if option != "--malloc":
            fail(f"there is no option '{option}' (--help lists them)")
        if sys.flags.ignore_environment:
            fail("--malloc has no effect with Python's options -E and -I, which ignore PYTHONMALLOC")
        os.environ["PYTHONMALLOC"] = "malloc"
    if not words:
        fail("there is no program to run (--help says how)")
    if words[0] in ("-c", "-m"):
        if len(words) == 1:
            fail(f"'{words[0]}' needs {'code' if words[0] == '-c' else 'the name of a module'} after it")
    elif words[0].startswith("-") and words[0] != "-" and not words[0].startswith(("-c", "-m")):
        fail(f"there is no option '{words[0]}'; options of Python come before -m hakmem")
    elif not words[0].startswith("-") and not os.path.exists(words[0]):
        fail(f"there is no file '{words[0]}'")
    if not sys.executable:
        fail("this Python does not know its own path")
    try:
        enable_for_children()
    except ProblemError as problem:
        fail(problem)
    try:
        os.execv(sys.executable, [sys.executable, *options_of_python(), *words])
    except OSError as error:
        fail(f"{sys.executable}: {error.strerror}")


main()
