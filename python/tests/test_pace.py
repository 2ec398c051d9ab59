# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""How long the ranks of a gang compute."""

import statistics
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from fairway.pace import Pace
from fairway.timing import StepTimer
from tests.daemon import Daemon
from tests.gangs import needs_steady_cores, run
from tests.test_loop import FakeClock

try:
    import torch
except ImportError:
    torch = None

JOB = str(Path(__file__).resolve().parent / "stall_job.py")


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


if __name__ == "__main__":
    unittest.main()
