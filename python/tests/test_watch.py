# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Trainings that hang, and those that only take long."""

import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from fairway.watch import Watch
from tests.gangs import SRC, Running, needs_steady_cores
from tests.test_pace import JOB, torch


class BoundTests(unittest.TestCase):
    def bound(self, gaps, floor=60.0):
        watch = Watch(floor)
        now = 100.0
        watch.step(now)
        for gap in [50.0, *gaps]:  # the first counts for nothing
            now += gap
            watch.step(now)
        return watch.bound

    def test_learned_from_the_job(self):
        self.assertEqual(self.bound([]), 60)
        self.assertEqual(self.bound([1.0] * 100), 60)
        self.assertEqual(self.bound([10.0] * 100), 200)
        self.assertEqual(self.bound([1.0] * 50 + [300.0] + [1.0] * 49), 900)  # an evaluation


class StackTests(unittest.TestCase):
    def stacks(self, program):
        """What is written where py-spy is a shell script, or is not to be had."""
        with tempfile.TemporaryDirectory() as folder:
            if program:
                path = Path(folder) / "py-spy"
                path.write_text("#!/bin/sh\n" + program)
                path.chmod(0o755)
            code = "import fairway.watch; fairway.watch._write_stacks()"
            env = {"PATH": f"{folder}:/bin:/usr/bin", "PYTHONPATH": str(SRC)}
            return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stderr

    def test_py_spy_where_it_is_to_be_had(self):
        self.assertEqual(self.stacks('echo "$1 $2 $3: native"').strip(), "dump --native --pid: native")
        for useless in ("", "echo not permitted; exit 1"):
            self.assertIn("most recent call first", self.stacks(useless))


class FolderTests(unittest.TestCase):
    def test_ranks_without_a_common_folder_are_not_watched(self):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            for folders, seen in (((one, other), False), ((one, one), True)):
                watches = [Watch(60.0, rank, folder) for rank, folder in enumerate(folders)]
                for watch in watches:
                    watch.arm(2, attempt=3 + seen)
                self.assertEqual([w.shared() for w in watches], [seen, seen])
            self.assertEqual(len(list(Path(one).glob(".fairway-watch/rank-*"))), 2)  # those of attempt 3 are gone
            lone = Watch(60.0)
            lone.arm(2)
            self.assertFalse(lone.armed)


@unittest.skipIf(torch is None, "this interpreter has no torch")
class GangTests(unittest.TestCase):
    def run_job(self, bound, *arguments):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        env = {"FAIRWAY_JOB": "j1", "FAIRWAY_CHECKPOINT_DIR": folder.name, "FAIRWAY_HANG_SECONDS": bound}
        return Running([JOB, *arguments, "5"], 2, env).wait(180)

    @needs_steady_cores
    def test_a_hung_gang_ends_with_its_stacks(self):
        began = time.monotonic()
        codes, outputs = self.run_job(2, "hang", "1", "0", "0.01", "100")
        self.assertEqual(codes, [1, 1], outputs)
        print(f"\n  a hung gang ended {time.monotonic() - began:.1f} s after its start, with a bound of 2 s")
        self.assertIn("fairway: rank 1 hangs: no rank has moved for", outputs[1])
        self.assertIn("at fake_collective (stall_job.py:", outputs[1])
        self.assertIn("in fake_collective", outputs[1].split("fairway: rank 1")[0])  # the stack
        self.assertIn("fairway: rank 0 waits for other ranks", outputs[0])
        self.assertIn("called from stall_job.py:", outputs[0])
        self.assertEqual((self.folder / ".fairway-watch" / "hung").stat().st_size, 1)

    @needs_steady_cores
    def test_a_gang_waits_for_a_rank_that_evaluates(self):
        codes, outputs = self.run_job(6, "evaluate", "0", "8", "0.01", "1")
        self.assertEqual(codes, [0, 0], outputs)
        self.assertTrue((self.folder / ".fairway-watch" / "moving").exists())


if __name__ == "__main__":
    unittest.main()
