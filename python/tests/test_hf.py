# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The callback under a small trainer that follows the protocol of Hugging
Face's, and under the real one where it is installed."""

import importlib.util
import json
import os
import signal
import tempfile
import threading
import unittest
from pathlib import Path
from types import SimpleNamespace

from fairway.agent import YIELD, Agent
from fairway.env import Environment
from fairway.hf import FairwayCallback, last_checkpoint
from tests.daemon import Daemon

EVENTS = ("on_init_end", "on_train_begin", "on_train_end", "on_epoch_begin", "on_epoch_end", "on_step_begin", "on_optimizer_step",
          "on_pre_optimizer_step", "on_substep_end", "on_step_end", "on_evaluate", "on_predict", "on_save", "on_log", "on_prediction_step")


class FakeTrainer:
    """Trains nothing, but calls back, saves and resumes as the real one."""

    def __init__(self, folder, steps, callback, on_step=lambda step: None):
        self.folder, self.callback, self.on_step = Path(folder), callback, on_step
        self.state = SimpleNamespace(global_step=0, max_steps=steps)
        self.control = SimpleNamespace(should_save=False, should_training_stop=False)
        self.call("on_init_end")

    def call(self, event, **more):
        result = getattr(self.callback, event)(SimpleNamespace(output_dir=str(self.folder)), self.state, self.control, **more)
        if result is not None:
            self.control = result

    def train(self, resume_from_checkpoint=None):
        if resume_from_checkpoint:
            self.state.global_step = json.loads((Path(resume_from_checkpoint) / "trainer_state.json").read_text())["global_step"]
        self.call("on_train_begin")
        while self.state.global_step < self.state.max_steps and not self.control.should_training_stop:
            for event in ("on_step_begin", "on_pre_optimizer_step", "on_optimizer_step"):
                self.call(event)
            self.on_step(self.state.global_step)
            self.state.global_step += 1
            self.call("on_step_end")
            if self.state.global_step % 5 == 0:
                self.call("on_log", logs={"loss": 1 / self.state.global_step, "epoch": 0.5, "note": "text"})
            if self.control.should_save or self.state.global_step % 20 == 0:
                self.save()
        self.call("on_train_end")
        return self.state.global_step

    def save(self):
        folder = self.folder / f"checkpoint-{self.state.global_step}"
        folder.mkdir(parents=True)
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": self.state.global_step}))
        self.control.should_save = False
        self.call("on_save")


class CallbackTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.daemon = Daemon(Path(folder.name)).start()
        self.addCleanup(self.daemon.stop)

    def callback(self, **more):
        env = Environment(job="j", api=self.daemon.api, token="secret", checkpoint_dir=self.folder + "/kept", report_seconds=0.05, **more)
        agent = Agent(env)
        self.addCleanup(agent.notice.uninstall)
        self.addCleanup(agent.close)
        return FairwayCallback(agent)

    def test_every_event_is_answered(self):
        callback = self.callback()
        for event in EVENTS + ("on_something_of_a_later_version",):
            if event != "on_train_end":
                getattr(callback, event)(None, SimpleNamespace(global_step=1, max_steps=2), SimpleNamespace())
        with self.assertRaises(AttributeError):
            callback.something_else

    def test_stop_save_resume_finish(self):
        callback = self.callback()
        folder = callback.folder("out")
        self.assertTrue(folder.startswith(self.folder + "/kept"))
        self.assertIsNone(last_checkpoint(folder))
        notice = {33: lambda: os.kill(os.getpid(), signal.SIGTERM)}
        trainer = FakeTrainer(folder, 100, callback, lambda step: notice.get(step, lambda: None)())
        with self.assertRaises(SystemExit) as left:
            trainer.train()
        self.assertEqual(left.exception.code, YIELD)
        kept = [r for r in self.daemon.reports if r.get("checkpoint")]
        self.assertEqual([r["done"] for r in kept], [20, 34])
        callback.agent.notice.uninstall()

        (Path(folder) / "checkpoint-99").mkdir()  # cut short by a crash
        self.assertTrue(last_checkpoint(folder).endswith("checkpoint-34"))
        again = FakeTrainer(folder, 100, self.callback())
        self.assertEqual(again.train(resume_from_checkpoint=last_checkpoint(folder)), 100)
        last = self.daemon.reports[-1]
        self.assertEqual((last["done"], last["work"], last["complete"]), (100, 100, True))
        self.assertTrue(any(r["point"].get("metrics") == {"epoch": 0.5} and "loss" in r["point"] for r in self.daemon.reports))
        self.assertEqual(self.daemon.problems, [])

    def test_a_trainer_that_does_not_save(self):
        """Then its work is not saved, and the exit code does not say so."""
        callback = self.callback()
        trainer = FakeTrainer(callback.folder("out"), 100, callback, lambda step: step == 33 and callback.agent.notice.give())
        trainer.save = lambda: None
        with self.assertRaises(SystemExit) as left:
            trainer.train()
        self.assertEqual(left.exception.code, 1)
        self.assertIn("step 34", self.daemon.reports[-1]["save_failed"])

    def test_all_ranks_stop_after_the_same_step(self):
        """The ranks hear of the stop at different steps."""
        world, meeting, votes, stopped = 3, threading.Barrier(3), {}, {}

        def rank(number):
            def agree(value):
                votes[number] = value
                meeting.wait(120)
                most = max(votes.values())
                meeting.wait(120)
                return most

            agent = Agent(Environment(rank=number, world=world))
            callback = FairwayCallback(agent, agree=agree, agree_every=0.0)
            trainer = FakeTrainer(f"{self.folder}/{number}", 50, callback, lambda step: step == 7 + number and agent.notice.give())
            try:
                trainer.train()
            except SystemExit as left:
                stopped[number] = (left.code, trainer.state.global_step)

        threads = [threading.Thread(target=rank, args=(r,)) for r in range(world)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(120)
        self.assertEqual(stopped, {r: (YIELD, 8) for r in range(world)})

    def test_outside_of_fairway(self):
        callback = FairwayCallback(Agent(Environment()))
        self.assertEqual(callback.folder("out"), "out")
        self.assertEqual(FakeTrainer(self.folder + "/x", 10, callback).train(), 10)


@unittest.skipIf(importlib.util.find_spec("transformers") is None, "transformers is not installed")
class RealTrainer(unittest.TestCase):
    def test_stop_and_resume(self):
        import torch
        from transformers import Trainer, TrainingArguments

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(2, 1)

            def forward(self, x, labels):
                return {"loss": (self.layer(x).squeeze(-1) - labels).square().mean()}

        data = [{"x": torch.ones(2), "labels": torch.tensor(1.0)} for _ in range(64)]
        with tempfile.TemporaryDirectory() as folder:
            def train(agent):
                args = TrainingArguments(output_dir=folder, max_steps=20, per_device_train_batch_size=4, report_to=[], use_cpu=True)
                trainer = Trainer(model=Model(), args=args, train_dataset=data, callbacks=[FairwayCallback(agent)])
                trainer.train(resume_from_checkpoint=last_checkpoint(folder))
                return trainer.state.global_step

            asked = Agent(Environment())
            asked.notice.give()
            with self.assertRaises(SystemExit):
                train(asked)
            self.assertEqual(Path(last_checkpoint(folder)).name, "checkpoint-1")
            self.assertEqual(train(Agent(Environment())), 20)


if __name__ == "__main__":
    unittest.main()
