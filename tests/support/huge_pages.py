"""The machine's setting of transparent huge pages: changed for a while, and put back
however the process that changed it ends.

As a program it is followed by a command, and becomes it: one that gets no huge pages,
and neither does anything that it starts. That takes no rights and changes nothing for
other processes.

SPDX-License-Identifier: MIT
"""
import ctypes
import os
import pathlib
import subprocess
import sys

SETTING = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
# Puts the setting back when its input ends, which it does even if the process that started it is killed.
GUARD = "import sys; sys.stdin.read(); open(sys.argv[1], 'w').write(sys.argv[2])"
PR_SET_THP_DISABLE = 41  # <linux/prctl.h>


class Setting:
    """`file` holds all modes in a line, the one that is in force in brackets. As a
    context: afterwards that is what it was before."""

    def __init__(self, file=SETTING):
        self.file, self.guard = file, None

    def modes(self):
        """What the machine knows; nothing where it has no such setting."""
        return [word.strip("[]") for word in self._words()]

    def mode(self):
        return next((word.strip("[]") for word in self._words() if word.startswith("[")), None)

    def writable(self):
        return os.access(self.file, os.W_OK)

    def set(self, mode):
        if self.guard is None:
            # A session of its own: what a terminal sends to all of its programs does not reach it.
            self.guard = subprocess.Popen([sys.executable, "-c", GUARD, str(self.file), self.mode()],
                                          stdin=subprocess.PIPE, start_new_session=True)
        self.file.write_text(mode)

    def restore(self):
        if self.guard is not None:
            self.guard.stdin.close()
            self.guard.wait()
            self.guard = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.restore()

    def _words(self):
        return self.file.read_text().split() if self.file.exists() else []


def become_without(command):
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0:
        sys.exit(f"huge pages cannot be disabled for a process: {os.strerror(ctypes.get_errno())}")
    os.execvp(command[0], command)


if __name__ == "__main__":
    become_without(sys.argv[1:])
