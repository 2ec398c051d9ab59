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

from fairway_profiling import catalogue, nvml, pairs, plan, rows, solo, triples
from fairway_profiling.worker import Trainer, counted_steps


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
        options = types.SimpleNamespace(max_batches=2, seconds=0, warmup=2, window=5)
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


def config(i, util, mem="1000", ms="5"):
    return plan.Config({"model": f"m{i:03}", "batch": "8", "util_mean": str(util), "mem_device_mib": mem, "step_ms_mean": ms})


class GroupTest(unittest.TestCase):
    def setUp(self):
        self.configs = [config(i, i) for i in range(100)]

    def test_favours_models_that_leave_room_and_those_not_used_yet(self):
        first = plan.choose_group(self.configs, {}, 20, 1e6, random.Random(1))
        self.assertEqual([sum(low <= c.util < high for c in first) for low, high, _ in plan.UTIL_PARTS], [8, 5, 7])
        second = plan.choose_group(self.configs, {c.key: 1 for c in first}, 20, 1e6, random.Random(1))
        self.assertFalse({c.key for c in first} & {c.key for c in second})

    def test_a_part_that_is_empty_leaves_its_place(self):
        group = plan.choose_group([config(i, 99) for i in range(30)], {}, 20, 1e6, random.Random(1))
        self.assertEqual(len(group), 20)

    def test_fits_in_memory(self):
        group = plan.choose_group(self.configs, {}, 5, 3500, random.Random(1))
        self.assertEqual(len(group), 3)

    def test_a_model_is_never_with_itself(self):
        twins = [plan.Config({"model": "m", "batch": b, "util_mean": "9", "mem_device_mib": "9", "step_ms_mean": "5"}) for b in "1248"]
        self.assertEqual(len(plan.choose_group(twins, {}, 4, 1e6, random.Random(1))), 1)

    def test_rows_without_a_reading_are_not_used(self):
        row = {"model": "m", "batch": "8", "status": "ok", "util_mean": "", "mem_device_mib": "", "step_ms_mean": "5"}
        slow = {**row, "util_mean": "9", "mem_device_mib": "9", "step_ms_mean": "120"}
        failed = {**row, "status": "oom", "step_ms_mean": ""}
        self.assertEqual(plan.usable([row, slow, failed], 120), [])
        self.assertEqual(len(plan.usable([slow], 121)), 1)


