# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""How long the ranks of a gang compute."""

import math
import statistics
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from fairway.pace import Pace
from fairway.probe import Probing, measure, partner, tournament
from fairway.timing import StepTimer
from tests.daemon import Daemon
from tests.gangs import needs_steady_cores, run
from tests.test_loop import FakeClock

try:
    import torch
except ImportError:
    torch = None

JOB = str(Path(__file__).resolve().parent / "stall_job.py")
LINK_JOB = str(Path(__file__).resolve().parent / "link_job.py")


class PaceTests(unittest.TestCase):
    def exchange(self, paces):
        """What the agreement of the loop does: the largest of all ranks."""
        offers = [p.offer(rank, len(paces)) for rank, p in enumerate(paces)]
        whole = [max(column) for column in zip(*offers)]
        return [p.take(whole) for p in paces]

    def test_all_ranks_see_the_same_window(self):
        with mock.patch("time.monotonic", lambda: self.now):
            self.now = 0.0
            paces = [Pace() for _ in range(3)]
            for pace, seconds in zip(paces, (1.0, 1.5, 0.0)):
                pace.add([seconds, seconds, 99.0] if seconds else [])
            self.assertEqual(self.exchange(paces), [([], False)] * 3)
            self.now = 5.0
            paces[2].add([2.0])
            self.assertEqual(self.exchange(paces), [([1.0, 1.5, 2.0], False)] * 3)

    def test_uneven_ranks_are_reported_at_once(self):
        with mock.patch("time.monotonic", lambda: self.now):
            self.now = 0.0
            paces = [Pace(), Pace()]
            urgent = []
            for _ in range(20):
                self.now += 5
                paces[0].add([1.0])
                paces[1].add([1.3])
                urgent.append(self.exchange(paces)[0][1])
        self.assertEqual([i + 1 for i, u in enumerate(urgent) if u], [7, 9, 11, 13])

    def test_alone_there_is_nothing_to_compare(self):
        pace = Pace()
        self.assertEqual(pace.offer(0, 1), [])
        self.assertEqual(pace.take([]), ([], False))

    def test_the_wait_for_others_is_left_out(self):
        clock = FakeClock()
        timer = StepTimer(clock, warmup=0)
        for _ in range(3):
            clock.now += 10
            timer.step((clock.now - 7, clock.now - 1))
        self.assertEqual(timer.drain_own(), [3, 3])


class ProbeTests(unittest.TestCase):
    def test_each_meets_each_other_once(self):
        for world in range(2, 20):
            met = set()
            for turn in range(tournament(world)):
                for rank in range(world):
                    other = partner(rank, world, turn)
                    if other is not None:
                        self.assertNotEqual(other, rank)
                        self.assertEqual(partner(other, world, turn), rank)
                        met.add((min(rank, other), max(rank, other), turn))
            self.assertEqual(len(met), world * (world - 1) // 2)

    def series(self, exchanges, step=0.1, took=0.2):
        """When probes are due in agreements half a second apart, given how long the exchange takes in each."""
        with mock.patch("time.monotonic", lambda: self.now):
            self.now = 0.0
            probing = Probing()
            out = []
            for seconds in exchanges:
                self.now += 0.5
                if probing.due():
                    probing.done(took)
                    out.append(self.now)
                probing.add([seconds] if seconds else [])
                probing.take(max(probing.offer(), -0.09 if seconds else -math.inf), step)
            return out

    def test_links_are_measured_once_it_is_known_what_the_exchange_takes(self):
        self.assertEqual(self.series([0.02] * 400), [15.5, 20.5, 25.5, 30.5])

    def test_an_exchange_that_hardly_counts_is_not_looked_into(self):
        self.assertEqual(self.series([0.009] * 400), [])
        self.assertEqual(self.series([0.0] * 400), [])

    def test_links_are_measured_again_when_the_exchange_has_changed(self):
        slow = self.series([0.02] * 120 + [0.05] * 120)
        self.assertEqual(len(slow), 8)
        self.assertLess(slow[7] - 60, 35)
        mended = self.series([0.05] * 120 + [0.009] * 120)
        self.assertEqual(len(mended), 8)
        self.assertEqual(len(self.series([0.02] * 120 + [0.026] * 400)), 4)

    def test_measuring_has_a_bound(self):
        hour = [0.02 if i // 240 % 2 else 0.05 for i in range(7200)]
        self.assertLess(len(self.series(hour, took=2.0)) * 2.0, 5 + 8 + 0.005 * 3600)

    def test_it_ends_in_time(self):
        """Links so slow that not all can be measured: those that were are told."""
        with mock.patch("time.monotonic", lambda: self.now):
            self.now = 0.0

            def swap(other):
                self.now += 0.6
                return 0.6

            def largest(values):  # rank 0 speaks for all
                return values if len(values) == 1 else values[:3] + [0.5] * (len(values) - 3)

            links = measure(0, 4, largest, swap)
        self.assertEqual([(a, b) for a, b, _ in links if a == 0], [(0, 3), (0, 1)])


@unittest.skipIf(torch is None, "this interpreter has no torch")
class GangTests(unittest.TestCase):
    @needs_steady_cores
    def test_a_slow_rank_shows(self):
        """Real processes: all steps are equally long, but not what is computed in them."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        daemon = Daemon(Path(folder.name)).start()
        self.addCleanup(daemon.stop)
        env = {"FAIRWAY_JOB": "j1", "FAIRWAY_API": daemon.api, "FAIRWAY_TOKEN": "secret", "FAIRWAY_REPORT_SECONDS": 0.2}
        run([JOB, "slow", "1", "1.5", "0.02", "2.5", "0.4"], 2, env)
        self.assertEqual(daemon.problems, [])
        windows = [w for r in daemon.reports for w in r.get("pace", {}).get("windows", [])]
        self.assertGreaterEqual(len(windows), 3)
        usual = [statistics.median(w[rank] for w in windows if w[rank] > 0) for rank in range(2)]
        self.assertGreater(usual[1], 1.2 * usual[0], windows)

    def test_links_are_measured(self):
        """Real processes, which tell how long the links between any two of them took."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        daemon = Daemon(Path(folder.name)).start()
        self.addCleanup(daemon.stop)
        env = {"FAIRWAY_JOB": "j1", "FAIRWAY_API": daemon.api, "FAIRWAY_TOKEN": "secret", "FAIRWAY_REPORT_SECONDS": 0.2}
        run([LINK_JOB, "0.01", "6", "0.3"], 3, env)
        self.assertEqual(daemon.problems, [])
        probes = [p for r in daemon.reports for p in r.get("pace", {}).get("probes", [])]
        self.assertGreaterEqual(len(probes), 4)
        for p in probes:
            self.assertEqual((p["ranks"], sorted((k["a"], k["b"]) for k in p["links"])), (3, [(0, 1), (0, 2), (1, 2)]))
            self.assertTrue(all(0 < k["seconds"] < 5 for k in p["links"]), p)


if __name__ == "__main__":
    unittest.main()
