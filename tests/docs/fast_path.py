#!/usr/bin/env python3
"""The numbers of instructions that the documents give for the fast paths are those of tests/golden.

SPDX-License-Identifier: MIT
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    golden = (ROOT / "tests/golden/fast_path.golden").read_text()
    of = {name: int(count) for name, count in re.findall(r"^(\w+): (\d+) of", golden, re.MULTILINE)}
    golden = (ROOT / "tests/golden/calls.golden").read_text()
    with_loop = {name: round(float(count)) for count, name in re.findall(r"([\d.]+)  (\w+)$", golden, re.MULTILINE)}
    malloc, free, mid = of["malloc"], of["free"], with_loop["malloc_65536"] - with_loop["malloc_1024"]
    sentences = {
        "README.md": [
            f"`malloc` is {malloc} instructions and `free` is {free},",
            f"up to 64 KiB `malloc` is {mid} instructions more.",
        ],
        "docs/design.md": [
            f"`magazine_pop_tiny` on `the_heap`. Done, in {malloc} instructions,",
            f"`magazine_push`. Done, in {free} instructions,",
            f"{of['free_sized']} instructions in `free_sized` against the {free} of plain `free`",
            f"`new[]` is {of['_Znam']} instructions, sized `delete` {of['_ZdlPvm']}.",
            f"| `malloc` ≤ 14 instructions, `free` ≤ 18 | {malloc} and {free} |",
            f"| sized delete costs no more than free | {of['_ZdlPvm']} |",
        ],
        "docs/languages.md": [f"is {malloc} instructions and `dealloc` {free}, as in C,"],
        "docs/performance.md": [
            f"| `malloc`, `hak_malloc` | {malloc} |",
            f"| `free`, `hak_free`, `operator delete(p)` | {free} |",
            f"| `operator new` | {of['_Znwm']} |",
            f"| `operator new[]` | {of['_Znam']} |",
            f"| `free_sized` | {of['free_sized']} |",
            f"| `operator delete(p, size)` | {of['_ZdlPvm']} |",
            f"): {malloc + mid} instructions, also without a call.",
        ],
    }
    wrong = []
    for document, expected in sentences.items():
        text = " ".join((ROOT / document).read_text().split())
        wrong += [f"{document} does not say: {sentence}" for sentence in expected if sentence not in text]
    print("\n".join(wrong) or "the documents say what tests/golden counts")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
