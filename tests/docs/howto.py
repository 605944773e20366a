#!/usr/bin/env python3
"""A page of docs/howto does what it says: its commands are run as they stand there, and print what stands there.

    howto.py BUILD PAGE        a page's commands, in a home and a folder of their own
    howto.py BUILD README      each page is listed, and its figures are those of the table

As in memory.py, lines that a page shows have to come in their order, and `...` stands for any others. The port 8080 is
another one here. Ends with 77, which is to skip the test, without `hak` or one of the programs that the page's first
line says it needs. `scripts/deps test` installs all of these but Go, which would take 464 MB for one page.

SPDX-License-Identifier: MIT
"""
import glob
import os
import pathlib
import re
import shutil
import socket
import sys
import tempfile

import memory

PAGES = memory.ROOT / "docs/howto"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def check_pages():
    readme = (PAGES / "README.md").read_text()
    rows = {}
    for name, ratios in re.findall(r"^\| ([a-z]+) \| [^|]+ \|(.*)\|$", readme, re.MULTILINE):
        rows.setdefault(name, []).extend(re.findall(r"\d+\.\d+", ratios))
    for page in sorted(PAGES.glob("*.md")):
        if page.name == "README.md":
            continue
        if f"]({page.name})" not in readme:
            raise memory.Wrong(f"README.md does not lead to {page.name}")
        text = page.read_text()
        for part in ("**What to set.**", "**What to expect.**", "**When not.**"):
            if part not in text:
                raise memory.Wrong(f"{page.name} does not say {part}")
        expected = text.split("**What to expect.**", 1)[1].split("\n\n", 1)[0]
        for figure in re.findall(r"(?<![\d.])\d\.\d\d(?!\d)", expected):
            if figure not in rows.get(page.stem, []):
                raise memory.Wrong(f"{page.name}: {figure} is not in README.md's rows of {page.stem}")
    if len(rows) < 8:
        raise memory.Wrong(f"README.md has rows of {sorted(rows)} alone")


def run_page(build, page):
    text = (PAGES / f"{page}.md").read_text().replace("8080", free_port())
    needed = re.match(r"<!-- needs: (.*) -->\n", text)
    os.environ["PATH"] = ":".join([os.environ["PATH"], "/usr/sbin", "/sbin", *glob.glob("/usr/lib/postgresql/*/bin")])
    lacks = [program for program in needed[1].split() if shutil.which(program) is None]
    if lacks:
        raise memory.Lacking(f"there is no {' nor '.join(lacks)} (scripts/deps test installs all but Go)")
    with tempfile.TemporaryDirectory(prefix="hakmem-", dir="/tmp") as directory:
        memory.stage(build, directory)
        os.environ["PATH"] = f"{directory}/build:{os.environ['PATH']}"
        os.environ["HOME"] = directory
        os.environ.pop("XDG_CONFIG_HOME", None)
        shell, ran = memory.Shell(directory), 0
        try:
            for command, shown in memory.steps(text):
                memory.check(shell, command, shown)
                ran += 1
        finally:
            shell.close()
    if ran == 0:
        raise memory.Wrong("it has no commands")
    print(f"{ran} commands do what the page says")
    return 0


def main():
    build, page = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    try:
        return check_pages() or 0 if page == "README" else run_page(build, page)
    except memory.Lacking as lacking:
        print(f"skipped: {lacking}")
        return memory.SKIPPED
    except memory.Wrong as wrong:
        print(f"docs/howto/{page}.md: {wrong}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
