#!/usr/bin/env python3
"""Tests of huge_pages.py, on a file that stands for the machine's setting.

SPDX-License-Identifier: MIT
"""
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import unittest

import huge_pages

HERE = pathlib.Path(__file__).resolve().parent
# Changes the setting in the file that its argument names, and dies.
DIES = """
import os, pathlib, sys
import huge_pages
setting = huge_pages.Setting(pathlib.Path(sys.argv[1]))
setting.set("always")
print(setting.guard.pid, setting.file.read_text(), flush=True)
os.kill(os.getpid(), 9)
"""
# Says of itself and of what it starts whether huge pages are disabled (PR_GET_THP_DISABLE).
ASKS = """
import ctypes, subprocess, sys
print(ctypes.CDLL(None).prctl(42, 0, 0, 0, 0), flush=True)
if len(sys.argv) == 2:
    subprocess.run([sys.executable, "-c", sys.argv[1], sys.argv[1], ""], check=True)
"""


def wait_for(pid):
    """Until a process that is not our child has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([descriptor], [], [])
    os.close(descriptor)


class TheSetting(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.file = pathlib.Path(directory.name, "enabled")
        self.file.write_text("always [madvise] never\n")
        self.setting = huge_pages.Setting(self.file)

    def test_is_known_with_its_modes(self):
        self.assertEqual(self.setting.modes(), ["always", "madvise", "never"])
        self.assertEqual(self.setting.mode(), "madvise")
        self.assertTrue(self.setting.writable())

    def test_may_not_be_there(self):
        absent = huge_pages.Setting(self.file.with_name("absent"))
        self.assertEqual((absent.modes(), absent.mode(), absent.writable()), ([], None, False))

    def test_holds_inside_and_is_back_behind(self):
        with self.setting:
            for mode in "always", "never":
                self.setting.set(mode)
                self.assertEqual(self.file.read_text(), mode)
        self.assertEqual(self.file.read_text(), "madvise")

    def test_is_back_after_an_exception(self):
        with self.assertRaises(KeyboardInterrupt), self.setting:
            self.setting.set("never")
            raise KeyboardInterrupt
        self.assertEqual(self.file.read_text(), "madvise")

    def test_is_back_when_whoever_changed_it_is_killed(self):
        result = subprocess.run([sys.executable, "-c", DIES, self.file], cwd=HERE, stdout=subprocess.PIPE, text=True,
                                check=False)
        guard, changed = result.stdout.split()
        self.assertEqual(changed, "always")
        wait_for(int(guard))
        self.assertEqual(self.file.read_text(), "madvise")


class ACommand(unittest.TestCase):
    def test_gets_no_huge_pages_and_neither_do_its_children(self):
        # The code is its own first argument: the child runs it, too.
        result = subprocess.run([sys.executable, huge_pages.__file__, sys.executable, "-c", ASKS, ASKS],
                                stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(result.stdout.split(), ["1", "1"])


if __name__ == "__main__":
    unittest.main()
