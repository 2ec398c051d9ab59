# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""What decides which rows are measured and how they are kept. Needs PyTorch, no GPU."""

import os
import random
import sys
import tempfile
import types
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from fairway_profiling import catalogue, nvml, pairs, rows, solo
from fairway_profiling.worker import Trainer


class CatalogueTest(unittest.TestCase):
    def test_names_are_unique_and_batches_ascend(self):
        entries = catalogue.entries()
        self.assertEqual(len(entries), len({e.name for e in entries}))
        for entry in entries:
            self.assertIn(len(entry.batches), (2, 3, 4), entry.name)
            self.assertEqual(list(entry.batches), sorted(set(entry.batches)), entry.name)

    def test_a_prefix_is_diverse(self):
        entries = catalogue.entries()
        families = {e.family for e in entries}
        self.assertEqual({e.family for e in entries[:len(families)]}, families)


class SpreadTest(unittest.TestCase):
    def test_spread(self):
        for batches, most, want in (((8, 32, 128), 0, [8, 32, 128]), ((8, 32, 128), 2, [8, 128]), ((8, 32, 128), 1, [32]),
                                    ((8, 32), 2, [8, 32]), ((1, 2, 4, 8), 3, [1, 4, 8])):
            self.assertEqual(solo.spread(batches, most), want, (batches, most))


class TableTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "x.csv")

    def test_rows_survive_and_are_skipped(self):
        rows.Table(self.path, solo.COLUMNS).add({"model": "plain/lenet", "batch": 64, "status": "ok", "note": "a, b\nc"})
        again = rows.Table(self.path, solo.COLUMNS)
        self.assertEqual(again.rows[0]["note"], "a, b c")
        options = types.SimpleNamespace(max_batches=2, seconds=0)
        campaign = solo.Solo(options, again, types.SimpleNamespace(latest=lambda: None), "s")
        missing = {e.name: b for e, b in campaign.missing(catalogue.entries())}
        self.assertEqual(missing["plain/lenet"], [4096])
        self.assertEqual(missing["plain/mlp-3x512"], [64, 4096])

    def test_other_columns_are_refused(self):
        rows.Table(self.path, ("a", "b")).add({"a": 1})
        with self.assertRaises(SystemExit):
            rows.Table(self.path, ("a", "c"))


class CountersTest(unittest.TestCase):
    def test_window(self):
        def reading(at, util, mem):
            return nvml.Reading(at, util, 5, mem, float("nan"), 1980)
        sampler = nvml.Sampler.__new__(nvml.Sampler)
        sampler.readings = [reading(1.0, 0, 900), reading(1.2, 40, 1000), reading(1.4, 60, 1100), reading(1.6, 0, 5000)]
        got = solo.counters(sampler.between(1.0, 1.4), 615)
        self.assertEqual((got["util_mean"], got["util_max"], got["util_min"], got["util_samples"]), (50, 60, 40, 2))
        self.assertEqual(got["mem_device_mib"], 485)
        self.assertNotIn("power_w_mean", got)


class GroupTest(unittest.TestCase):
    def configs(self):
        return [pairs.Config({"model": f"m{i}", "batch": "8", "util_mean": str(i), "mem_device_mib": "1000", "step_ms_mean": "5"})
                for i in range(100)]

    def test_spans_utilisation_and_prefers_the_unused(self):
        configs = self.configs()
        first = pairs.choose_group(configs, {}, 5, 1e6, random.Random(1))
        self.assertEqual([int(c.util) // 20 for c in first], [0, 1, 2, 3, 4])
        second = pairs.choose_group(configs, {c.key: 1 for c in first}, 5, 1e6, random.Random(1))
        self.assertFalse({c.key for c in first} & {c.key for c in second})

    def test_fits_in_memory(self):
        group = pairs.choose_group(self.configs(), {}, 5, 3500, random.Random(1))
        self.assertEqual(len(group), 3)

    def test_rows_without_a_reading_are_not_used(self):
        row = {"model": "m", "batch": "8", "status": "ok", "util_mean": "", "mem_device_mib": "", "step_ms_mean": "5"}
        slow = {**row, "util_mean": "9", "mem_device_mib": "9", "step_ms_mean": "900"}
        failed = {**row, "status": "oom", "step_ms_mean": ""}
        self.assertEqual(pairs.usable([row, slow, failed]), [])


class TrainerTest(unittest.TestCase):
    def test_steps_are_counted_within_the_window(self):
        trainer = Trainer("plain/mlp-3x512")
        self.assertEqual(trainer.begin("cpu"), {"params": 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10})
        self.assertEqual(trainer.prepare(4), {"input": "784"})
        tail = trainer.run(0.1, tail=0.3)
        if tail["steps"] > 1:  # one step is counted even where it outlasts the window
            self.assertLessEqual(tail["steps"] * tail["step_ms_mean"], 101)
        self.assertGreaterEqual(tail["ended"] - tail["began"], 0.4)


if __name__ == "__main__":
    unittest.main()