class PairChoiceTest(unittest.TestCase):
    def setUp(self):
        self.group = [config(i, 5 * i) for i in range(21)]

    def test_sums_are_spread(self):
        chosen = plan.choose_pairs(self.group, set(), 50, random.Random(1))
        self.assertEqual([sum(low <= a.util + b.util < high for a, b in chosen) for low, high, _ in plan.SUM_PARTS], [10, 10, 15, 15])

    def test_none_twice_and_none_done_before(self):
        done = {(*a.key, *b.key) for a, b in plan.choose_pairs(self.group, set(), 100, random.Random(1))}
        self.assertEqual(len(done), 100)
        rest = {(*a.key, *b.key) for a, b in plan.choose_pairs(self.group, done, 1000, random.Random(1))}
        self.assertEqual(len(rest), 21 * 20 // 2 - 100)
        self.assertFalse(done & rest)
        self.assertTrue(all(key[0] < key[2] for key in done | rest))


class AgainTest(unittest.TestCase):
    def test_light_pairs_in_groups_of_those_that_share_a_model(self):
        configs = [config(i, 20) for i in range(8)]

        def row(i, j, ms="5", status="ok"):
            a, b = configs[i], configs[j]
            return {"model_a": a.model, "batch_a": str(a.batch), "model_b": b.model, "batch_b": str(b.batch), "status": status,
                    "solo_ms_a": ms, "solo_ms_b": ms}
        # The fourth ran at twice the speed, so both were twice as busy; the last failed.
        table = [row(0, 1), row(2, 3), row(1, 4), row(5, 6, ms="2.5"), row(6, 7, status="oom")]
        groups = plan.groups_again(configs, table, 60, 4)
        self.assertEqual([{c.key for c in g} for g, _ in groups],
                         [{configs[i].key for i in g} for g in ((2, 3), (0, 1, 4))])
        self.assertEqual([len(pairs) for _, pairs in groups], [1, 2])


class TriplesTest(unittest.TestCase):
    def test_a_triple_comes_after_its_pairs_and_none_comes_twice(self):
        order = triples.sets_of([config(i, 5 * i) for i in range(6)], 10, random.Random(1))
        self.assertEqual(sum(len(s) == 3 for s in order), 10)
        self.assertEqual(len(order), len({tuple(c.key for c in s) for s in order}))
        for i, some in enumerate(order):
            if len(some) == 3:
                for left_out in some:
                    self.assertIn(tuple(c for c in some if c is not left_out), order[:i])


class WindowTest(unittest.TestCase):
    def test_grows_with_the_slower_step_and_the_sum(self):
        for util, ms, want in ((10, "5", 0.8), (100, "50", 12 * 2.2 * 0.05), (50, "50", 12 * 1.6 * 0.05), (100, "119", 2.5)):
            got = plan.window_seconds(config(1, util, ms="1"), config(2, util, ms=ms), 0.8, 2.5)
            self.assertAlmostEqual(got, want, msg=f"{util} % {ms} ms")

    def test_shrinks_when_the_count_is_in_danger(self):
        def least(seconds, count, left_in_group):
            options = types.SimpleNamespace(mps=False, seconds=seconds, count=count, settle=0.2, pair_window=1.0, pair_window_least=0.5,
                                            per_group=0, group=20, solo_now=0.1, solo_settle=0, warm=0.6)
            table = types.SimpleNamespace(rows=[])
            return pairs.Pairs(options, table, None, "s").least_window(left_in_group)
        self.assertEqual(least(0, 100, 100), 1.0)
        self.assertEqual(least(1000, 0, 100), 1.0)
        self.assertEqual(least(1000, 100, 100), 1.0)
        self.assertAlmostEqual(least(130, 100, 100), 1.3 - 0.2 - 2 * 0.1 - pairs.PAIR_SECONDS, places=2)
        self.assertEqual(least(10, 100, 100), 0.5)
        self.assertEqual(least(120, 100, 50), 0.5)  # another group has to be started


class StopTest(unittest.TestCase):
    def test_models_with_two_good_batch_sizes_count(self):
        def row(model, batch, status="ok"):
            return {"model": model, "batch": batch, "status": status}
        table = types.SimpleNamespace(rows=[row("a", "1"), row("a", "2"), row("b", "1"), row("b", "2", "oom"), row("c", "1")])
        for wanted, want in ((0, False), (1, True), (2, False)):
            options = types.SimpleNamespace(models=wanted, seconds=0, warmup=2, window=5)
            got = solo.Solo(options, table, types.SimpleNamespace(latest=lambda: None), "s").enough()
            self.assertEqual(got, want, wanted)


class CountedStepsTest(unittest.TestCase):
    def test_window(self):
        times = [0, 10, 20, 30, 45, 60]
        for start, end, want in ((0, 30, [10, 10, 10]), (10, 45, [10, 10, 15]), (12, 60, [10, 10, 15, 15]), (46, 50, [15]), (70, 80, [15])):
            self.assertEqual(counted_steps(times, start, end), want, (start, end))


class TrainerTest(unittest.TestCase):
    def test_steps_are_counted_after_settling(self):
        trainer = Trainer("plain/mlp-3x512")
        self.assertEqual(trainer.begin("cpu"), {"params": 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10})
        self.assertEqual(trainer.prepare(4), {"input": "784"})
        result = trainer.run(0.1, settle=0.3)
        self.assertGreaterEqual(result["ended"] - result["began"], 0.4)
        if result["steps"] > 1:  # one step is counted even where it outlasts the window
            self.assertLessEqual((result["steps"] - 1) * result["step_ms_mean"], 101)


if __name__ == "__main__":
    unittest.main()
