#!/usr/bin/env python3
"""The layers of docs/design.md, as the sources' #include lines show them.

A file includes headers of its own layer and of those below. Within a layer, files (a header and its
source are one) do not include each other in a circle.

SPDX-License-Identifier: MIT
"""
import graphlib
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src"
# From the top. What stands together may not know of each other.
LAYERS = [["api"], ["observe", "int"], ["front"], ["region"], ["slab"], ["arena"], ["support"], ["os"], ["base"]]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def main():
    wrong, edges, seen = [], {}, 0
    for path in sorted(SOURCE.rglob("*")):
        if path.suffix not in (".c", ".h", ".cpp"):
            continue
        unit = path.relative_to(SOURCE).with_suffix("")
        layer = unit.parts[0]
        if layer not in RANK:
            wrong.append(f"{unit}: docs/design.md has no layer {layer}")
            continue
        for name in re.findall(r'^#include "(.*)"', path.read_text(), re.MULTILINE):
            target = (path.parent / name).resolve()
            if not target.is_relative_to(SOURCE):
                continue  # the public header
            seen += 1
            other = target.relative_to(SOURCE).with_suffix("")
            if other.parts[0] != layer and RANK[other.parts[0]] <= RANK[layer]:
                wrong.append(f"{unit} includes {other}, which is not below it")
            if other != unit:
                edges.setdefault(unit, set()).add(other)
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as circle:
        wrong.append("a circle: " + " <- ".join(str(unit) for unit in circle.args[1]))
    print("\n".join(wrong) or f"{seen} includes, all downwards and without a circle")
    return 1 if wrong or seen < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
