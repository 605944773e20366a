#!/usr/bin/env python3
"""The table of docs/probes.md, against the probes that the library has.

    probes.py LIBRARY

Ends with 77, which is to skip the test, if the library was built without <sys/sdt.h>.

SPDX-License-Identifier: MIT
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def documented():
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", (ROOT / "docs/probes.md").read_text(), re.MULTILINE)
    return {name: len(arguments.split(",")) for name, arguments in rows}


def built(library):
    notes = subprocess.run(["readelf", "-n", library], check=True, capture_output=True, text=True).stdout
    found = {}
    for note in notes.split("stapsdt")[1:]:
        name = re.search(r"Provider: hakmem\s+Name: (\w+)", note)
        if name:
            found.setdefault(name[1], set()).add(len(re.search(r"Arguments: (.*)", note)[1].split()))
    return found


def used():
    """Of scripts: each probe, and the largest number of an argument."""
    for script in sorted((ROOT / "tools/bpftrace").glob("*.bt")):
        parts = re.split(r"^usdt:\*:hakmem:(\w+)", script.read_text(), flags=re.MULTILINE)
        for name, body in zip(parts[1::2], parts[2::2]):
            yield script.name, name, max((int(n) + 1 for n in re.findall(r"\barg(\d)", body)), default=0)


def main():
    says, has, wrong = documented(), built(sys.argv[1]), []
    if not has and "sys/sdt.h" in (ROOT / "src/base/probe.h").read_text():
        print("the library has no probes: it was built without <sys/sdt.h>")
        return 77
    for name in sorted(says.keys() | has.keys()):
        if has.get(name) != {says.get(name)}:
            wrong.append(f"{name}: the document has {says.get(name)} arguments, the library {has.get(name)}")
    scripts = set()
    for script, name, arguments in used():
        scripts.add(script)
        if arguments > says.get(name, -1):
            wrong.append(f"{script}: {name} has no such argument, or does not exist")
    if len(scripts) != 3:
        wrong.append(f"there are three scripts in tools/bpftrace; {sorted(scripts)} have probes")
    print("\n".join(wrong) or f"{len(has)} probes are as documented")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
