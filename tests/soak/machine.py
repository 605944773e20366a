"""What happens to the whole machine during a soak: a neighbour that takes
memory, and another setting of transparent huge pages.

SPDX-License-Identifier: MIT
"""
import pathlib
import subprocess
import sys

import plan

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import huge_pages  # noqa: E402  (needs the path)

HUGE_PAGES = huge_pages.SETTING
NEIGHBOUR_SHARE, NEIGHBOUR_MOST = 0.5, 8 << 30  # of what is available; bytes
NEIGHBOUR = """
import mmap, sys
memory = mmap.mmap(-1, int(sys.argv[1]))
for at in range(0, len(memory), mmap.PAGESIZE):
    memory[at] = 1
print(flush=True)
sys.stdin.read()
"""


def available():
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


class Neighbour:
    """A process that touches half of what memory is available, and keeps it. It has
    touched it, or was killed for it, when `begin` returns."""

    def __init__(self):
        self._process = None

    def begin(self):
        size = int(min(available() * NEIGHBOUR_SHARE, NEIGHBOUR_MOST))
        self._process = subprocess.Popen([sys.executable, "-c", NEIGHBOUR, str(size)], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE)
        # Should memory run out after all, it is the one to go.
        pathlib.Path(f"/proc/{self._process.pid}/oom_score_adj").write_text("1000")
        self._process.stdout.readline()
        return f"{size >> 20} MiB"

    def end(self):
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


class HugePages:
    """The setting of transparent huge pages, which a guard puts back."""

    def __init__(self):
        self.setting = huge_pages.Setting(HUGE_PAGES)
        self.writable = self.setting.writable()

    def begin(self, draw):
        before = self.setting.mode()
        chosen = draw.choice([mode for mode in self.setting.modes() if mode != before])
        self.setting.set(chosen)
        return chosen

    def end(self):
        self.setting.restore()


class Machine:
    """The events of the machine, carried out in turn as time passes."""

    def __init__(self, seed, seconds, calm):
        self.draw = plan.generator(seed, "machine")
        self.huge_pages, self.neighbour = HugePages(), Neighbour()
        kinds = [] if calm else ["neighbour"] + (["huge-pages"] if self.huge_pages.writable else [])
        self.planned = plan.events(seed, "machine", kinds, (), max(2, int(seconds / 45))) if kinds else []
        self.seconds, self.seen, self._leaves = seconds, [], None

    def step(self, now):
        """Called again and again with the seconds since the beginning."""
        at = now / self.seconds
        if self._leaves is not None and at >= self._leaves:
            self.neighbour.end()
            self._leaves = None
            self.seen.append((now, "neighbour leaves", ""))
        if self.planned and at >= self.planned[0].at:
            event = self.planned.pop(0)
            if event.kind == "huge-pages":
                self.seen.append((now, event.kind, self.huge_pages.begin(self.draw)))
            elif self._leaves is None:
                self.seen.append((now, event.kind, self.neighbour.begin()))
                self._leaves = at + event.length

    def end(self):
        self.neighbour.end()
        self.huge_pages.end()
