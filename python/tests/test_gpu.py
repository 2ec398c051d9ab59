# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""What only a GPU can show. test.sh hides GPUs: python3 -m unittest tests.test_gpu"""

import tempfile
import time
import unittest
from pathlib import Path

from fairway.agent import Agent
from fairway.env import Environment

try:
    import torch

    import fairway.torch

    gpu = torch.cuda.is_available()
except ImportError:
    gpu = False

STEPS, BATCH = 40, 16


@unittest.skipUnless(gpu, "there is no GPU here")
class OnGPU(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        torch.manual_seed(1)
        inputs = torch.randn(1024, 64)
        self.data = torch.utils.data.TensorDataset(inputs, (inputs @ torch.randn(64, 10)).argmax(1))

    def model(self):
        torch.manual_seed(2)
        return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 10))

    def agent(self):
        return Agent(Environment(checkpoint_dir=str(self.folder)))

    def train(self, run, save_at=0):
        """The losses of the steps up to STEPS, and the examples. Saves after a step."""
        losses, seen = [], []
        for x, y in run:
            with torch.autocast("cuda", torch.float16, enabled=run._scaler is not None):
                loss = torch.nn.functional.cross_entropy(run.model(x), y)
            losses.append(float(loss.detach()))
            seen.append((x, y))
            run.step(loss)
            if run.loop.steps == save_at:
                run._save()
            if run.agent.saving:
                time.sleep(0.02)  # the write is to begin before the training is over
            if run.loop.position >= STEPS * BATCH:
                return losses, seen
        self.fail("the training has ended")

    def assert_close(self, got, want):
        self.assertEqual(len(got), len(want))
        torch.testing.assert_close(torch.tensor(got), torch.tensor(want), rtol=1e-4, atol=1e-5)

    def test_float16_with_a_scaler(self):
        """Losses and scale are those of a plain loop, steps that overflow included, and go
        on from a checkpoint."""

        def wrap(scaler):
            model = self.model()
            return fairway.torch.wrap(
                model, torch.optim.SGD(model.parameters(), lr=0.3), self.data, epochs=9, batch_size=BATCH, scaler=scaler, checkpoint_every=1e9, agent=self.agent()
            )  # fmt: skip

        scaler = torch.amp.GradScaler("cuda", init_scale=2.0**28, growth_interval=5)
        run = wrap(scaler)
        got, seen = self.train(run, save_at=STEPS // 2)
        run.agent.settle()
        self.assertLess(run.loop.done, run.loop.position)  # some were skipped

        plain, other = self.model().cuda(), torch.amp.GradScaler("cuda", init_scale=2.0**28, growth_interval=5)
        sgd, want = torch.optim.SGD(plain.parameters(), lr=0.3), []
        for x, y in seen:
            with torch.autocast("cuda", torch.float16):
                loss = torch.nn.functional.cross_entropy(plain(x), y)
            want.append(float(loss.detach()))
            other.scale(loss).backward()
            other.step(sgd)
            other.update()
            sgd.zero_grad()
        self.assert_close(got, want)
        self.assertEqual(scaler.get_scale(), other.get_scale())
        self.assertLess(got[-1], got[0])

        again = torch.amp.GradScaler("cuda")
        run = wrap(again)
        self.assertTrue(run.resumed)
        self.assert_close(self.train(run)[0], got[STEPS // 2 :])
        self.assertEqual(again.get_scale(), scaler.get_scale())

    def test_parts_are_saved_behind_the_training(self):
        from torch.distributed.checkpoint import FileSystemWriter

        from fairway.torch import fsdp

        def wrap():
            return fsdp.wrap(
                self.model(), lambda params: torch.optim.AdamW(params, lr=1e-3), self.data, epochs=9, batch_size=BATCH, checkpoint_every=1e9,
                blocks=lambda model: [model[0], model[2]], device=torch.device("cuda"), agent=self.agent(),
            )  # fmt: skip

        write, run = FileSystemWriter.write_data, wrap()
        steps = []

        def slow(*arguments):
            steps.append(run.loop.steps)
            while run.loop.steps < STEPS - 1:
                time.sleep(0.01)
            return write(*arguments)

        FileSystemWriter.write_data = slow
        try:
            want, _ = self.train(run, save_at=STEPS // 2)
            run.agent.settle()
        finally:
            FileSystemWriter.write_data = write
        self.assertEqual(run.agent.save_error, "")
        self.assertLess(steps[0], STEPS - 1)
        run = wrap()
        self.assertTrue(run.resumed)
        self.assert_close(self.train(run)[0], want[STEPS // 2 :])


if __name__ == "__main__":
    unittest.main()
