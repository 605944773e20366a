#!/usr/bin/env python3
"""The documents become pages whose links all lead somewhere, and which can be searched from a disk.

    site.py WORK

They are made by a tree whose path has a blank and what settings take for a comment, by Debian's own Python where it is,
as a newer one may be before it on the PATH, for which there are newer packages. The generator is fetched where it is not
there in the pinned versions. Without the programs that it needs, or where packages cannot be reached, it ends with 77,
which is to skip the test.

SPDX-License-Identifier: MIT
"""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
UNREACHABLE = 69  # from scripts/build-site
# Pages, and what has to stand on them.
PAGES = {
    "index.html": "compare.png", "docs/images/compare.png": None, "docs/howto/redis.html": "hak install program",
    "man/libhakmem.3.html": "SYNOPSIS", "api/hakmem_8h.html": "Bytes of the block that may be used",
    "docs/benchmarks.html": "images/benchmarks-1.svg", "docs/images/benchmarks-1.svg": "mimalloc", "src/int/container.h": None,
}


def found(site):
    """What a browser without a network lists for a search."""
    address = (site / "index.html").as_uri() + "?q=HAKMEM_SOFT_LIMIT"
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               "--virtual-time-budget=8000", "--dump-dom", address]
    page = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout
    return page.count('class="md-search-result__item"')


def makes_environments(python):
    return subprocess.run([python, "-c", "import ensurepip"], capture_output=True, check=False).returncode == 0


def copied(tree):
    """The sources at another place, without what is built in them."""
    def left_out(folder, names):
        return [name for name in names if name in (".git", "target", "__pycache__") or
                pathlib.Path(folder) == ROOT and name.startswith("build") or pathlib.Path(folder, name) == tree.parent]

    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(ROOT, tree, symlinks=True, ignore=left_out)


def main():
    work = pathlib.Path(sys.argv[1]).resolve()
    lacks = [program for program in ("mandoc", "doxygen", "npm") if shutil.which(program) is None]
    if lacks:
        print(f"skipped: there is no {' nor '.join(lacks)} (scripts/deps test installs it)")
        return SKIPPED
    pythons = [python for python in ("/usr/bin/python3", sys.executable) if pathlib.Path(python).exists()]
    python = next(filter(makes_environments, pythons), None)
    if python is None:
        print("skipped: python3 has no venv (scripts/deps test installs it)")
        return SKIPPED
    tree, work = work / "a tree #SITE", work / "pages #SITE"
    copied(tree)
    made = subprocess.run([python, tree / "scripts/build-site", work], capture_output=True, text=True, check=False)
    if made.returncode == UNREACHABLE:
        print(f"skipped: {made.stderr}")
        return SKIPPED
    if made.returncode:
        print(made.stdout + made.stderr)
        return 1
    for page, text in PAGES.items():
        path = work / "site" / page
        if not path.exists() or text and text not in path.read_text():
            print(f"{page} is missing, or {text!r} on it")
            return 1
    hits = found(work / "site") if shutil.which("chromium") else None
    if hits == 0:
        print("the search finds nothing")
        return 1
    print(f"{made.stdout.strip()}; the search lists {hits} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
