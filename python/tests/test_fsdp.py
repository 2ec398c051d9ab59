# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Execution plans, and trainings under them with real processes over gloo."""

import contextlib
import functools
import importlib.metadata
import json
import math
import shutil
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from fairway import env
from fairway.agent import YIELD
from fairway.plan import Plan, parse
from tests.daemon import Daemon, wait_for
from tests.gangs import Running, run

try:
    import torch
    from fairway.torch import fsdp, pipeline
except ImportError:
    fsdp = None

def _titan():
    """The version of TorchTitan; empty: there is none."""
    try:
        return importlib.metadata.version("torchtitan")
    except importlib.metadata.PackageNotFoundError:
        return ""


JOB = str(Path(__file__).resolve().parent / "fsdp_job.py")
NEEDS = "this interpreter has no PyTorch of version 2.6 or later"


class Names(unittest.TestCase):
    def test_names(self):
        """As in sched/plan: TestNames, TestBadNames."""
        for name, want in {
            "dp1": Plan(kind="dp"),
            "zero8+offload": Plan(8, kind="zero", offload=True),
            "fsdp4/2+recompute": Plan(4, micro=2, recompute=True),
            "tp4-pp2": Plan(1, 4, 2, kind="dp"),
            "dp2-tp4-pp2/8": Plan(2, 4, 2, 8, kind="dp"),
            "fsdp2-tp2+recompute": Plan(2, 2, recompute=True),
            "pp3": Plan(pipeline=3, kind="dp"),
        }.items():
            self.assertEqual(parse(name), want, name)
        for name in ("", "dp", "dp0", "dp-1", "dp4 ", "tp2-dp4", "dp4-", "-tp2", "dp4tp2", "fsdp4/", "fsdp4/0", "ddp4", "dp4-xp2", "/2"):
            with self.assertRaises(ValueError, msg=name):
                parse(name)

    def test_environment(self):
        self.assertEqual(env.read({"FAIRWAY_PLAN": "fsdp2-tp2"}).plan, Plan(2, 2))
        self.assertIsNone(env.read({}).plan)
        bad = env.read({"FAIRWAY_PLAN": "fast"})
        self.assertIsNone(bad.plan)
        self.assertEqual(bad.problems, ("FAIRWAY_PLAN='fast'",))


def losses(folder):
    """The losses, their steps, and the plans in their order."""
    lines = [json.loads(line) for line in (folder / "losses").read_text().splitlines()]
    return [loss for _, _, loss in lines], [step for step, _, _ in lines], list(dict.fromkeys(plan for _, plan, _ in lines))


@functools.lru_cache(maxsize=None)
def losses_alone(steps, job="gpt"):
    """The losses of a job, run once in one process."""
    with tempfile.TemporaryDirectory() as folder:
        run([JOB, job, folder, str(steps)])
        return losses(Path(folder))


@unittest.skipIf(fsdp is None, NEEDS)
class Refusals(unittest.TestCase):
    def test_plans_that_cannot_be_run(self):
        for plan, world, want in (
            (Plan(4), 2, "for 4 processes, and WORLD_SIZE is 2"),
        ):
            with self.assertRaisesRegex(ValueError, want):
                fsdp._plan_of(env.Environment(world=world, plan=plan))
        self.assertEqual(fsdp._plan_of(env.Environment(world=3)), Plan(3))

    def test_stages_that_are_no_division(self):
        """Each stage has its layers, under their own names. Parameters that no stage has, or two
        have, or that have another name, are refused by all ranks."""
        layers = lambda: torch.nn.ModuleList(torch.nn.Linear(1, 1) for _ in range(5))
        names = []
        for stage in range(3):
            fsdp.keep(kept := layers(), stage, 3)
            names.append([name for name, _ in kept.named_children()])
        self.assertEqual(names, [["0", "1"], ["2", "3"], ["4"]])
        with self.assertRaisesRegex(ValueError, "6 stages for 5 layers"):
            fsdp.keep(layers(), 0, 6)

        def both(how):
            """Two stages, of which each hears what is left to both."""
            told = []
            for stage in (0, 1):
                with contextlib.suppress(ValueError):
                    pipeline.cut(layers(), how, stage, 2, mock.Mock(gather=lambda mine: told.append(mine) or [mine]))
            pipeline.cut(layers(), how, 0, 2, mock.Mock(gather=lambda mine: told))

        both(fsdp.keep)
        for how, want in (
            (lambda model, stage, stages: None, "leaves 0.weight to 2 of 2 stages"),
            (lambda model, stage, stages: fsdp.keep(model, 0, stages) if stage == 0 else fsdp.keep(model, 2, 3), "3.weight to 0 of 2 stages"),
            (lambda model, stage, stages: model._modules.clear() if stage else None, "stage 1 of 2 no parameters"),
            (lambda model, stage, stages: model.append(torch.nn.Linear(1, 1)), "5.weight, which the whole model does not have"),
            (lambda model, stage, stages: fsdp.keep(model, stage, 9), "stage 0: ValueError: there are 9 stages"),
        ):
            with self.assertRaisesRegex(ValueError, want):
                both(how)

    def test_pipelines_need_stages_and_a_loss(self):
        agent = mock.Mock(env=env.Environment(world=2, plan=Plan(1, 1, 2)))
        for options in ({}, {"stages": fsdp.keep}, {"loss": max}):
            with self.assertRaisesRegex(ValueError, "2 stages; say how"):
                fsdp.wrap(None, None, [0], epochs=1, batch_size=1, agent=agent, **options)


