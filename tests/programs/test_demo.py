"""`make demo`: it marks noise, and nothing else; what it shows fits a terminal; it proves who served.

SPDX-License-Identifier: MIT
"""
import os
import pathlib
import random
import shutil
import subprocess
import sys
import unittest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "demo"))

import demo
import noise

SKIPPED = 77
LIBRARY = os.environ.get("HAKMEM_LIB", "")


def shown(*options, library=LIBRARY):
    command = [sys.executable, PROJECT / "demo" / "demo.py", "--lib", library, "--scale", "0.01", *options]
    return subprocess.run(command, text=True, capture_output=True, check=False)


def made(seconds, output=b"same", refills=123_456):
    counters = {"refills": refills, "flushes": 123_456, "slab_count": 1234}
    return [demo.Run(each, 4000 << 20, 12_345_678, output, counters)
            for each in seconds]


class Noise(unittest.TestCase):
    BASE = [1.0, 3.0, 2.0, 5.0, 1.5, 1.0, 1.1, 1.2, 1.0]

    def test_the_intervals_are_those_of_the_sign_test(self):
        # By the binomial distribution: of 12 coins, at most 2 show heads in 1.93 % of the cases, at most 3 in 7.3 %.
        expected = {1: None, 5: None, 6: 0, 8: 0, 9: 1, 11: 1, 12: 2, 15: 3, 20: 5}
        self.assertEqual({count: noise.left_out(count) for count in expected}, expected)
        self.assertIsNone(noise.left_out(noise.FEWEST_ROUNDS - 1))
        self.assertIsNotNone(noise.left_out(noise.FEWEST_ROUNDS))

    def test_a_difference_is_told_through_what_disturbs_both(self):
        faster = noise.ratio([value * 0.9 for value in self.BASE], self.BASE)
        self.assertIs(faster.is_noise, False)
        self.assertEqual(noise.words(faster), "-10 %")
        # One round of nine that tells another story does not decide, and two do.
        changed = [value * 0.9 for value in self.BASE]
        changed[1] *= 3
        self.assertIs(noise.ratio(changed, self.BASE).is_noise, False)
        changed[2] *= 3
        self.assertIs(noise.ratio(changed, self.BASE).is_noise, True)

    def test_rounds_that_disagree_are_noise(self):
        ratios = [0.9, 1.1, 0.95, 1.08, 1.0, 0.97, 1.05, 0.92, 1.03]
        swayed = noise.ratio([value * ratio for value, ratio in zip(self.BASE, ratios)], self.BASE)
        self.assertIs(swayed.is_noise, True)
        self.assertEqual(noise.words(swayed), "noise   (-8.0 to +8.0 %)")
        self.assertEqual(noise.words(noise.ratio(self.BASE, self.BASE)), "none")
        few = noise.ratio([value * 1.2 for value in self.BASE[:5]], self.BASE[:5])
        self.assertIsNone(few.is_noise)
        self.assertEqual(noise.words(few), "+20 %?")

    def test_no_difference_is_found_where_there_is_none_but_in_one_of_twenty_cases(self):
        draw = random.Random(1)
        for rounds in (6, 9, 20):
            pairs = [[[draw.lognormvariate(0, 0.05) for _ in range(rounds)] for _ in range(2)] for _ in range(2000)]
            found = sum(noise.ratio(*pair).is_noise is False for pair in pairs)
            # At least as sure as is said, and not so sure that nothing would ever be found.
            self.assertLess(found, 130, f"of 2000 at {rounds} rounds")
            self.assertGreater(found, 30, f"of 2000 at {rounds} rounds")

    def test_percentages_have_as_many_digits_as_they_need(self):
        self.assertEqual([noise.percent(of) for of in (0.81, 1.034, 1.0, 0.9004, 2.5)],
                         ["-19 %", "+3.4 %", "0 %", "-10 %", "+150 %"])


class Shown(unittest.TestCase):
    def test_what_is_noise_is_marked_and_nothing_else(self):
        base = made([1.0, 1.1, 1.0, 1.2, 1.0, 1.1])
        rows = demo.rows({("python", "glibc"): base, ("python", "hakmem"): made([0.5, 0.6, 0.5, 0.6, 0.5, 0.6]),
                          ("perl", "glibc"): base, ("perl", "hakmem"): made([1.1, 1.0, 1.1, 1.1, 1.1, 1.0])})
        times = [row for row in rows if row[1] == "time"]
        self.assertEqual([row[2:4] for row in times], [("1.000 s", "0.500 s"), ("1.000 s", "1.000 s")])
        self.assertTrue(times[0][4].startswith("-50 %"), times)
        self.assertTrue(times[1][4].startswith("noise"), times)
        lines = demo.table(rows)
        self.assertLessEqual(max(map(len, lines)), 80, lines)
        self.assertTrue(any(line.startswith("perl     time") and "noise" in line for line in lines), lines)

    def test_faults_are_found(self):
        good, other, unserved = made([1.0]), made([1.0], output=b"other"), made([1.0], refills=0)
        for runs, faults in [(good, []), (other, ["python gives another output under hakmem."]),
                             (unserved, ["hakmem did not serve python: its counters show no refill."])]:
            said, found = demo.served({("python", "glibc"): good, ("python", "hakmem"): runs})
            self.assertEqual(found, faults)
            self.assertLessEqual(max(map(len, said), default=0), 80, said)

    def test_a_run_says_all_in_80_columns(self):
        result = shown("--rounds", "6")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertLessEqual(max(map(len, lines)), 80, result.stdout)
        for program in ("python", "perl"):
            self.assertTrue(any(line.startswith(f"{program} ") and line.count(" s ") == 2 for line in lines), lines)
            self.assertIn(f"hakmem served {program}: it counted ", result.stdout)
        self.assertEqual(sum("peak memory" in line for line in lines), 2)
        self.assertNotIn("?", result.stdout)
        self.assertEqual(result.stderr.splitlines(), ["warm-up ...", *(f"round {n} of 6 ..." for n in range(1, 7))])

    def test_few_rounds_are_not_enough(self):
        result = shown("--rounds", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("?: too few rounds to tell it from noise; 6 would do.", result.stdout)

    def test_another_library_is_no_hakmem(self):
        with open("/proc/self/maps") as maps:
            libc = next(line.split()[-1] for line in maps if "/libc.so.6" in line)
        result = shown("--rounds", "1", library=libc)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("FAILED: hakmem did not serve python", result.stderr)


if __name__ == "__main__":
    if shutil.which("perl") is None:
        print("skipped: perl is not installed; `scripts/deps test` installs it")
        sys.exit(SKIPPED)
    unittest.main()
