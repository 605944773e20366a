#!/usr/bin/env python3
"""Compares the lists of the system calls that hakmem needs under a filter that was there before the program: that of
docs/configuration.md, by which filters are written; hak's, which checks those of services; and those of the tests, which
show that it is enough and that no less is.

SPDX-License-Identifier: MIT
"""
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
LISTS = {  # what is around each list
    "docs/configuration.md": r"#### Under a filter\n.*?```\n(.*?)```",
    "tools/hak/src/install/unit/calls.rs": r"const NEEDED: .*?= \[(.*?)\];",
    "tests/life/listed_program.c": r"\} needed\[\] = \{(.*?)\n\};",
    "tests/life/seccomp_test.cc": r"LeftOut,.*?testing::Combine\(testing::Values\(.*?\),\s*testing::Values\((.*?)\)",
}


def calls(place, pattern):
    text = re.search(pattern, (SOURCE / place).read_text(), re.DOTALL).group(1)
    return sorted(set(re.findall(r"(?<![\w])(?!SYS_)[a-z]\w*", text)))


def main():
    found = {place: calls(place, pattern) for place, pattern in LISTS.items()}
    first, *others = found.items()
    wrong = [f"{place} has {' '.join(own)}, {first[0]} {' '.join(first[1])}" for place, own in others if own != first[1]]
    print("\n".join(wrong) or f"{len(first[1])} calls are the same in {len(found)} places")
    return 1 if wrong or len(first[1]) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
