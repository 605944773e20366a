#!/usr/bin/env python3
"""Compares the fast paths' instructions with fast_path.golden.

A fast path is what a call executes when everything goes well: from the function's
entry straight on to its first `ret`, no branch taken. The golden file holds the
mnemonics, so that a review sees which instruction came or went, and the budget.

Usage: fast_path.py LIBRARY GOLDEN [--update]
"""
import pathlib
import re
import subprocess
import sys

# Function, and the most instructions and conditional branches it may have.
BUDGETS = {
    "malloc": (15, 2),
    "free": (21, 4),
    "free_sized": (25, 5),
    "_Znwm": (15, 2),
    "_ZdlPv": (21, 4),
    "_Znam": (17, 3),
    "_ZdlPvm": (27, 6),
    "hak_malloc": (15, 2),
    "hak_free": (21, 4),
}


def fast_path(library, function):
    # By its address, in the table that a stripped library has, too.
    symbols = subprocess.run(["nm", "--dynamic", "--print-size", "--defined-only", library],
                             check=True, capture_output=True, text=True).stdout
    place = re.search(rf"^([0-9a-f]+) ([0-9a-f]+) \w {function}$", symbols, re.MULTILINE)
    if place is None:
        sys.exit(f"{library} has no function {function}")
    start = int(place[1], 16)
    text = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", f"--start-address={start}",
         f"--stop-address={start + int(place[2], 16)}", library],
        check=True, capture_output=True, text=True).stdout
    mnemonics = []
    for line in re.split(r"^[0-9a-f]+ <.*>:$", text, maxsplit=1, flags=re.MULTILINE)[1].splitlines()[1:]:
        match = re.match(r"\s+[0-9a-f]+:\s+(?:bnd |notrack )?(\S+)", line)
        if not match:
            break
        mnemonics.append(match.group(1))
        if match.group(1) in ("ret", "jmp", "call"):
            break
    return mnemonics


def main():
    library, golden = sys.argv[1], pathlib.Path(sys.argv[2])
    lines, over = [], []
    for function, (instructions, branches) in BUDGETS.items():
        path = fast_path(library, function)
        jumps = [m for m in path if m.startswith("j")]
        lines.append(f"{function}: {len(path)} of {instructions}: {' '.join(path)}")
        if path[-1] != "ret":
            over.append(f"{function}: a {path[-1]} on the fast path")
        if len(path) > instructions or len(jumps) > branches:
            over.append(f"{function}: {len(path)} instructions, {len(jumps)} branches; "
                        f"the budget is {instructions} and {branches}")
    text = "\n".join(lines) + "\n"
    if "--update" in sys.argv:
        golden.write_text(text)
    expected = golden.read_text().splitlines()
    for was, now in zip(expected, lines):
        if was != now:
            print(f"was {was}\nis  {now}\n")
    if over or expected != lines:
        sys.exit("\n".join(over + [f"the fast paths differ from {golden.name}; if that is meant: run with --update"]))


if __name__ == "__main__":
    main()
