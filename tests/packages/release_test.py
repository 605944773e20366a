"""scripts/release, in clones of this checkout in which the tests and the builds are stand-ins that say or write what
is expected: what it refuses, and why; that the tag comes last, of what was tested; that nothing is pushed.

    release_test.py LIBRARY FOLDER      libhakmem.so, as it was built; where the clones go

77 without abidiff, or where this is no checkout.

SPDX-License-Identifier: MIT
"""
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY, FOLDER = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
MACHINE = platform.machine()
VERSION = re.search(r"^project\(hakmem VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
STAND_INS = {
    "tests/run": "echo '7 passed, 0 failed, 1 skipped'",
    "scripts/deps": "exit 0",
    "scripts/dist": f"""mkdir -p "$1" && cd "$1" && touch hakmem-{VERSION}.tar.gz
        mkdir -p hakmem-{VERSION}-linux-{MACHINE}/lib
        cp '{LIBRARY}' hakmem-{VERSION}-linux-{MACHINE}/lib/libhakmem.so.{VERSION}
        tar -czf hakmem-{VERSION}-linux-{MACHINE}.tar.gz --remove-files hakmem-{VERSION}-linux-{MACHINE}""",
    # A flag with a blank in it is whole.
    "scripts/build-hak": """printf '%s\\n' "$CARGO_ENCODED_RUSTFLAGS" | tr '\\037' '\\n' |
        grep -qxF -- "--remap-path-prefix=$CARGO_HOME=cargo"
        mkdir -p "$1/share" && touch "$1"/hak""",
    "scripts/build-deb": f"""mkdir -p "$1" && cd "$1" && arch=$(dpkg --print-architecture)
        [ "$2" != --arch ] || arch=$3
        for name in libhakmem0 libhakmem-dev hakmem-tools; do touch ${{name}}_{VERSION}-1_$arch.deb; done""",
    "scripts/build-rpm": f"""mkdir -p "$1" && cd "$1"
        for name in libhakmem0 libhakmem-devel hakmem-tools; do touch $name-{VERSION}-1.{MACHINE}.rpm; done""",
    "scripts/build-wheel": f"""mkdir -p "$1" && cd "$1" && touch hakmem-{VERSION}.tar.gz
        for machine in {MACHINE} ${{2:+aarch64}}; do touch hakmem-{VERSION}-py3-none-manylinux_2_34_$machine.whl; done""",
    "stand-ins/cargo": f"""mkdir -p "$CARGO_TARGET_DIR/package" && cd "$CARGO_TARGET_DIR/package"
        touch hakmem-{VERSION}.crate hakmem-sys-{VERSION}.crate""",
}


class Clone:
    """A checkout in which all says that it is the version, with an origin of its own."""

    def __init__(self, name):
        self.path, self.origin = FOLDER / name, FOLDER / f"{name}-origin"
        for folder in self.path, self.origin:
            shutil.rmtree(folder, ignore_errors=True)
        # What the files are just now, committed or not; what is ignored is not part of it.
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                check=True, stdout=subprocess.PIPE, text=True).stdout
        for file in filter(None, set(listed.split("\0"))):
            if (ROOT / file).is_symlink() or (ROOT / file).exists():
                (self.path / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, self.path / file, follow_symlinks=False)
        self.git("init", "-q", "-b", "main")
        for key, value in {"user.name": "A Tester", "user.email": "tester@hakmem.invalid"}.items():
            self.git("config", key, value)
        subprocess.run(["git", "init", "-q", "--bare", self.origin], check=True)
        self.git("remote", "add", "origin", self.origin)
        self.edit("README.md", r"^(Version \S+), not yet released\.", r"\1.")
        self.edit("CHANGELOG.md", r"^(## \[\S+\] - )unreleased", r"\g<1>2026-12-01")
        self.edit("packaging/debian/changelog", "UNRELEASED", "unstable")
        for file, script in STAND_INS.items():
            (self.path / file).parent.mkdir(exist_ok=True)
            (self.path / file).write_text(f"#!/bin/sh\nset -e\n{script}\n")
            (self.path / file).chmod(0o755)
        self.commit()

    def git(self, *words):
        return subprocess.run(["git", "-C", self.path, *words], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def edit(self, file, pattern, replacement):
        text = (self.path / file).read_text()
        (self.path / file).write_text(re.sub(pattern, replacement, text, count=1, flags=re.MULTILINE))

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-qm", "As it is")

    def release(self, *words):
        environment = {**os.environ, "PATH": f"{self.path}/stand-ins:{os.environ['PATH']}",
                       "CARGO_HOME": "/a blank/cargo"}
        result = subprocess.run([self.path / "scripts/release", *words], env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return result.returncode == 0, result.stdout

    def tags(self):
        return self.git("tag", "--list")


class Release(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.clone = Clone("clone")
        cls.start = cls.clone.git("rev-parse", "HEAD")

    def setUp(self):
        self.clone.git("reset", "-q", "--hard", self.start)
        self.clone.git("clean", "-qfdx")
        for tag in self.clone.tags().split():
            self.clone.git("tag", "-d", tag)

    def refused(self, reason, version=VERSION):
        succeeded, said = self.clone.release(version)
        self.assertFalse(succeeded, said)
        self.assertIn(reason, said)
        self.assertNotIn(f"v{VERSION}", self.clone.tags())

    def changed(self, file, pattern, replacement):
        before = (self.clone.path / file).read_text()
        self.clone.edit(file, pattern, replacement)
        self.assertNotEqual(before, (self.clone.path / file).read_text(), f"{file} has no {pattern}")
        self.clone.commit()

    def test_all_is_built_and_the_tag_comes_last(self):
        succeeded, said = self.clone.release(VERSION, "--dry-run")
        self.assertTrue(succeeded, said)
        self.assertEqual(self.clone.tags(), "")
        succeeded, said = self.clone.release(VERSION)
        self.assertTrue(succeeded, said)
        self.assertEqual(self.clone.git("rev-parse", f"v{VERSION}^{{commit}}"), self.start)
        message = self.clone.git("tag", "-l", "--format=%(contents)", f"v{VERSION}")
        self.assertIn("### Added", message)
        self.assertNotIn("## [", message)
        out = self.clone.path / "build/release"
        sums = (out / "SHA256SUMS").read_text().splitlines()
        self.assertEqual(len(sums), len([file for file in out.rglob("*") if file.is_file()]) - 1)
        subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=out, check=True)
        self.assertGreaterEqual(len(sums), 12)
        # Nothing has gone anywhere, and a version is made once.
        self.assertEqual(self.clone.git("ls-remote", "origin"), "")
        succeeded, said = self.clone.release(VERSION)
        self.assertFalse(succeeded)
        self.assertIn(f"there is a tag v{VERSION} already", said)

    def test_what_is_not_committed(self):
        (self.clone.path / "more").write_text("")
        self.refused("not committed")

    def test_versions(self):
        self.refused("is no version", "1.0")
        self.refused("CMakeLists.txt says", "7.7.7")
        for file, pattern in {"CMakeLists.txt": "hakmem VERSION", "README.md": "^Version", "man/libhakmem.3": '"hakmem',
                              "tools/hak/Cargo.toml": "^version =", "packaging/rpm/hakmem.spec": "^Version: +",
                              "packaging/debian/changelog": r"^hakmem",
                              "bindings/python/pyproject.toml": "^version ="}.items():
            with self.subTest(file):
                self.setUp()
                self.changed(file, rf"({pattern}\W*){re.escape(VERSION)}", r"\g<1>7.7.7")
                self.refused(f"{file} says")
        self.setUp()
        self.changed("include/hakmem.h", r"(HAK_VERSION_PATCH )\d+", r"\g<1>77")
        self.refused("include/hakmem.h says")

    def test_the_changelogs(self):
        self.changed("CHANGELOG.md", r" - 2026-12-01", " - unreleased")
        self.refused("CHANGELOG.md does not begin with")
        self.setUp()
        self.changed("packaging/debian/changelog", "unstable", "UNRELEASED")
        self.refused("packaging/debian/changelog says no version")

    def test_a_newer_version(self):
        self.clone.git("tag", "v999.0.0")
        self.refused("v999.0.0 is newer")

    def test_programs_of_the_version_before(self):
        self.changed("tests/api/libhakmem.so.0.abi", r"elf-symbol name='hak_trim'", "elf-symbol name='hak_trim_more'")
        self.clone.git("tag", "v0.0.9")
        self.clone.git("reset", "-q", "--hard", self.start)
        self.refused("programs that were linked with v0.0.9 may not run with it")

    def test_a_library_that_is_not_the_recorded_one(self):
        self.changed("tests/api/libhakmem.so.0.abi", r"elf-symbol name='hak_trim'", "elf-symbol name='hak_trim_more'")
        self.refused("The binary interface differs")

    def test_tests_that_fail(self):
        self.changed("tests/run", "0 failed", "1 failed")
        self.refused("the tests end with '7 passed, 1 failed, 1 skipped'")
        self.setUp()
        self.changed("tests/run", "^echo .*", "exit 3")
        self.refused("that failed")

    def test_something_that_is_not_built(self):
        self.changed("scripts/build-rpm", " hakmem-tools", "")
        self.refused("these were not built: rpm/hakmem-tools")

    def test_a_checkout_that_changes_meanwhile(self):
        self.changed("tests/run", "^echo", "touch more; echo")
        self.refused("the checkout has changed meanwhile")

    def test_a_folder_with_something_else(self):
        (self.clone.path / "build").mkdir()
        succeeded, said = self.clone.release(VERSION, "--out", str(self.clone.path / "src"))
        self.assertFalse(succeeded)
        self.assertIn("has something else in it", said)
        self.assertTrue((self.clone.path / "src/api").exists())


if __name__ == "__main__":
    if shutil.which("abidiff") is None or not (ROOT / ".git").exists():
        print("skipped: there is no abidiff (scripts/deps test installs it), or this is no checkout of git's")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
