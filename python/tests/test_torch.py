# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The agent with real PyTorch: gangs of processes over gloo."""

import dataclasses
import functools
import io
import json
import math
import re
import shutil
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from fairway.agent import YIELD, Agent
from fairway.env import Environment
from fairway.loop import Options
from tests.daemon import Daemon, wait_for
from tests.gangs import Running, Supervisor, run

try:
    import torch

    import fairway.torch
except ImportError:
    torch = None

JOB = str(Path(__file__).resolve().parent / "torch_job.py")
PARAMS = {"alpha_grad": 0.05, "beta_grad": 0.0001, "alpha_local": 0.02, "beta_local": 0.001, "alpha_node": 0, "beta_node": 0, "gamma": 1.5}
EXAMPLE = str(Path(__file__).resolve().parents[2] / "examples" / "plain_pytorch.py")


def result(output):
    line = next(line for line in output.splitlines() if line.startswith("result "))
    return json.loads(line[len("result "):])


@functools.lru_cache(maxsize=None)
def never_disturbed():
    """The result of the elastic job, run once without a disturbance."""
    with tempfile.TemporaryDirectory() as folder:
        return result(run([JOB, "elastic", folder, "0"])[0])


@unittest.skipIf(torch is None, "this interpreter has no torch")
class Elastic(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.daemon = Daemon(self.folder).start()
        self.addCleanup(self.daemon.stop)
        self.env = {"FAIRWAY_JOB": "j1", "FAIRWAY_API": self.daemon.api, "FAIRWAY_TOKEN": "secret", "FAIRWAY_NOTICE": 120,
                    "FAIRWAY_CHECKPOINT_DIR": str(self.folder / "kept"), "FAIRWAY_REPORT_SECONDS": 0.1}

    def test_1_4_2_4_reaches_the_undisturbed_loss(self):
        """Real processes, real signals. The batch stays the same, so the loss
        must be the same but for the order in which floats are added."""
        undisturbed = never_disturbed()
        sizes = (1, 4, 2, 4)
        for attempt, world in enumerate(sizes, 1):
            # So slow that those which are told to leave are not at their end before.
            pause = 0.004 * world if attempt < len(sizes) else 0.001
            running = Running([JOB, "elastic", str(self.folder), str(pause)], world, dict(self.env, FAIRWAY_ATTEMPT=attempt))
            if attempt < len(sizes):
                before = max([r.get("done", 0) for r in self.daemon.reports], default=0)
                wait_for(lambda: self.daemon.reports and self.daemon.reports[-1].get("done", 0) >= before + 200)
                running.notice()
            codes, outputs = running.wait()
            self.assertEqual(codes, [YIELD if attempt < len(sizes) else 0] * world, outputs)
        end = result(outputs[0])
        print(f"\n  elastic 1-4-2-4: loss {end['loss']:.8f}; undisturbed: {undisturbed['loss']:.8f}")
        self.assertTrue(end["resumed"])
        self.assertLess(end["steps"], undisturbed["steps"])
        self.assertTrue(math.isclose(end["loss"], undisturbed["loss"], rel_tol=1e-4), (end, undisturbed))
        self.assertEqual(end["lr"], undisturbed["lr"])
        self.check_order()
        self.check_reports()

    def test_changes_in_place_reach_the_undisturbed_loss(self):
        """A gang that grows, shrinks and loses its first rank, without a restart:
        those that stay keep their process, and no step is lost."""
        undisturbed = never_disturbed()
        # So slow that it is not at its end before another process has imported PyTorch.
        gang = Supervisor([JOB, "elastic", str(self.folder), "0.02"], 1, dict(self.env, FAIRWAY_ATTEMPT=1))
        self.addCleanup(gang.close)
        wait_for(lambda: self.daemon.reports and self.daemon.reports[-1].get("done", 0) > 0)
        gang.resize(2)
        gang.kill(0)
        self.assertEqual(gang.ranks, [1, 2])
        gang.resize(1)
        self.assertEqual(gang.processes[2].wait(30), 0)  # it left
        (self.folder / "hurry").touch()
        gang.wait()
        end = result(gang.output(1))
        self.assertTrue(math.isclose(end["loss"], undisturbed["loss"], rel_tol=1e-4), (end, undisturbed))
        self.assertEqual((end["steps"], end["lr"]), (undisturbed["steps"], undisturbed["lr"]))
        reports = self.daemon.reports
        self.assertEqual(self.daemon.problems, [])
        # Before there is a loop the agent may report: then nothing is proven.
        self.assertEqual({r["can"] for r in reports if r.get("done")}, {"in_place"})
        self.assertEqual({r["resized"]["gpus"] for r in reports if "resized" in r}, {1, 2})
        self.assertTrue(all(0 < r["resized"]["away"] < 60 for r in reports if "resized" in r))
        self.assertTrue(reports[-1]["complete"])
        self.assertEqual(reports[-1]["done"], 1920)

    def test_a_lost_node_costs_a_few_steps(self):
        """Two ranks on node a and one on b, nothing on the disk. All processes die, and with
        a its memory: two ranks on another node, and the one on b, go on from b's memory."""
        undisturbed = never_disturbed()
        a, b, c = (self.folder / name for name in "abc")
        command = [JOB, "elastic", str(self.folder), "0.006", "3600"]
        running = Running(command, 3, dict(self.env, FAIRWAY_ATTEMPT=1), [a, a, b])
        wait_for(lambda: self.daemon.reports and self.daemon.reports[-1].get("done", 0) >= 320 and any(b.glob("*/checkpoint-1000003-*")))
        running.kill()
        done = max(r.get("done", 0) for r in self.daemon.reports)
        self.assertEqual(list((self.folder / "kept").glob("*/checkpoint-*")), [])
        shutil.rmtree(a)
        (self.folder / "hurry").touch()
        running = Running(command, 3, dict(self.env, FAIRWAY_ATTEMPT=2), [c, c, b])
        codes, outputs = running.wait()
        self.assertEqual(codes, [0, 0, 0], outputs)
        restored = next(r["restored"] for r in reversed(self.daemon.reports) if "restored" in r)
        print(f"\n  a lost node: {(done - restored) / 16:.0f} steps done again of {done / 16:.0f}")
        self.assertGreater(restored, 0)
        for output in outputs:
            end = result(output)
            self.assertTrue(end["resumed"])
            self.assertTrue(math.isclose(end["loss"], undisturbed["loss"], rel_tol=1e-4), (end, undisturbed))
        self.check_order()
        self.assertEqual(list(b.glob("*")) + list(c.glob("*")), [], "memory is freed at the end")

    def test_stop_while_the_gang_is_in_pieces(self):
        gang = Supervisor([JOB, "elastic", str(self.folder), "0.004"], 2, dict(self.env, FAIRWAY_ATTEMPT=1))
        self.addCleanup(gang.close)
        wait_for(lambda: self.daemon.reports and self.daemon.reports[-1].get("done", 0) > 0)
        self.assertEqual(gang.stop_in_pieces(), [YIELD], gang.output(0))
        last = self.daemon.reports[-1]
        self.assertTrue(last["checkpoint"])
        self.assertGreater(last["done"], 0)

    def check_order(self):
        """Every example of every epoch was seen once, in the stream's order."""
        from fairway.order import Order
        from fairway.torch.source import permute

        seen = {}
        for path in self.folder.glob("seen-[1-9]*"):
            for line in path.read_text().splitlines():
                at, indices = json.loads(line)
                for i, index in enumerate(indices):
                    # A step whose end no checkpoint holds is run again, with the same examples.
                    self.assertEqual(seen.setdefault(at + i, index), index)
        self.assertEqual(sorted(seen), list(range(4 * 480)))
        self.assertEqual([seen[i] for i in range(4 * 480)], Order(480, 0, permute).slice(0, 4 * 480))

    def check_reports(self):
        self.assertEqual(self.daemon.problems, [])
        reports = self.daemon.reports
        self.assertTrue(reports[-1]["complete"])
        self.assertEqual((reports[-1]["done"], reports[-1]["work"]), (1920, 1920))
        self.assertGreaterEqual(len([r for r in reports if r.get("checkpoint")]), 4)
        samples = [s for r in reports for s in r.get("training", {}).get("samples", [])]
        self.assertEqual({s["gpus"] for s in samples}, {1, 2, 4})
        for s in samples:
            self.assertEqual(s["sync"] > 0, s["gpus"] > 1, s)
            self.assertGreaterEqual(s["step"], 0.001 * s["local"], s)
        self.assertTrue(any("loss" in r["point"] for r in reports))

    def test_same_script_outside_of_fairway(self):
        out = run([JOB, "elastic", str(self.folder), "0"], 2)
        self.assertEqual(result(out[0])["loss"], result(out[1])["loss"])

    def test_batch_adapts(self):
        self.daemon.answer = {"params": PARAMS, "noise": 300}
        env = dict(self.env, FAIRWAY_ADAPT=1, FAIRWAY_BATCH_MAX=512, FAIRWAY_BATCH_LOCAL_MAX=128)
        out = run([EXAMPLE, "--epochs", "6", "--examples", "2048"], 2, env)[0]
        last = self.daemon.reports[-1]
        self.assertTrue(last["complete"], out)
        # Reports come by the clock, so how far the last one saw depends on the machine;
        # what the script prints at its end does not. Guessing gives log 4 = 1.39.
        self.assertLess(float(re.search(r"last loss ([\d.]+)", out).group(1)), 1.2, out)
        batches = [r["point"].get("batch", 0) for r in self.daemon.reports]
        self.assertTrue(64 < max(batches) <= 512, batches)
        self.assertGreater(last["training"]["noise"], 0)
        self.assertEqual(self.daemon.problems, [])
        self.assertEqual(last["work"], 6 * 2048)


@unittest.skipIf(torch is None, "this interpreter has no torch")
class Kept(unittest.TestCase):
    """What is kept of a training while it goes on."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.env = Environment(checkpoint_dir=f"{folder.name}/disk", memory_dir=f"{folder.name}/memory")

    def run_of(self, **options):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        data = torch.utils.data.TensorDataset(torch.randn(64, 3))
        return fairway.torch.wrap(model, optimizer, data, batch_size=4, epochs=1, agent=Agent(self.env), **options)

    def test_copy_does_not_change(self):
        from fairway.torch.state import Copies

        weight = torch.ones(4)
        model = torch.nn.BatchNorm1d(3)
        state = {"model": model.state_dict(), "tied": [weight, weight], "view": weight[:2], "list": [1, [2]], "half": weight.half()}
        copies = Copies()
        first = copies.take(state)
        weight.add_(1)
        state["list"][1].append(3)
        file = io.BytesIO()
        first(file)
        file.seek(0)
        got = torch.load(file)
        self.assertEqual((got["tied"][0].tolist(), got["view"].tolist(), got["list"]), ([1] * 4, [1] * 2, [1, [2]]))
        self.assertEqual(got["tied"][0].data_ptr(), got["tied"][1].data_ptr())
        self.assertEqual(got["model"]._metadata, model.state_dict()._metadata)
        memory = first.state["tied"][0].data_ptr()
        del first
        second = copies.take(state)
        self.assertEqual(second.state["tied"][0].data_ptr(), memory, "the memory is used again")
        third = copies.take(state)
        self.assertNotEqual(third.state["tied"][0].data_ptr(), memory, "the second is not written yet")

    def test_resumes_from_memory_and_saves_that_soon(self):
        run = self.run_of()
        batches = iter(run)
        for _ in range(3):
            (x,) = next(batches)
            run.step(run.model(x).square().mean())
        disk = run.agent.store.disk
        with mock.patch.object(disk, "put", side_effect=OSError(28, "full")), self.assertLogs("fairway", "ERROR"):
            run._save()
            run.agent.settle()
        weight = run.module.weight.detach().clone()
        again = self.run_of()
        self.assertEqual((again.resumed, again.loop.position), (True, 12))
        self.assertTrue(torch.equal(again.module.weight, weight))
        self.assertEqual(disk.all(), [])
        again.loop._options = Options(agree_every=0.0)
        batches = iter(again)
        for _ in range(2):
            (x,) = next(batches)
            again.step(again.model(x).square().mean())
        again.agent.settle()
        self.assertEqual(len(disk.all()), 1)
        self.assertTrue(again.agent.store.durable(again.agent.store.latest()))


class Scaler:
    """A GradScaler for the CPU: gradients above a bound overflow."""

    def __init__(self, scale=1024.0, largest=2.0**16):
        self.factor, self.largest, self.found, self.skips = scale, largest, {}, 0

    def get_scale(self):
        return self.factor

    def scale(self, loss):
        return loss * self.factor

    def unscale_(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"]]
        self.found[id(optimizer)] = any(float(g.abs().max()) > self.largest for g in grads)
        for g in grads:
            g.div_(self.factor)

    def step(self, optimizer):
        if not self.found[id(optimizer)]:
            optimizer.step()

    def update(self):
        if any(self.found.values()):
            self.factor /= 2
            self.skips += 1

    def state_dict(self):
        return {"factor": self.factor}

    def load_state_dict(self, state):
        self.factor = state["factor"]


if torch is not None:

    class Stream(torch.utils.data.IterableDataset):
        """Counts, and knows how far."""

        def __init__(self, size=10):
            self.at, self.size = 0, size

        def __iter__(self):
            while self.at < self.size:
                self.at += 1
                yield torch.tensor([float(self.at - 1)])
            self.at = 0

        def state_dict(self):
            return {"at": self.at}

        def load_state_dict(self, state):
            self.at = state["at"]


@unittest.skipIf(torch is None, "this interpreter has no torch")
class Kinds(unittest.TestCase):
    """Kinds of training that are supported, and the sentence for those that are not."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.env = Environment(checkpoint_dir=folder.name)
        torch.manual_seed(0)
        self.model = torch.nn.Linear(1, 1)
        self.sgd = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.data = torch.utils.data.TensorDataset(torch.arange(24.0).unsqueeze(1))

    def wrap(self, optimizer=None, data=None, **options):
        options = dict({"batch_size": 4, "epochs": 1, "agent": Agent(self.env)}, **options)
        optimizer, data = (given if given is not None else own for given, own in ((optimizer, self.sgd), (data, self.data)))
        return fairway.torch.wrap(self.model, optimizer, data, **options)

    def train(self, run, batches=None):
        """Trains for some batches of examples, or to the end; returns the examples."""
        seen = []
        for n, examples in enumerate(run, 1):
            x = examples[0] if isinstance(examples, (list, tuple)) else examples
            seen.append(x.flatten().tolist())
            run.step(run.model(x).square().mean())
            if n == batches:
                break
        return seen

    def weights(self):
        return [p.detach().clone() for p in self.model.parameters()]

    def test_scaler_gives_the_same(self):
        start = self.weights()
        self.train(self.wrap(agent=Agent(Environment())))
        plain = self.weights()
        with torch.no_grad():
            for p, value in zip(self.model.parameters(), start):
                p.copy_(value)
        self.train(self.wrap(agent=Agent(Environment()), scaler=Scaler(largest=math.inf)))
        for a, b in zip(plain, self.weights()):
            self.assertTrue(torch.allclose(a, b), (a, b))

    def test_skipped_steps_are_no_progress_and_no_noise(self):
        scaler = Scaler(scale=2.0**20)
        env = Environment(adapt=True, batch_max=8, checkpoint_dir=self.env.checkpoint_dir)
        run = self.wrap(scaler=scaler, agent=Agent(env), rule="adascale")
        self.sgd.param_groups[0]["lr"] = 1e-9
        before = self.weights()
        scheduler_steps = []
        run.scheduler = mock.Mock(step=lambda: scheduler_steps.append(1), state_dict=dict)
        while scaler.skips == 0:
            self.train(run, 1)
        self.assertEqual((run.loop.steps, run.loop.position, run.loop.done, scheduler_steps), (1, 4, 0.0, []))
        self.assertEqual(before, self.weights())
        self.assertEqual(run.loop.drain_lengths(), [])
        while scaler.skips == run.loop.steps:
            self.train(run, 1)
        self.assertEqual((run.loop.done, len(scheduler_steps)), (4.0, 1))
        self.train(run, 1)
        (pair,) = run.loop.drain_lengths()
        self.assertLess(pair.now, 1e9, "the length of a gradient that is not scaled")
        run._save()
        run.agent.settle()
        other = Scaler()
        self.assertTrue(self.wrap(scaler=other).resumed)
        self.assertEqual(other.factor, scaler.factor)

    def test_parts_of_a_scaled_batch_are_not_longer(self):
        lengths = {}
        for scaler in (None, Scaler()):
            env = Environment(adapt=True, batch_max=8, batch_local_max=2)
            run = self.wrap(scaler=scaler, agent=Agent(env), rule="adascale")
            self.sgd.param_groups[0]["lr"] = 0.0
            self.train(run, 2)
            (lengths[scaler is None],) = run.loop.drain_lengths()
        self.assertAlmostEqual(lengths[True].local / lengths[False].local, 1.0, places=4)
        self.assertAlmostEqual(lengths[True].total / lengths[False].total, 1.0, places=4)

    def test_several_optimisers(self):
        parts = [torch.optim.SGD([self.model.weight], lr=0.01), torch.optim.Adam([self.model.bias], lr=0.1)]
        schedulers = [torch.optim.lr_scheduler.StepLR(p, 2, 0.5) for p in parts]
        run = self.wrap(parts, scheduler=schedulers, scaler=Scaler())
        before = self.weights()
        self.train(run, 3)
        for a, b in zip(before, self.weights()):
            self.assertFalse(torch.equal(a, b), "each optimiser moved its own")
        self.assertEqual([p.param_groups[0]["lr"] for p in parts], [0.005, 0.05])
        run._save()
        run.agent.settle()
        again = [torch.optim.SGD([self.model.weight], lr=0.01), torch.optim.Adam([self.model.bias], lr=0.1)]
        self.assertTrue(self.wrap(again).resumed)
        self.assertEqual(again[1].state_dict()["state"][0]["step"], 3)
        self.assertEqual([p.param_groups[0]["lr"] for p in again], [0.005, 0.05])
        with self.assertRaisesRegex(ValueError, "of 2 optimisers .* the script has 1"):
            self.wrap()
        with self.assertRaisesRegex(ValueError, "empty"):
            self.wrap([])

    def test_accumulation(self):
        run = self.wrap(accumulate=3)
        self.assertEqual((run.loop.batch, run.loop.config.local, run.loop.config.accum), (12, 4, 2))
        stepped = []
        for (x,) in run:
            stepped.append(run.step(run.model(x).square().mean()))
        self.assertEqual(stepped, [False, False, True] * 2)
        with self.assertRaisesRegex(ValueError, "accumulate = 0"):
            self.wrap(accumulate=0)

    def test_own_accumulation_is_refused(self):
        run = self.wrap()
        with self.assertRaisesRegex(RuntimeError, "use accumulate=N"):
            for (x,) in run:
                run.model(x).square().mean().backward()

    def test_stream_keeps_its_place(self):
        run = self.wrap(data=Stream(), examples=10, epochs=2, batch_size=2)
        self.assertEqual(run.agent._can, "unproven")  # outside of Fairway nothing hears the notice
        first = self.train(run, 3)
        run._save()
        run.agent.settle()
        stream = Stream()
        again = self.wrap(data=stream, examples=10, epochs=2, batch_size=2)
        self.assertEqual((again.resumed, stream.at), (True, 6))
        rest = self.train(again)
        self.assertEqual(first + rest, [[float(i), i + 1.0] for i in (*range(0, 10, 2), *range(0, 10, 2))])
        self.assertTrue(again.loop.finished)

    def test_stream_cannot_be_resized(self):
        run = self.wrap(data=Stream(), examples=10)
        with self.assertRaisesRegex(RuntimeError, "each of 3 processes and cannot go on with 1"):
            run._source.resume([{}, {}, {}], 0, 1)
        with mock.patch.object(Agent, "able") as able:
            self.wrap(data=Stream(), examples=10)
        able.assert_called_once_with("saves")

    def test_streams_that_are_refused(self):
        class Mute(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(range(3))

        with self.assertRaisesRegex(TypeError, "give it state_dict"):
            self.wrap(data=Mute())
        with self.assertRaisesRegex(ValueError, "examples=..."):
            self.wrap(data=Stream())
        with self.assertRaisesRegex(ValueError, "num_workers=0"):
            self.wrap(data=torch.utils.data.DataLoader(Stream(), batch_size=2, num_workers=1), examples=10)
        with self.assertRaisesRegex(ValueError, "fewer examples"):
            self.train(self.wrap(data=Stream(3), examples=10))


@unittest.skipIf(torch is None, "this interpreter has no torch")
class LargeModels(unittest.TestCase):
    def test_entries_stand_for_all(self):
        from fairway.torch import gradients

        def lengths(thin, accumulated):
            torch.manual_seed(7)
            model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.Linear(1024, 64))
            optimizer = torch.optim.Adam(model.parameters())
            with mock.patch.multiple(gradients, _WHOLE=1000 if thin else 1 << 26, _ENTRIES=4096):
                meter = gradients.Meter(model, optimizer, 1)
                for _ in range(30):
                    for part in range(accumulated):
                        (model(torch.randn(8, 256)).square().mean() / accumulated).backward()
                        if part == 0:
                            meter.first(accumulated)
                    optimizer.step()
                    meter.batch(accumulated, 1.0)
                    optimizer.zero_grad()
                looked = sum(d.numel() for d in meter._precondition._divisors.values())
                return looked, [x for taken in meter.drain() for x in dataclasses.astuple(taken)]

        for accumulated in (1, 4):
            all_, whole = lengths(False, accumulated)
            some, few = lengths(True, accumulated)
            self.assertLess(some, all_ / 10)
            self.assertEqual(len(whole), len(few))
            for a, b in zip(whole, few):
                self.assertAlmostEqual(a / b, 1, delta=0.1)



@unittest.skipIf(torch is None, "this interpreter has no torch")
class KnownNoise(unittest.TestCase):
    """The noise scale where it is known."""

    def measure(self, world=1, kind="sgd", local_max=16, steps=400):
        env = {"FAIRWAY_ADAPT": 1, "FAIRWAY_BATCH_MAX": 32, "FAIRWAY_BATCH_LOCAL_MAX": local_max}
        got = result(run([JOB, "noise", str(steps), kind], world, env)[0])
        error = got["got"] / got["want"] - 1
        print(f"\n  noise scale, {kind}, {world} replicas, local batch at most {local_max}: "
              f"{got['got']:.3f}, known {got['want']:.3f} ({100 * error:+.2f} %)")
        self.assertLess(abs(error), 0.05, got)
        self.assertEqual(got["batch"], 16)
        return got

    def test_one_gpu_pairs(self):
        self.assertTrue(self.measure()["biased"])

    def test_one_gpu_accumulating(self):
        self.assertFalse(self.measure(local_max=4)["biased"])

    def test_two_replicas(self):
        self.assertFalse(self.measure(world=2)["biased"])

    def test_four_replicas_accumulating(self):
        self.measure(world=4, local_max=2, steps=200)

    def test_adam_pairs(self):
        self.measure(kind="adam")

    def test_adam_replicas(self):
        self.measure(world=2, kind="adam", local_max=4)


@unittest.skipIf(torch is None, "this interpreter has no torch")
class Pieces(unittest.TestCase):
    def wrap(self, optimizer=None, **options):
        agent = fairway.Agent(options.pop("env", Environment()))
        model = torch.nn.Linear(2, 1)
        optimizer = (optimizer or torch.optim.SGD)(model.parameters(), lr=0.1)
        data = torch.utils.data.TensorDataset(torch.ones(32, 2), torch.ones(32, 1))
        return fairway.torch.wrap(model, optimizer, data, **{"batch_size": 8, "epochs": 1, "agent": agent, **options})

    def test_misuse_is_told(self):
        run_ = self.wrap()
        with self.assertRaisesRegex(RuntimeError, "step.loss. was not called"):
            for _ in run_:
                pass
        run_ = self.wrap()
        with self.assertRaisesRegex(RuntimeError, "called twice"):
            for x, y in run_:
                run_.step((run_.model(x) - y).square().mean())
                run_.step((run_.model(x) - y).square().mean())
        with self.assertRaisesRegex(ValueError, "batch_size"):
            self.wrap(batch_size=None)
        with self.assertRaisesRegex(ValueError, "rule"):
            self.wrap(rule="nonsense")

    def test_rules(self):
        self.assertEqual(self.wrap().loop.rule.name, "adascale")
        self.assertEqual(self.wrap(torch.optim.AdamW).loop.rule.name, "sqrt")
        with self.assertRaisesRegex(ValueError, "plain gradient descent"):
            self.wrap(torch.optim.AdamW, rule="cabs")

    def test_loader_with_workers(self):
        from torch.utils.data import DataLoader, TensorDataset

        model = torch.nn.Linear(1, 1)
        loader = DataLoader(TensorDataset(torch.arange(40).float().view(-1, 1)), batch_size=10, num_workers=1)
        run_ = fairway.torch.wrap(model, torch.optim.SGD(model.parameters(), lr=0.0), loader, epochs=2, agent=fairway.Agent(Environment()))
        seen = []
        for (x,) in run_:
            seen += x.flatten().tolist()
            run_.step(run_.model(x).mean())
        self.assertEqual((sorted(seen[:40]), sorted(seen[40:])), (list(range(40)), list(range(40))))

    def test_batch_changes_on_one_gpu_keep_the_order(self):
        from fairway.loop import Options

        env = Environment(adapt=True, batch_max=64, batch_local_max=16)
        model, data = torch.nn.Linear(1, 1), torch.utils.data.TensorDataset(torch.arange(500).float().view(-1, 1))
        run_ = fairway.torch.wrap(model, torch.optim.SGD(model.parameters(), lr=0.0), data, batch_size=8, epochs=2, agent=fairway.Agent(env))
        run_.loop._options = Options(agree_every=0.0, choose_every=0.0)
        run_.agent._answered({"params": PARAMS, "noise": 1e4})
        seen, sizes, micro = [], set(), 0
        for (x,) in run_:
            seen += [int(i) for i in x.flatten()]
            micro += 1
            if run_.step(run_.model(x - 250).square().mean() + 1e3 * torch.randn(()) * run_.model(x).mean()):
                sizes.add((run_.loop.config.local, run_.loop.config.accum))
                run_.agent._answered({"params": PARAMS, "noise": 1e4 if len(seen) < 400 else 1e-3})
        self.assertEqual(seen, run_.loop.order.slice(0, len(seen)))
        self.assertEqual(run_.loop.position, len(seen))
        self.assertGreater(len(sizes), 1, sizes)
        self.assertGreaterEqual(run_.loop.done, 1000)

    def test_every_rule_trains(self):
        """Each rule adapts a real training within its limits, and the loss falls."""
        from fairway.loop import Options
        from fairway.rules import RULES

        torch.manual_seed(1)
        points = torch.randn(2000, 4)
        labels = points @ torch.tensor([[1.0], [-2.0], [0.5], [3.0]]) + torch.randn(2000, 1)
        for rule in (*RULES, "adabatch:every=1"):
            model = torch.nn.Linear(4, 1)
            agent = fairway.Agent(Environment(adapt=True, batch_max=128, batch_local_max=64))
            run_ = fairway.torch.wrap(
                model, torch.optim.SGD(model.parameters(), lr=0.02), torch.utils.data.TensorDataset(points, labels),
                batch_size=8, epochs=3, rule=rule, agent=agent,
            )  # fmt: skip
            run_.loop._options = Options(agree_every=0.0, choose_every=0.0)
            agent._answered({"params": PARAMS})
            sizes = set()
            for x, y in run_:
                run_.step((run_.model(x) - y).square().mean())
                sizes.add(run_.loop.batch)
            self.assertTrue(8 <= min(sizes) and max(sizes) <= 128, (rule, sizes))
            # One waits for its 20th epoch; to the other, 0.02 * 16 / 1 examples are enough.
            self.assertEqual(len(sizes) > 1, rule not in ("adabatch", "cabs"), (rule, sizes))
            loss = float((model(points) - labels).square().mean())
            self.assertLess(loss, 1.15, rule)  # 1 is the noise; it began at about 15

    def test_learning_rate_is_scaled_for_the_step_alone(self):
        from fairway.noise import Noise

        run_ = self.wrap(env=Environment(adapt=True, batch_max=64), epochs=10)
        loop = run_.loop
        loop.config = loop.limits.split(32, 1)
        loop._noise = Noise(1.0, 4.0)  # gain (4 + 1) / (4/4 + 1) = 2.5
        rates = []
        step = run_.optimizer.step
        run_.optimizer.step = lambda: (rates.append(run_.optimizer.param_groups[0]["lr"]), step())
        for x, y in run_:
            if run_.step((run_.model(x) - y).square().mean()):
                break
        self.assertAlmostEqual(rates[0], 0.25)
        self.assertEqual(run_.optimizer.param_groups[0]["lr"], 0.1)
        self.assertAlmostEqual(loop.done, 8 * 2.5)


if __name__ == "__main__":
    unittest.main()