@unittest.skipIf(fsdp is None, NEEDS)
class Sharded(unittest.TestCase):
    STEPS = 24

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.daemon = Daemon(self.folder).start()
        self.addCleanup(self.daemon.stop)
        self.env = {"FAIRWAY_JOB": "j1", "FAIRWAY_API": self.daemon.api, "FAIRWAY_TOKEN": "secret", "FAIRWAY_NOTICE": 120,
                    "FAIRWAY_CHECKPOINT_DIR": str(self.folder / "kept"), "FAIRWAY_REPORT_SECONDS": 0.1}

    def attempt(self, number, plan, leave_after=None, job="gpt"):
        """Runs an attempt to its end, or asks it to leave after some steps."""
        (self.folder / "pace").write_text(json.dumps({"": 0.05 if leave_after else 0.0}))
        running = Running([JOB, job, str(self.folder), str(self.STEPS)], parse(plan).ranks, dict(self.env, FAIRWAY_ATTEMPT=number, FAIRWAY_PLAN=plan))
        if leave_after:
            ended = lambda: any(p.poll() is not None for p in running.processes)
            wait_for(lambda: ended() or self.daemon.reports and self.daemon.reports[-1].get("done", 0) >= 8 * leave_after, 600)
            running.notice()
        codes, outputs = running.wait()
        self.assertEqual(codes, [YIELD if leave_after else 0] * len(codes), outputs)

    def test_another_plan_goes_on_where_one_was(self):
        """Saved under one plan, damaged, and gone on with under another: the losses are
        those of one process, up to the order in which floats are added."""
        want, _, _ = losses_alone(self.STEPS)
        self.attempt(1, "fsdp2", leave_after=4)
        kept = self.folder / "kept" / "fairway"
        (first,) = kept.glob("shards-*")
        self.assertEqual(list(kept.glob(".unfinished*")), [])
        self.attempt(2, "tp2/2+offload+recompute", leave_after=12)
        newest = max(kept.glob("shards-*"))
        self.assertNotEqual(newest, first)
        with open(next(newest.glob("__1_*")), "r+b") as file:  # a part of it is damaged
            file.seek(100)
            file.write(b"x" * 16)
        self.attempt(3, "zero1")
        got, steps, plans = losses(self.folder)
        self.assertEqual(plans, ["fsdp2", "tp2/2+offload+recompute", "zero1"])
        second = [i for i, (a, b) in enumerate(zip(steps, steps[1:]), 1) if b <= a]
        self.assertEqual(len(second), 1, steps)  # only the damaged one's steps were done twice
        self.assertEqual(sorted(set(steps)), list(range(self.STEPS)))
        for step, loss in zip(steps, got):
            self.assertTrue(math.isclose(loss, want[step], rel_tol=1e-4), (step, loss, want[step]))
        self.assertLess(want[-1], want[0] - 0.3)
        reports = self.daemon.reports
        self.assertEqual(self.daemon.problems, [])
        self.assertTrue(reports[-1]["complete"])
        self.assertEqual({r["can"] for r in reports if r.get("done")}, {"resizes"})
        samples = [s for r in reports for s in r.get("training", {}).get("samples", [])]
        self.assertEqual({(s["gpus"], s["sync"]) for s in samples} - {(1, 0.0)}, {(2, 0.0)})

    def test_stages_of_a_pipeline(self):
        """In and out of pipelines, also from one to another, with more parts of a batch than stages
        and with fewer: as for other plans."""
        route = ("fsdp4", "fsdp2-pp2/2", "pp4/4", "tp2-pp2", "fsdp4")
        for number, plan in enumerate(route, 1):
            self.attempt(number, plan, leave_after=4 * number if number < len(route) else None)
        self.assertEqual(len(self.check_losses(1e-4)), self.STEPS)
        self.assertEqual(losses(self.folder)[2], list(dict.fromkeys(route)))
        self.assertEqual(self.daemon.problems, [])

    def test_steps_are_taken_apart(self):
        """One rank comes 1 s late to each exchange. The other waits for it, so they wait for half
        of that in the mean, but the exchange takes no longer by it. Stages of a pipeline wait for
        each other instead."""
        for number, plan in enumerate(("fsdp2", "tp2", "pp2"), 1):
            (self.folder / "late").write_text('{"1": 1.0}')
            more = dict(self.env, FAIRWAY_ATTEMPT=number, FAIRWAY_PLAN=plan, FAIRWAY_CHECKPOINT_DIR=str(self.folder / plan))
            codes, outputs = Running([JOB, "gpt", str(self.folder), "8"], 2, more).wait()
            self.assertEqual(codes, [0, 0], outputs)
            (parts,) = [r["training"]["parts"] for r in self.daemon.reports if "parts" in r.get("training", {})]
            self.daemon.reports.clear()
            print(f"\n  {plan}: {parts}")
            self.assertGreater(parts["exchange"], 0)
            self.assertLess(parts["exchange"], 0.9)
            idle, busy = ("bubble", "wait") if plan == "pp2" else ("wait", "bubble")
            self.assertGreater(parts[idle], 0.45)
            self.assertLess(parts[busy], 0.2)
        self.assertEqual(self.daemon.problems, [])

    def test_a_lost_node_costs_a_few_steps(self):
        """A rank on node a and one on b, nothing on the disk. Both die, and with a its
        memory: b has both parts, of which the rank on another node gets its own."""
        want, _, _ = losses_alone(self.STEPS)
        a, b, c = (self.folder / name for name in "abc")
        (self.folder / "pace").write_text('{"": 0.1}')
        command, env = [JOB, "gpt", str(self.folder), str(self.STEPS)], dict(self.env, FAIRWAY_PLAN="fsdp2")
        running = Running(command, 2, dict(env, FAIRWAY_ATTEMPT=1), [a, b])
        wait_for(lambda: len({p.parent for p in b.glob("*/part-*/checkpoint-*")}) == 2 and self.daemon.reports[-1].get("done", 0) >= 64, 600)
        running.kill()
        self.assertEqual(list((self.folder / "kept").glob("*/shards-*")), [])
        shutil.rmtree(a)
        (self.folder / "pace").write_text('{"": 0.0}')
        codes, outputs = Running(command, 2, dict(env, FAIRWAY_ATTEMPT=2), [c, b]).wait()
        self.assertEqual(codes, [0, 0], outputs)
        got, steps, _ = losses(self.folder)
        again = next(i for i, (x, y) in enumerate(zip(steps, steps[1:]), 1) if y <= x)
        print(f"\n  a lost node: {again - steps[again]} steps done again of {again}")
        self.assertGreater(steps[again], 0)
        self.assertEqual(steps[again:], list(range(steps[again], self.STEPS)))
        for step, loss in zip(steps, got):
            self.assertTrue(math.isclose(loss, want[step], rel_tol=1e-5), (step, loss, want[step]))

    def saving(self, number, pace, disk):
        """Starts an attempt on two ranks that saves to a disk of a kind every 0.3 s."""
        (self.folder / "pace").write_text(json.dumps({"": pace}))
        (self.folder / "disk").write_text(json.dumps(disk))
        return Running([JOB, "gpt", str(self.folder), str(self.STEPS), "0.3"], 2, dict(self.env, FAIRWAY_ATTEMPT=number, FAIRWAY_PLAN="fsdp2"))

    def check_losses(self, rel_tol=1e-5, job="gpt"):
        """The losses are those of one process, however often a step was done. Returns the steps."""
        want, _, _ = losses_alone(self.STEPS, job)
        got, steps, _ = losses(self.folder)
        self.assertEqual(sorted(set(steps)), list(range(self.STEPS)))
        for step, loss in zip(steps, got):
            self.assertTrue(math.isclose(loss, want[step], rel_tol=rel_tol), (step, loss, want[step]))
        return steps

    def test_the_disk_does_not_stop_the_training(self):
        """A write of 1 s goes on behind steps of 0.1 s. Then a rank is killed while another
        checkpoint is being written: the one before is used."""
        running, kept = self.saving(1, 0.1, {"seconds": 1.0}), self.folder / "kept" / "fairway"
        wait_for(lambda: list(kept.glob("shards-*")), 600)
        (self.folder / "disk").write_text('{"seconds": 3.0}')
        wait_for(lambda: list(kept.glob(".unfinished-*")), 600)
        running.processes[1].kill()
        codes, outputs = running.wait()
        self.assertNotIn(0, codes, outputs)
        began, ended = json.loads((self.folder / "writes").read_text().splitlines()[0])
        self.assertGreaterEqual(ended - began, 3)
        self.assertEqual(len(list(kept.glob("shards-*"))), 1)
        codes, outputs = self.saving(2, 0.0, {}).wait()
        self.assertEqual(codes, [0, 0], outputs)
        steps = self.check_losses()
        (again,) = [b for a, b in zip(steps, steps[1:]) if b <= a]
        self.assertGreaterEqual(again, 1)  # from the checkpoint, not from the start
        self.assertLessEqual(again, began + 1)
        self.assertEqual(list(kept.glob(".unfinished-*")), [])
        told = [r.get("saved", r["done"]) for r in self.daemon.reports if r.get("checkpoint")]
        self.assertEqual(told[0], 8.0 * again)  # what was saved, not what was done by then

    def test_a_disk_that_is_full_for_one_rank(self):
        """All ranks count the save as failed, the daemon is told why, and the next one is good."""
        running, kept = self.saving(1, 0.1, {"full": 1}), self.folder / "kept" / "fairway"
        wait_for(lambda: any("save_failed" in r for r in self.daemon.reports), 600)
        self.assertEqual(list(kept.glob("shards-*")), [])
        (self.folder / "disk").write_text("{}")
        codes, outputs = running.wait()
        self.assertEqual(codes, [0, 0], outputs)
        self.check_losses()
        self.assertEqual({r["save_failed"] for r in self.daemon.reports if "save_failed" in r}, {"No space left on device"})
        self.assertNotIn("save_failed", self.daemon.reports[-1])
        self.assertTrue(list(kept.glob("shards-*")))

    @unittest.skipUnless(_titan().startswith("0.2."), "TorchTitan 0.2 is not installed; 0.3 divides its models in another way")
    def test_a_model_of_torchtitan(self):
        """Divided by its own functions, with sequence parallelism."""
        self.attempt(1, "fsdp2", leave_after=4, job="titan")
        self.attempt(2, "tp2", leave_after=12, job="titan")
        self.attempt(3, "fsdp2+recompute", job="titan")
        self.assertEqual(len(self.check_losses(1e-4, "titan")), self.STEPS)

    def test_noise_of_shards_is_that_of_the_whole(self):
        """Accumulated, paired, and in the metric of Adam: two ranks, replicas or halves of
        a layer, measure what one measures on the same examples."""
        more = {"FAIRWAY_ADAPT": "1", "FAIRWAY_BATCH_MAX": "64"}
        for accumulate in (1, 2):
            def measure(world, plan):
                output = run([JOB, "noise", "24", str(accumulate)], world, dict(more, FAIRWAY_PLAN=plan))[0]
                line = next(line for line in output.splitlines() if line.startswith("result "))
                return json.loads(line[len("result "):])

            want = measure(1, "fsdp1")
            self.assertEqual(want["biased"], accumulate == 1)
            self.assertGreater(want["weight"], 0)
            for plan in ("fsdp2", "tp2", *(["pp2", "fsdp2-pp2"] if accumulate == 1 else [])):
                got = measure(parse(plan).ranks, plan)
                self.assertEqual(got["biased"], want["biased"])
                for name in ("sqr", "var", "weight"):
                    self.assertTrue(math.isclose(got[name], want[name], rel_tol=1e-4), (accumulate, plan, name, got, want))


if __name__ == "__main__":
    unittest.main()
