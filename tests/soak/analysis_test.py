#!/usr/bin/env python3
"""Tests of what the soak concludes: over made-up series, ledgers and plans, each
verdict in both directions.

SPDX-License-Identifier: MIT
"""
import pathlib
import random
import sys
import tempfile
import unittest

import ledger
import plan
import record
import series
import verdict

MIB = 1024


def record_of(resident, length=600, **fields):
    """A record whose server has resident(second) KiB, in lives that begin at `starts`."""
    starts = sorted(fields.pop("starts", [0]))
    made = record.Record("made-up", length, base=20 * MIB, after=25 * MIB, **fields)
    for second in range(length):
        life = max(i for i, start in enumerate(starts) if start <= second)
        made.samples.append((float(second), life, 100 + life, "server", resident(second, second - starts[life]), 0))
    return made


def passes(check, made, timed=True):
    results = {name.split(": ")[1]: passed for name, passed, _ in verdict.checks(made, timed, True)}
    return results[check]


class Growth(unittest.TestCase):
    CHECK = "resident size is bounded"
    noise = random.Random(5)

    def test_a_level_with_noise_and_peaks_is_bounded(self):
        made = record_of(lambda t, _: 100 * MIB + self.noise.randrange(-10 * MIB, 10 * MIB) + 400 * MIB * (t % 97 == 0))
        self.assertTrue(passes(self.CHECK, made))

    def test_a_server_that_fills_up_first_is_bounded(self):
        made = record_of(lambda t, _: min(100 * MIB, 2 * MIB * t))
        self.assertTrue(passes(self.CHECK, made))

    def test_a_leak_is_not(self):
        made = record_of(lambda t, _: 100 * MIB + t * MIB // 4)  # 100 MiB in two thirds
        self.assertFalse(passes(self.CHECK, made))

    def test_restarts_do_not_hide_a_leak(self):
        made = record_of(lambda _, age: 100 * MIB + age * MIB // 2, starts=[0, 150, 260, 390])
        self.assertFalse(passes(self.CHECK, made))

    def test_restarts_are_no_leak(self):
        made = record_of(lambda _, age: min(100 * MIB, 10 * MIB + 5 * MIB * age), starts=[0, 150, 260, 390])
        self.assertTrue(passes(self.CHECK, made))

    def test_the_memory_of_forked_children_does_not_count(self):
        made = record_of(lambda *_: 100 * MIB)
        made.samples += [(float(t), 0, 1, "child", t * MIB, 0) for t in range(600)]
        self.assertTrue(passes(self.CHECK, made))

    def test_that_of_all_the_servers_own_processes_does(self):
        made = record_of(lambda *_: 100 * MIB)
        made.samples += [(float(t), 0, 1, "server", t * MIB, 0) for t in range(600)]
        self.assertFalse(passes(self.CHECK, made))

    def test_no_samples_are_no_proof(self):
        self.assertFalse(passes(self.CHECK, record.Record("made-up", 600)))


class Fall(unittest.TestCase):
    CHECK = "resident size falls after the load"

    def test_what_falls_passes_and_what_stays_does_not(self):
        made = record_of(lambda *_: 200 * MIB)
        for after, expected in ((30, True), (120, True), (140, False), (200, False)):
            made.after = after * MIB
            self.assertEqual(passes(self.CHECK, made), expected, after)

    def test_each_process_may_keep_a_little(self):
        made = record_of(lambda *_: 60 * MIB)
        made.after = 55 * MIB
        for processes, expected in ((1, False), (3, True)):
            made.processes = processes
            self.assertEqual(passes(self.CHECK, made), expected, processes)

    def test_a_server_that_never_grew_passes(self):
        made = record_of(lambda *_: 21 * MIB)
        made.after = 22 * MIB
        self.assertTrue(passes(self.CHECK, made))


class Drift(unittest.TestCase):
    CHECK = "latency does not drift"

    def latencies(self, p50, disturbed=lambda t: False):
        made = record_of(lambda *_: 100 * MIB)
        made.latencies = [record.Latency(float(t), 100, 0, 0, 0, p50(t), 0, 0, disturbed(t)) for t in range(600)]
        return made

    def test_level_latency_passes(self):
        self.assertTrue(passes(self.CHECK, self.latencies(lambda t: 500 + 100 * (t % 7))))

    def test_latency_that_rises_and_rises_fails(self):
        self.assertFalse(passes(self.CHECK, self.latencies(lambda t: 2.0 ** (t / 100) * 500)))

    def test_disturbed_seconds_do_not_count(self):
        made = self.latencies(lambda t: 90000 if t > 400 and t % 2 else 500, lambda t: t > 400 and t % 2)
        self.assertTrue(passes(self.CHECK, made))

    def test_runs_of_steps_are_not_judged_by_the_clock(self):
        names = [name for name, _, _ in verdict.checks(record_of(lambda *_: MIB), False, True)]
        self.assertFalse(any(self.CHECK in name for name in names))


class Findings(unittest.TestCase):
    def test_each_finding_fails_its_check_alone(self):
        for field, check in (("crashes", "no crash"), ("reports", "no report of hakmem"),
                             ("wrong", "nothing lost or damaged"), ("errors", "no error without a cause")):
            made = record_of(lambda *_: 100 * MIB, **{field: ["something"]})
            made.after = 20 * MIB
            red = [name for name, passed, _ in verdict.checks(made, False, True) if not passed]
            self.assertEqual(red, [f"made-up: {check}"])

    def test_missing_statistics_fail_only_where_the_library_was_to_serve(self):
        made = record_of(lambda *_: 20 * MIB, served="no file")
        self.assertFalse(all(passed for _, passed, _ in verdict.checks(made, False, True)))
        self.assertTrue(all(passed for _, passed, _ in verdict.checks(made, False, False)))


class Percentile(unittest.TestCase):
    def test_percentiles(self):
        values = list(range(1, 1001))
        random.Random(1).shuffle(values)
        self.assertEqual([series.percentile(values, percent) for percent in (50, 99.9, 100)], [500, 999, 1000])
        self.assertEqual(series.percentile([7], 99.9), 7)


class Ledger(unittest.TestCase):
    def setUp(self):
        self.ledger = ledger.Ledger()
        self.ledger.sent("key", 1)
        self.ledger.acknowledged("key")

    def test_a_running_server_has_the_last_version(self):
        self.assertIsNone(self.ledger.judge_running("key", 1))
        self.assertIsNotNone(self.ledger.judge_running("key", 0))
        self.ledger.sent("key", 2)
        self.assertIsNotNone(self.ledger.judge_running("key", 2))
        self.assertIsNone(self.ledger.judge_running("no such key", 0))

    def test_a_killed_one_may_have_what_was_not_answered_but_not_less(self):
        self.ledger.sent("key", 2)
        self.assertIsNone(self.ledger.judge_restarted("key", 2))
        self.assertIsNotNone(self.ledger.judge_restarted("key", 1))

    def test_lost_and_revived_keys_are_found(self):
        self.assertIsNotNone(self.ledger.judge_restarted("key", 0))
        self.ledger.sent("key", -3)
        self.ledger.acknowledged("key")
        self.assertIsNone(self.ledger.judge_restarted("key", 0))
        self.assertIsNotNone(self.ledger.judge_restarted("key", 1))

    def test_a_refused_write_has_no_effect(self):
        self.ledger.sent("key", 2)
        self.ledger.refused("key")
        self.assertIsNone(self.ledger.judge_restarted("key", 1))


class Plan(unittest.TestCase):
    KINDS = [plan.KILL, "pause", "limit-data", "bgsave"]
    FATAL = [plan.KILL, "limit-data"]

    def test_it_is_the_seeds_alone(self):
        first, again, other = (repr(plan.events(seed, "redis", self.KINDS, self.FATAL, 50)) for seed in (7, 7, 8))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    def test_every_kind_comes_and_no_life_ends_in_the_last_third(self):
        for seed in range(50):
            planned = plan.events(seed, "redis", self.KINDS, self.FATAL, 40)
            self.assertEqual({event.kind for event in planned}, set(self.KINDS))
            self.assertTrue(all(event.at < 2 / 3 for event in planned if event.kind in self.FATAL))
            self.assertEqual(planned, sorted(planned, key=lambda event: event.at))

    def test_a_server_that_can_only_be_killed(self):
        self.assertTrue(all(event.at < 2 / 3 for event in plan.events(1, "x", [plan.KILL], [plan.KILL], 30)))


class Files(unittest.TestCase):
    def test_the_csv_files_hold_the_record(self):
        made = record_of(lambda *_: 5, length=3)
        made.latencies.append(record.summarize(1.0, [record.Outcome("ok", 10.0), record.Outcome("wrong", 30.0)], True))
        made.events.append((1.5, "kill", ""))
        with tempfile.TemporaryDirectory() as directory:
            record.write_csv(pathlib.Path(directory), [made], [(2.0, "neighbour", "9 MiB")])
            read = {path.name: path.read_text().splitlines() for path in pathlib.Path(directory).iterdir()}
        self.assertEqual(read["resident.csv"][1:], [f"{t}.00,made-up,0,100,server,5,0" for t in range(3)])
        self.assertEqual(read["latency.csv"][1:], ["1.00,made-up,2,0,0,1,10,10,10,1"])
        self.assertEqual(read["events.csv"][1:], ["1.50,made-up,kill,", "2.00,machine,neighbour,9 MiB"])


if __name__ == "__main__":
    sys.exit(unittest.main())
