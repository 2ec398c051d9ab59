# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""A loop in the style of Accelerate, under a stand-in for it, and under the real one with
two processes where it is installed."""

import importlib.util
import json
import tempfile
import unittest
from pathlib import Path

from fairway.accelerate import Course
from fairway.agent import YIELD, Agent
from fairway.env import Environment
from tests.daemon import Daemon, wait_for
from tests.gangs import Running, run

try:
    from fairway.torch import fsdp
except ImportError:
    fsdp = None

JOB = str(Path(__file__).resolve().parent / "accelerate_job.py")


class Loader:
    """Five batches in each epoch, in an order of its own."""

    def __init__(self, skip=0):
        self.skip, self.epoch = skip, 0

    def __len__(self):
        return 5

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        return iter([(self.epoch, (i * (self.epoch + 1)) % 5) for i in range(5)][self.skip :])


class Accelerator:
    """Keeps one number, as Accelerate does."""

    is_main_process = True

    def __init__(self):
        self.number, self.error = 0, None

    def wait_for_everyone(self):
        pass

    def save_state(self, folder):
        Path(folder).mkdir()
        if self.error is not None:
            raise self.error
        (Path(folder) / "number").write_text(str(self.number))

    def load_state(self, folder):
        self.number = int((Path(folder) / "number").read_text())

    def skip_first_batches(self, _loader, count):
        return Loader(count)


class Courses(unittest.TestCase):
    STEPS = 12

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.daemon = Daemon(self.folder).start()
        self.addCleanup(self.daemon.stop)

    def course(self, accelerator, **more):
        agent = Agent(Environment(job="j", api=self.daemon.api, token="secret", checkpoint_dir=str(self.folder / "kept"), report_seconds=0.05))
        self.addCleanup(agent.notice.uninstall)
        self.addCleanup(agent.close)
        return Course(accelerator, self.STEPS, agent=agent, **more)

    def train(self, course, accelerator, stop_at=-1):
        seen = []
        for batch in course.batches(Loader()):
            seen.append(batch)
            accelerator.number += 1
            if course.done == stop_at:
                course.agent.notice.give()
            course.step(loss=0.5)
        return seen

    def test_goes_on_with_the_next_batch(self):
        """Stopped in its second epoch, and cut off while it wrote another checkpoint."""
        want, first = self.train(self.course(Accelerator()), Accelerator()), Accelerator()
        for path in (self.folder / "kept" / "accelerate").iterdir():
            path.rename(self.folder / path.name)
        with self.assertRaises(SystemExit) as left:
            self.train(self.course(first), first, stop_at=6)
        self.assertEqual(left.exception.code, YIELD)
        (self.folder / "kept" / "accelerate" / ".unfinished-9").mkdir()
        second = Accelerator()
        course = self.course(second)
        self.assertEqual((course.done, second.number), (7, 7))
        self.assertEqual(self.train(course, second), want[7:])
        self.assertEqual(second.number, self.STEPS)
        self.assertEqual(sorted(p.name for p in (self.folder / "kept" / "accelerate").iterdir()), ["state-12", "state-7"])
        self.assertTrue(self.daemon.reports[-1]["complete"])
        self.assertEqual({r["can"] for r in self.daemon.reports}, {"saves"})
        self.assertEqual(self.daemon.problems, [])

    def test_what_is_not_saved_is_not_left(self):
        accelerator = Accelerator()
        accelerator.error = OSError(28, "No space left on device")
        course = self.course(accelerator)
        self.assertEqual(len(self.train(course, accelerator, stop_at=3)), self.STEPS)
        self.assertEqual(self.daemon.reports[-1]["save_failed"], "No space left on device")
        self.assertEqual(course._all(), [])

    def test_a_step_that_is_forgotten(self):
        with self.assertRaisesRegex(RuntimeError, "step"):
            for _ in self.course(Accelerator()).batches(Loader()):
                pass


@unittest.skipIf(importlib.util.find_spec("accelerate") is None, "accelerate is not installed")
class RealAccelerate(unittest.TestCase):
    STEPS = 40

    def test_stop_and_resume(self):
        self.check("ddp")

    @unittest.skipIf(fsdp is None, "this interpreter has no PyTorch with FSDP2")
    def test_stop_and_resume_with_fsdp(self):
        self.check("fsdp")

    def check(self, kind):
        """Two ranks are asked to stop, later killed, and go on each time: the losses are those of
        an undisturbed run, digit by digit."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for part in ("alone", "stopped"):
                (folder / part).mkdir()
            env = {"ACCELERATE_USE_CPU": "true", "FAIRWAY_JOB": "j", "FAIRWAY_NOTICE": 60}
            run([JOB, str(folder / "alone"), str(self.STEPS), "0", kind], 2, env)
            command = [JOB, str(folder / "stopped"), str(self.STEPS)]
            env["FAIRWAY_CHECKPOINT_DIR"] = str(folder / "kept")

            def done():
                path = folder / "stopped" / "losses"
                return len(path.read_text().splitlines()) if path.exists() else 0

            running = Running([*command, "0.1", kind], 2, dict(env, FAIRWAY_ATTEMPT=1))
            wait_for(lambda: done() >= 5, 300)
            running.notice()
            codes, outputs = running.wait()
            self.assertEqual(codes, [YIELD, YIELD], outputs)
            kept = folder / "kept" / "accelerate"
            first = {p.name for p in kept.glob("state-*")}
            running = Running([*command, "0.1", kind], 2, dict(env, FAIRWAY_ATTEMPT=2))
            wait_for(lambda: {p.name for p in kept.glob("state-*")} - first, 300)
            running.kill()
            codes, outputs = Running([*command, "0", kind], 2, dict(env, FAIRWAY_ATTEMPT=3)).wait()
            self.assertEqual(codes, [0, 0], outputs)
            want, got = (dict(map(json.loads, (folder / part / "losses").read_text().splitlines())) for part in ("alone", "stopped"))
            self.assertEqual(sorted(want), list(range(self.STEPS)))
            self.assertEqual(got, want)
            sharded = list(kept.glob("state-*/pytorch_model_fsdp_0/__1_*"))
            self.assertEqual(bool(sharded), kind == "fsdp", "the parts of rank 1")


if __name__ == "__main__":
    unittest.main()
