#!/usr/bin/env python3
"""Every member of hak_stats_t and hak_account_t is a figure of the reports, in the header's order, and is
explained in docs/configuration.md and in the manual page; and these explain no other.

SPDX-License-Identifier: MIT
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_A_FIGURE = {"struct_bytes", "is_measured"}


def members(header, struct):
    """Names in the order in which the struct has them."""
    body = re.search(r"typedef struct %s \{(.*?)\n\}" % struct, header, re.DOTALL)[1]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
    return [name for line in body.split(";") for name in re.findall(r"(\w+)\s*(?:,|$)", line.strip())]


def main():
    header = (ROOT / "include/hakmem.h").read_text()
    fields = (ROOT / "src/observe/fields.c").read_text()
    tables = (ROOT / "docs/configuration.md").read_text().split("### HAKMEM_STATS and", 1)[1].split("\n### ", 1)[0]
    page = (ROOT / "man/libhakmem.3").read_text().split("The members of\n.IR hak_stats_t", 1)[1].split(".SH", 1)[0]
    wrong, seen = [], 0
    listed = iter(re.findall(r"^    (?:BYTES|COUNT)\((\w+), \"", fields, re.MULTILINE))
    known = set()
    for struct in ("hak_stats", "hak_account"):
        for name in members(header, struct):
            known.add(name)
            if name not in NOT_A_FIGURE and (figure := next(listed, None)) != name:
                wrong.append(f"{struct}_t.{name}: in its place fields.c has {figure}")
            # A row of calls is shortened.
            if name not in {"struct_bytes", "munmap_calls", "madvise_calls"} and f"`{name}`" not in tables:
                wrong.append(f"{struct}_t.{name} is not in docs/configuration.md")
            if f"\\fB{name}\\fP" not in page:
                wrong.append(f"{struct}_t.{name} is not in man/libhakmem.3")
            seen += 1
    wrong += [f"fields.c has {name}, which is in neither struct" for name in listed]
    wrong += [f"man/libhakmem.3 explains {name}, which is in neither struct"
              for name in re.findall(r"^\\fB(\w+)\\fP", page, re.MULTILINE) if name not in known]
    print("\n".join(wrong) or f"{seen} members, each a figure and explained twice")
    return 1 if wrong or seen < 40 else 0


if __name__ == "__main__":
    sys.exit(main())
