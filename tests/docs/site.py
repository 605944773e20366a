#!/usr/bin/env python3
"""The documents become pages whose links all lead somewhere, and which can be searched from a disk.

    site.py WORK

Where `make site` has been run once, so that the generator is there; else it ends with 77, which is to skip the test.

SPDX-License-Identifier: MIT
"""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
# Pages, and what has to stand on them.
PAGES = {
    "index.html": "compare.png", "docs/images/compare.png": None, "docs/howto/redis.html": "hak install program",
    "man/libhakmem.3.html": "SYNOPSIS", "api/hakmem_8h.html": "Bytes of the block that may be used",
    "docs/benchmarks.html": "random_mixed", "src/int/container.h": None,
}


def found(site):
    """What a browser without a network lists for a search."""
    address = f"file://{site}/index.html?q=HAKMEM_SOFT_LIMIT"
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               "--virtual-time-budget=8000", "--dump-dom", address]
    page = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout
    return page.count('class="md-search-result__item"')


def main():
    work = pathlib.Path(sys.argv[1]).resolve()
    environment = ROOT / "build/site/env"
    lacks = [program for program in ("mandoc", "doxygen", "npm") if shutil.which(program) is None]
    if lacks or not (environment / "requirements.txt").exists():
        print("skipped: the generator is not there; `make site` fetches it")
        return SKIPPED
    # Its own generator would take the place of the other where what is pinned has changed.
    if (environment / "requirements.txt").read_text() != (ROOT / "docs/site/requirements.txt").read_text():
        print("skipped: the generator is not of the pinned versions; `make site` fetches them")
        return SKIPPED
    made = subprocess.run([ROOT / "scripts/build-site", work, "--env", environment], capture_output=True, text=True,
                          check=False)
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
