#!/usr/bin/env python3
"""Compares the constants that docs/design.md names with those of the sources.

A row of its table "Constants" that says `NAME` VALUE [UNIT] names a constant of the file in the
row's last column: an enumerator, a macro or a `static const`.

SPDX-License-Identifier: MIT
"""
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "ms": 1, "s": 1000}
FUNCTIONS = {"HAK_KIB": lambda n: n << 10, "HAK_MIB": lambda n: n << 20, "HAK_GIB": lambda n: n << 30}


def definitions(text):
    """The expression that each constant of a file has."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    found = dict(re.findall(r"^#define (\w+) (.+)$", text, re.MULTILINE))
    for body in re.findall(r"\benum \{(.*?)\}", text, re.DOTALL):
        found.update((name, value.strip()) for name, value in re.findall(r"(\w+)\s*=\s*([^,}]+)", body))
    for declaration in re.findall(r"static const \w+ ([^;]+);", text):
        found.update((name, value.strip()) for name, value in re.findall(r"(\w+)\s*=\s*([^,;]+)", declaration))
    return found


def value(name, known):
    expression = re.sub(r"\((?:int|size_t)\)|(?<=\d)u\b", "", known[name])
    expression = expression.replace("sizeof(owner_t)", "1024")  # owner.h asserts the sum
    names = {other: value(other, known) for other in re.findall(r"[A-Za-z_]\w*", expression) if other in known}
    return eval(expression, {"__builtins__": {}}, {**FUNCTIONS, **names})


def main():
    files = {path.name: path.read_text() for path in (SOURCE / "src").rglob("*.[ch]")}
    everywhere = {}
    for text in files.values():
        everywhere.update(definitions(text))
    table = (SOURCE / "docs" / "design.md").read_text().split("## Constants\n")[1].split("\n## ")[0]
    wrong, compared = [], 0
    for row in re.findall(r"^\|(?!---| what)(.*)\|$", table, re.MULTILINE):
        _, said, where = (cell.strip() for cell in row.split(" | "))
        for name, number, unit in re.findall(r"`(\w+)` ([\d ]+?)(?: (KiB|MiB|GiB|TiB|ms|s))?(?:;|$)", said):
            own = definitions(files.get(where.strip("`"), ""))
            expected = int(number.replace(" ", "")) * UNITS[unit]
            compared += 1
            if name not in own:
                wrong.append(f"{where} has no constant {name}")
            elif value(name, {**everywhere, **own}) != expected:
                wrong.append(f"{name} is {value(name, {**everywhere, **own})}, docs/design.md says {expected}")
        if "`" in said and not re.search(r"`\w+` \d", said):
            wrong.append(f"not understood: {said}")
    print("\n".join(wrong) or f"{compared} constants are as docs/design.md says")
    return 1 if wrong or compared < 40 else 0


if __name__ == "__main__":
    sys.exit(main())
