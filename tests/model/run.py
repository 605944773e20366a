#!/usr/bin/env python3
"""Explores the models in this directory exhaustively with spin.

A model has to be without error in every configuration below that is good, and
each mistake that can be planted in it (BUG_... in the .pml) has to be found:
a model that misses one proves nothing.

Usage: run.py [--deep] MODEL...    (remote_free, thread_pool, lock, rounds, sample_ring)
       run.py MODEL --part WORD    one configuration (HANDS=2+EARLY_LOOK) or planted mistake
       run.py --list               what there is without --deep, as `MODEL WORD`: the tests of ctest
Exit code 77: spin is not installed.

SPDX-License-Identifier: MIT
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent

# For each model: configurations that must be good; those that --deep adds; the
# one that planted mistakes are looked for in, where it is not the last.
MODELS = {
    "remote_free": {
        "good": [["HANDS=3"], ["HANDS=2", "EARLY_LOOK"], ["UNITS=2", "HANDS=0"]],
        "deep": [["HANDS=6"], ["HANDS=4", "EARLY_LOOK"], ["UNITS=2", "HANDS=1"]],
        "bad": ["HANDS=2"],
        "bad_in": {"BUG_NEXT_AFTER_CLEAR": ["UNITS=2", "HANDS=0"]},
    },
    "thread_pool": {"good": [["LIVES=2"]], "deep": [["LIVES=3"]], "bad": ["LIVES=2"], "bad_in": {}},
    "sample_ring": {
        "good": [["ROUNDS=1"], ["ROUNDS=1", "GIVEN_UP=1"], ["ROUNDS=1", "PLACES=1", "GIVEN_UP=2"], ["ROUNDS=1", "STACKS=2"]],
        "deep": [["ROUNDS=2", "PLACES=1"]],
        "bad": ["ROUNDS=1", "PLACES=1", "GIVEN_UP=1"],
        "bad_in": {"BUG_DRAINED_TOO_EARLY": ["ROUNDS=1", "PLACES=1"], "BUG_STACKS_ARE_KEPT": ["ROUNDS=1", "PLACES=1"]},
    },
    "rounds": {"good": [["CALLS=2"], ["CALLS=1", "TAKES=2"]], "deep": [["CALLS=3"]], "bad": ["CALLS=2"], "bad_in": {}},
    "lock": {"good": [["ROUNDS=2"]], "deep": [["ROUNDS=4"]], "bad": ["ROUNDS=2"], "bad_in": {}},
}


class Failure(Exception):
    pass


def planted(model):
    """The names of the mistakes that a model offers."""
    text = (HERE / f"{model}.pml").read_text()
    return sorted(set(re.findall(r"^#.*?\b(BUG_[A-Z_]+[A-Z])\b", text, re.MULTILINE)))


def explore(model, defines, deep=False):
    """Runs spin and the verifier that it writes. Returns (error or None, states, trail);
    the trail is that of an error that nobody has planted."""
    source = HERE / f"{model}.pml"
    flags = [f"-D{name}" for name in defines]
    with tempfile.TemporaryDirectory(prefix="hak-model-") as directory:
        def run(*command):
            return subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

        made = run("spin", "-a", *flags, str(source))
        if made.returncode != 0 or "Error" in made.stdout:
            raise Failure(f"spin does not understand {source.name} {' '.join(flags)}:\n{made.stdout}")
        # Optimising takes longer than it saves, but where there is much to explore.
        built = run("cc", "-O2" if deep else "-O0", "-w", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=2000", "-o", "pan", "pan.c")
        if built.returncode != 0:
            raise Failure(f"the verifier of {source.name} does not compile:\n{built.stdout}")
        result = run("./pan", "-m100000", "-w22").stdout
        errors = re.search(r"errors: (\d+)", result)
        states = re.search(r"(\d+) states, stored", result)
        if not errors or not states:
            raise Failure(f"the verifier of {source.name} ended early:\n{result}")
        if errors.group(1) == "0":
            if re.search(r"max search depth too small|MEMLIM|out of memory|Search not completed", result):
                raise Failure(f"{source.name} {' '.join(flags)} was not explored to the end:\n{result}")
            return None, int(states.group(1)), ""
        message = re.search(r"^pan:\d+: (.*?)( \(at depth \d+\))?$", result, re.MULTILINE)
        if any(name.startswith("BUG_") for name in defines):
            return message.group(1) if message else "an error", int(states.group(1)), ""
        trail = run("spin", "-t", "-p", "-g", "-k", str(pathlib.Path(directory) / f"{source.name}.trail"), *flags, str(source)).stdout
        return message.group(1) if message else "an error", int(states.group(1)), trail


def good(model, defines):
    """Explores a configuration to its end. Returns whether it is without error."""
    error, states, trail = explore(model, defines, defines in MODELS[model]["deep"])
    if error:
        print(f"FAILED {model} {' '.join(defines)}: {error}. The interleaving, step by step:\n{trail}")
    else:
        print(f"good   {model} {' '.join(defines)}: no error in {states} states", flush=True)
    return not error


def found(model, bug):
    """Plants a mistake. Returns whether spin finds it."""
    m = MODELS[model]
    error, states, _ = explore(model, m["bad_in"].get(bug, m["bad"]) + [bug])
    if error:
        print(f"found  {model} {bug}: {error}", flush=True)
    else:
        print(f"FAILED {model} {bug}: the mistake was planted, and not found in {states} states")
    return bool(error)


def parts(model, deep=False):
    """The words for everything that there is to explore."""
    configurations = MODELS[model]["good"] + (MODELS[model]["deep"] if deep else [])
    bugs = planted(model)
    if not bugs:
        raise Failure(f"{model}.pml offers no mistake to plant: nothing shows that it would find one")
    return ["+".join(defines) for defines in configurations] + bugs


def is_well(model, part):
    return found(model, part) if part.startswith("BUG_") else good(model, part.split("+"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deep", action="store_true", help="larger configurations, too: minutes")
    parser.add_argument("--part", metavar="WORD", help="only this of --list")
    parser.add_argument("--list", action="store_true", help="say what there is, and explore nothing")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    options = parser.parse_args()
    unknown = [model for model in options.models if model not in MODELS]
    if unknown or not options.models and not options.list:
        parser.error(f"a model is one of {', '.join(MODELS)}")
    try:
        if options.list:
            print("\n".join(f"{model} {part}" for model in MODELS for part in parts(model)))
            return
        if shutil.which("spin") is None:
            print("skipped: spin is not installed (apt-get install spin)")
            sys.exit(77)
        chosen = [(model, part) for model in options.models for part in parts(model, options.deep)
                  if options.part in (None, part)]
        if not chosen:
            raise Failure(f"there is no part {options.part}")
        results = [is_well(model, part) for model, part in chosen]
    except Failure as failure:
        sys.exit(str(failure))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
