#!/usr/bin/env python3
"""Tests that a soak leaves the machine as it was: on a file that stands for the
setting of huge pages, and a small neighbour.

SPDX-License-Identifier: MIT
"""
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import machine
import member
import plan


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
