#!/usr/bin/env python3
"""Tests that a soak leaves the machine as it was: on a file that stands for the
setting of huge pages, and a small neighbour.

SPDX-License-Identifier: MIT
"""
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import machine
import member
import plan

# Changes the setting in the file that its argument names, and dies.
DIES = """
import os, pathlib, sys
import machine, plan
machine.HUGE_PAGES = pathlib.Path(sys.argv[1])
pages = machine.HugePages()
pages.begin(plan.generator(1))
print(machine.HUGE_PAGES.read_text(), pages._guard.pid, flush=True)
os.kill(os.getpid(), 9)
"""


class HugePages(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.file = pathlib.Path(directory.name, "enabled")
        self.file.write_text("always [madvise] never\n")

    def test_another_setting_holds_until_the_end(self):
        with mock.patch.object(machine, "HUGE_PAGES", self.file):
            pages = machine.HugePages()
            self.assertIn(pages.begin(plan.generator(1)), ("always", "never"))
            self.assertIn(self.file.read_text(), ("always", "never"))
            pages.end()
        self.assertEqual(self.file.read_text(), "madvise")

    def test_it_comes_back_when_the_soak_is_killed(self):
        result = subprocess.run([sys.executable, "-c", DIES, self.file], cwd=pathlib.Path(__file__).parent,
                                stdout=subprocess.PIPE, text=True, check=False)
        chosen, guard = result.stdout.split()
        self.assertIn(chosen, ("always", "never"))
        # Waits for the guard, which is not our child: it holds no more than this file open.
        try:
            descriptor = os.pidfd_open(int(guard))
            select.select([descriptor], [], [], 60)
            os.close(descriptor)
        except ProcessLookupError:
            pass
        self.assertEqual(self.file.read_text(), "madvise")


class Neighbour(unittest.TestCase):
    def test_it_takes_memory_and_goes(self):
        with mock.patch.object(machine, "NEIGHBOUR_MOST", 32 << 20):
            neighbour = machine.Neighbour()
            self.assertEqual(neighbour.begin(), "32 MiB")
            pid = neighbour._process.pid
            self.assertGreater(member.status_of(pid)["VmRSS"], 32 << 10)
            neighbour.end()
        self.assertFalse(pathlib.Path(f"/proc/{pid}").exists())


if __name__ == "__main__":
    sys.exit(unittest.main())
