# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The order of the data, the loop, gangs, and the trainer that needs no torch."""

import json
import logging
import random
import re
import shutil
import statistics
import tempfile
import threading
import time
import unittest
from collections import Counter
from pathlib import Path

from fairway.agent import YIELD, Agent
from fairway.env import Environment
from fairway.gang import Gang
from fairway.goodput import Config, Limits
from fairway.loop import Loop, Options, Pair, Parts, Several, limits_of
from fairway.order import Order
from fairway.timing import StepTimer
from tests.daemon import Daemon, wait_for
from tests.gangs import Running, free_port, needs_steady_cores, run

TRAINER = str(Path(__file__).resolve().parents[2] / "examples" / "stdlib_train.py")
PARAMS = {"alpha_grad": 0.05, "beta_grad": 0.0001, "alpha_local": 0.02, "beta_local": 0.001, "alpha_node": 0, "beta_node": 0, "gamma": 1.5}


class OrderTests(unittest.TestCase):
    def test_every_example_once_an_epoch_over_any_resizes(self):
        """The property that makes resizing safe, over random histories."""
        rng = random.Random(5)
        for _ in range(200):
            size = rng.randrange(1, 60)
            order, position, seen = Order(size, seed=rng.randrange(5)), 0, []
            for _ in range(rng.randrange(1, 8)):  # a piece of training at one size
                world, config = rng.randrange(1, 6), Config(rng.randrange(1, 7), rng.randrange(0, 3))
                streams = [order.batches(position, config, rank, world) for rank in range(world)]
                for _ in range(rng.randrange(0, 5)):
                    parts = [[next(s) for _ in range(config.accum + 1)] for s in streams]
                    batch = [i for micro in zip(*parts) for part in micro for i in part]
                    self.assertEqual(len(batch), config.batch(world))
                    seen += batch
                    position += len(batch)
            self.assertEqual(seen, Order(size, seed=order.seed).slice(0, position))
            for epoch in range(0, len(seen), size):
                counts = Counter(seen[epoch : epoch + size])
                self.assertEqual(max(counts.values(), default=1), 1)

    def test_epochs_and_seeds_differ(self):
        order = Order(50, seed=1)
        self.assertNotEqual(list(order.epoch(0)), list(order.epoch(1)))
        self.assertNotEqual(list(order.epoch(0)), list(Order(50, seed=2).epoch(0)))
        self.assertEqual(list(order.epoch(0)), list(Order(50, seed=1).epoch(0)))
        with self.assertRaises(ValueError):
            Order(0)


class FakeClock:
    """Marks are numbers given before; those from ready on are not known yet."""

    def __init__(self):
        self.now, self.ready = 0.0, float("inf")

    def mark(self):
        return self.now

    def between(self, start, end):
        return end - start if end < self.ready else None


class TimerTests(unittest.TestCase):
    def test_pauses_and_warmup_are_left_out(self):
        clock = FakeClock()
        timer = StepTimer(clock, warmup=2)
        for length in (9, 9, 1, 1, 1, 50, 1):
            clock.now += length
            timer.step((clock.now - 0.5, clock.now - 0.25))
        steps, syncs = timer.drain()
        self.assertEqual((steps, syncs), ([1, 1, 1, 1], [0.25] * 5))
        self.assertEqual((timer.drain(), timer.mean()), (([], []), 1))

    def test_what_is_not_known_comes_later(self):
        clock = FakeClock()
        timer = StepTimer(clock, warmup=0)
        for _ in range(5):
            clock.now += 1
            timer.step()
        clock.ready = 4
        self.assertEqual(len(timer.drain()[0]), 2)
        clock.ready = 100
        self.assertEqual(len(timer.drain()[0]), 2)

    def test_a_save_after_every_step(self):
        """Its time is left out, and no step is."""
        clock = FakeClock()
        timer = StepTimer(clock, warmup=1)
        for _ in range(5):
            clock.now += 2
            timer.step()
            clock.now += 7
            timer.restart()
        self.assertEqual(timer.drain()[0], [2] * 4)


def make_loop(world=1, adapt=True, batch_max=256, options=Options(agree_every=0, choose_every=0), total=1e9, **more):
    env = Environment(world=world, adapt=adapt, batch_initial=16, batch_max=batch_max, batch_local_max=64)
    agent = Agent(env)
    return Loop(agent, Order(1000), limits_of(agent, 99), total, options=options, **more)


class LoopTests(unittest.TestCase):
    def test_limits(self):
        self.assertEqual(limits_of(Agent(Environment()), 32), Limits(32, 32, 1, 32))
        env = Environment(batch_initial=8, batch_max=64, batch_local_min=2, batch_local_max=16)
        self.assertEqual(limits_of(Agent(env), 32), Limits(8, 64, 2, 16))

    def test_less_at_once_after_the_memory_ran_out(self):
        """The batch stays what it was; less of it goes through a GPU at once."""
        env = Environment(world=2, batch_scale=0.5)
        limits = limits_of(Agent(env), 32)
        self.assertEqual((limits.initial, limits.local_max), (32, 8))
        self.assertEqual(limits.split(32, 2), Config(8, 1))
        env = Environment(batch_scale=0.25, batch_local_min=4, batch_local_max=12)
        self.assertEqual(limits_of(Agent(env), 32).local_max, 4)

    def test_how_soon_memory_is_saved_to_again(self):
        """So that the training stands still for 0.4 % of its time, but for the first save."""
        loop = make_loop()
        loop.save_near = lambda: time.sleep(0.2)
        loop._save_near()
        self.assertLess(loop._next_near - time.monotonic(), 30.0 + 1e-9)
        loop._save_near()
        self.assertGreater(loop._next_near - time.monotonic(), 45.0)

    def test_a_step_is_taken_apart_now_and_then(self):
        """It is none of the steps that are timed, and the next one follows so much later that
        the cost does not matter. What one rank cannot tell is not told."""
        loop, told, found = make_loop(), [], [Parts(0.5, 0.25, 0.0), None]
        loop.agent.spent = told.append

        class Watching:
            began = ended = 0

            def begin(self):
                self.began += 1

            def end(self):
                self.ended += 1
                time.sleep(0.2)
                return found[self.ended - 1]

        loop.recorder = Watching()
        for n in range(1, 9):
            loop.step_done()
            self.assertEqual(loop.recorder.began, int(n >= 4), n)
            self.assertEqual(loop.recorder.ended, int(n >= 5), n)
        self.assertEqual(told, [{"exchange": 0.5, "wait": 0.25, "bubble": 0.0}])
        self.assertLess(max(loop._timer._recent), 0.2)
        self.assertGreater(loop._next_parts - time.monotonic(), 90.0)  # 0.2 s are 0.2 % of 100 s
        loop._next_parts = 0.0
        loop.step_done()
        loop.step_done()
        self.assertEqual((loop.recorder.ended, len(told)), (2, 1))

    def test_not_opted_in(self):
        """Without co-adaptation nothing of it happens, whatever the daemon says."""
        loop = make_loop(adapt=False)
        loop.agent._answered({"params": PARAMS, "noise": 1e6})
        loop.drain_lengths = lambda: self.fail("the noise was measured")
        for _ in range(20):
            loop.step_done()
        self.assertEqual((loop.batch, loop.lr_factor, loop.done, loop.noise_scale), (16, 1.0, 320, 0))

    def test_batch_grows_with_noise_in_bounds(self):
        loop = make_loop()
        loop.agent._answered({"params": PARAMS})
        loop.drain_lengths = lambda: [Several(101.0, 51.0, 2, loop.scale)]  # sqr 1, var 50 * scale
        sizes = [loop.batch]
        for _ in range(30):
            before = loop.done
            loop.step_done()
            sizes.append(loop.batch)
            self.assertLessEqual(loop.done - before, sizes[-2] + 1e-9)
        self.assertEqual(set(sizes[:15]), {16}, "before the noise is known")
        self.assertTrue(64 < sizes[-1] <= 256, sizes)
        self.assertTrue(1 < loop.lr_factor <= loop.scale, loop.lr_factor)
        self.assertLess(loop.done, loop.position)

    def test_no_noise_no_growth(self):
        loop = make_loop()
        loop.agent._answered({"params": PARAMS})
        loop.drain_lengths = lambda: [Pair(1.0, 1.0, 1.0, loop.scale)]
        for _ in range(20):
            loop.step_done()
        self.assertEqual(loop.batch, 16)

    def test_prior_until_measured(self):
        loop = make_loop()
        loop.agent._answered({"params": PARAMS, "noise": 5000})
        for _ in range(5):
            loop.step_done()
        self.assertGreater(loop.batch, 16)
        self.assertAlmostEqual(loop.noise_scale, 5000)

    def test_state_goes_on_at_another_size(self):
        first = make_loop()
        first.drain_lengths = lambda: [Several(101.0, 51.0, 2, 1.0)]
        for _ in range(25):
            first.step_done()
        self.assertGreater(first.noise_scale, 0)
        state = json.loads(json.dumps(first.state_dict()))
        second = make_loop(world=4)
        second.load_state_dict(state)
        self.assertEqual((second.position, second.done, second.noise_scale), (first.position, first.done, first.noise_scale))
        self.assertEqual((second.config, second.batch), (Config(4, 0), 16))

    @needs_steady_cores
    def test_restored_work_is_no_progress(self):
        """A process that goes on from a checkpoint reports what it did itself as its
        rate, and never that nothing is done."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        daemon = Daemon(Path(folder.name)).start()
        self.addCleanup(daemon.stop)
        state = dict(make_loop().state_dict(), position=10**6, done=1e6)
        agent = Agent(Environment(job="j1", attempt=2, api=daemon.api, token="secret", report_seconds=0.1))
        self.addCleanup(agent.close)
        self.addCleanup(agent.notice.uninstall)
        loop = Loop(agent, Order(1000), limits_of(agent, 16), 2e6)
        wait_for(lambda: len(daemon.reports) >= 2)  # while a model is read
        loop.load_state_dict(state)
        begin = time.monotonic()
        while time.monotonic() - begin < 2:
            loop.step_done()
            time.sleep(0.02)
        truth = (loop.done - 1e6) / (time.monotonic() - begin)
        agent.close()
        self.assertEqual(daemon.problems, [])
        rates = [r["rate"] for r in daemon.reports if "rate" in r]
        self.assertLess(max(rates), 3 * truth, rates)
        self.assertAlmostEqual(statistics.median(rates), truth, delta=0.3 * truth)  # one report may see a pause
        self.assertEqual([r["done"] for r in daemon.reports if r.get("done", 1e6) < 1e6], [])
        self.assertEqual({r["restored"] for r in daemon.reports if "done" in r}, {1e6})

    def test_says_what_it_can_do(self):
        """A job may be stopped only once its agent would save on notice."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)

        def agent_of(checkpoints: str) -> Agent:
            agent = Agent(Environment(job="j1", checkpoint_dir=checkpoints))
            self.addCleanup(agent.notice.uninstall)
            return agent

        def says(agent: Agent) -> str:
            return agent._make(False, False)["can"]

        plain = agent_of(folder.name)
        self.assertEqual(says(plain), "unproven")
        plain.should_stop()
        self.assertEqual(says(plain), "saves")
        nowhere = agent_of("")
        nowhere.should_stop()
        Loop(nowhere, Order(1000), limits_of(nowhere, 16), 2e6)
        self.assertEqual(says(nowhere), "unproven")
        looped = agent_of(folder.name)
        Loop(looped, Order(1000), limits_of(looped, 16), 2e6)
        self.assertEqual(says(looped), "resizes")
        deaf = Agent(Environment(checkpoint_dir=folder.name))  # not managed: SIGTERM is not caught
        deaf.should_stop()
        self.assertEqual(says(deaf), "unproven")

    def test_first_step_is_reported_at_once(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        daemon = Daemon(Path(folder.name)).start()
        self.addCleanup(daemon.stop)
        agent = Agent(Environment(job="j1", attempt=2, api=daemon.api, token="secret", report_seconds=600))
        self.addCleanup(agent.close)
        self.addCleanup(agent.notice.uninstall)
        wait_for(lambda: len(daemon.reports) >= 3)  # the next is due in 8 s
        agent.restored(50, 100)
        agent.progress(51)
        begin = time.monotonic()
        wait_for(lambda: daemon.reports[-1].get("done") == 51)
        self.assertLess(time.monotonic() - begin, 5)

    def test_too_many_processes(self):
        with self.assertRaisesRegex(ValueError, "cannot be split over 300"):
            make_loop(world=300)

    def test_stop_saves_and_leaves(self):
        loop, saves = make_loop(), []
        loop.save = lambda: saves.append(loop.position)
        loop.step_done()
        loop.agent.notice.give()
        with self.assertRaises(SystemExit) as left:
            loop.step_done()
        self.assertEqual((left.exception.code, saves), (YIELD, [32]))

    def test_a_failed_save_is_no_save(self):
        """Asked to stop while the disk takes nothing: it says so, trains on, and
        leaves when its work is saved."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        daemon = Daemon(Path(folder.name)).start()
        self.addCleanup(daemon.stop)
        agent = Agent(Environment(job="j1", api=daemon.api, token="secret", report_seconds=0.1, notice=30, checkpoint_dir=folder.name + "/kept"))
        self.addCleanup(agent.close)
        self.addCleanup(agent.notice.uninstall)
        loop = Loop(agent, Order(1000), limits_of(agent, 16), 1e9)
        loop.save = lambda: agent.save(b"weights")
        loop.step_done()
        kept = Path(folder.name) / "kept" / "fairway"
        kept.parent.mkdir(exist_ok=True)
        kept.write_text("in the way")
        agent.notice.give()
        begin = time.monotonic()
        with self.assertLogs("fairway", "ERROR") as logs:
            while time.monotonic() - begin < 0.5:
                loop.step_done()
                time.sleep(0.01)
        self.assertLess(len([m for m in logs.output if "not saved" in m]), 10)
        wait_for(lambda: "save_failed" in daemon.reports[-1])
        self.assertFalse(any(r.get("checkpoint") for r in daemon.reports))
        kept.unlink()
        with self.assertRaises(SystemExit) as left:
            while time.monotonic() - begin < 60:
                loop.step_done()
                time.sleep(0.01)
        self.assertEqual(left.exception.code, YIELD)
        saved = [r for r in daemon.reports if r.get("checkpoint")]
        self.assertEqual([(r["done"], r.get("save_failed")) for r in saved], [(loop.done, None)])
        self.assertEqual(agent.store.load(), b"weights")
        self.assertEqual(daemon.problems, [])

    def test_leaving_without_a_save_is_said(self):
        agent = Agent(Environment(job="j1"))
        self.addCleanup(agent.notice.uninstall)
        self.assertIsNone(agent.save(b"weights"), "there is no folder")
        with self.assertRaises(SystemExit) as left:
            agent.leave()
        self.assertEqual(left.exception.code, 1)

    def test_stop_at_the_end_is_an_end(self):
        loop = make_loop(total=16)
        loop.agent.notice.give()
        loop.step_done()
        self.assertTrue(loop.finished)
        loop.end()

    def test_saves_at_intervals(self):
        loop, saves = make_loop(options=Options(agree_every=0, checkpoint_every=0.05)), []
        loop.save = lambda: saves.append(loop.position)
        begin = time.monotonic()
        while len(saves) < 5:
            loop.step_done()
            time.sleep(0.001)
        self.assertGreaterEqual(time.monotonic() - begin, 5 * 0.05)

    def test_samples(self):
        clock = FakeClock()
        loop = make_loop(world=1, clock=clock)
        for _ in range(10):
            clock.now += 0.5
            loop.step_done((clock.now - 0.2, clock.now - 0.1))
        (sample,) = loop.agent.profile.samples()
        self.assertEqual((sample.nodes, sample.gpus, sample.local, sample.count), (1, 1, 16, 8))
        self.assertAlmostEqual(sample.step, 0.5)
        self.assertAlmostEqual(sample.sync, 0.1)


class GangTests(unittest.TestCase):
    def gang(self, world, work, tokens=None, timeout=60):
        port, results = free_port(), {}

        def rank(r):
            env = Environment(rank=r, world=world, master_port=port, token=(tokens or {}).get(r, "t"))
            try:
                gang = Gang(env, timeout=timeout)
                results[r] = work(gang)
                gang.close()
            except OSError as err:
                results[r] = err

        threads = [threading.Thread(target=rank, args=(r,)) for r in range(world)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(120)
        return results

    def test_reduces(self):
        def work(gang):
            return gang.sum([gang.rank, 1.5]), gang.max([-gang.rank, gang.rank]), gang.mean([2.0 * gang.rank]), gang.barrier()

        want = ([6.0, 6.0], [0.0, 3.0], [3.0], None)
        self.assertEqual(self.gang(4, work), {r: want for r in range(4)})
        self.assertEqual(self.gang(1, work)[0], ([0, 1.5], [0, 0], [0.0], None))

    def test_strangers_are_not_let_in(self):
        results = self.gang(2, lambda gang: gang.sum([1.0]), tokens={1: "another"}, timeout=2)
        self.assertTrue(all(isinstance(e, OSError) for e in results.values()), results)

    def cluster_gang(self, secrets, timeout=60):
        """A gang of two as in a cluster: each rank has a token of its own and asks
        for the secret that they share; secrets holds what each rank hears."""
        folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        port, results, daemons = free_port(), {}, {}

        def rank(r):
            env = Environment(
                rank=r, world=2, master_port=port, job="net-1", attempt=3, api=daemons[r].api, token_file=str(folder / f"token-{r}")
            )
            try:
                gang = Gang(env, timeout=timeout)
                results[r] = gang.sum([1.0])
                gang.close()
            except OSError as err:
                results[r] = err

        threads = []
        for r in range(2):
            (folder / f"token-{r}").write_text(f"token of {r}\n")
            (folder / str(r)).mkdir()
            daemons[r] = Daemon(folder / str(r), token=f"token of {r}").start()
            self.addCleanup(daemons[r].stop)
            daemons[r].answer = {"gang": secrets[r]}
            threads.append(threading.Thread(target=rank, args=(r,)))
        for t in threads:
            t.start()
        time.sleep(1.5)
        for daemon in daemons.values():  # by now all speak to the same leader
            daemon.answer = {"gang": secrets[2]} if len(secrets) > 2 else daemon.answer
        for t in threads:
            t.join(120)
        return results, daemons

    def test_ranks_of_a_cluster_ask_for_their_key(self):
        results, daemons = self.cluster_gang(["a", "a"])
        self.assertEqual(results, {0: [2.0], 1: [2.0]})
        for daemon in daemons.values():
            self.assertEqual(daemon.reports, [{"done": 0, "ask": True}])

    def test_ranks_with_other_keys_are_strangers(self):
        results, _ = self.cluster_gang(["a", "b"], timeout=6)
        self.assertTrue(all(isinstance(e, OSError) for e in results.values()), results)

    def test_the_key_changes_with_the_leader(self):
        results, _ = self.cluster_gang(["a", "b", "b"])
        self.assertEqual(results, {0: [2.0], 1: [2.0]})

    def test_a_rank_that_goes(self):
        def work(gang):
            if gang.rank == 1:
                return None
            return gang.sum([1.0])

        self.assertIsInstance(self.gang(2, work)[0], OSError)

    def test_ranks_that_do_not_do_the_same(self):
        results = self.gang(2, lambda gang: gang.sum([1.0] * (gang.rank + 1)))
        self.assertIsInstance(results[0], ConnectionError)


class StdlibTrainer(unittest.TestCase):
    """The example trainer under the agent's protocol, without torch."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.daemon = Daemon(Path(folder.name)).start()
        self.addCleanup(self.daemon.stop)
        self.env = {"FAIRWAY_JOB": "j1", "FAIRWAY_API": self.daemon.api, "FAIRWAY_TOKEN": "secret", "FAIRWAY_NOTICE": 120,
                    "FAIRWAY_CHECKPOINT_DIR": folder.name + "/kept", "FAIRWAY_REPORT_SECONDS": 0.1}

    def test_resizes_reach_the_same_loss(self):
        """1 -> 4 -> 2 slots by notice; the same loss as alone, to rounding."""
        attempts = []
        for attempt, world in enumerate((1, 4, 2), 1):
            # So slow that those which are told to leave are not at their end before.
            command = [TRAINER, "--steps", "300", "--sleep", str(0.003 * world if attempt < 3 else 0.0005)]
            running = Running(command, world, dict(self.env, FAIRWAY_ATTEMPT=attempt))
            if attempt < 3:
                wait_for(lambda: self.daemon.reports and self.daemon.reports[-1].get("done", 0) >= attempt * 1200)
                running.notice()
            codes, outputs = running.wait()
            attempts.append(outputs[0])
            self.assertEqual(codes, [YIELD if attempt < 3 else 0] * world, outputs)
        alone = run([TRAINER, "--steps", "300"])[0]
        last = re.compile(r"done: loss ([\d.]+), accuracy ([\d.]+)")
        self.assertEqual(last.search(attempts[-1]).groups(), last.search(alone).groups())
        self.assertIn("resumed after", attempts[1])
        self.assertEqual(self.daemon.problems, [])
        reports = self.daemon.reports
        self.assertGreaterEqual(len([r for r in reports if r.get("checkpoint")]), 3)
        self.assertTrue(reports[-1]["complete"])
        self.assertEqual((reports[-1]["done"], reports[-1]["work"]), (4800, 4800))
        samples = [s for r in reports for s in r.get("training", {}).get("samples", [])]
        self.assertEqual({s["gpus"] for s in samples}, {1, 2, 4})
        self.assertTrue(all(s["sync"] > 0 for s in samples if s["gpus"] > 1))
        self.assertTrue(all(r["training"]["fixed"] == 16 for r in reports if "training" in r))
        self.assertTrue(any("loss" in r["point"] for r in reports))

    def test_kill_without_notice(self):
        """What was checkpointed is kept, what was not is done again."""
        command = [TRAINER, "--steps", "200", "--sleep", "0.008", "--checkpoint-every", "0.2"]
        for attempt in (1, 2):
            running = Running(command, 2, dict(self.env, FAIRWAY_ATTEMPT=attempt))
            saves = len([r for r in self.daemon.reports if r.get("checkpoint")])
            wait_for(lambda: len([r for r in self.daemon.reports if r.get("checkpoint")]) >= saves + 2)
            for process in running.processes:
                process.kill()
            running.wait()
        kept = [r["done"] for r in self.daemon.reports if r.get("checkpoint")][-1]
        output = run(command, 2, dict(self.env, FAIRWAY_ATTEMPT=3))[0]
        self.assertGreaterEqual(int(re.search(r"resumed after (\d+)", output).group(1)), kept)
        alone = run([TRAINER, "--steps", "200"])[0]
        last = re.compile(r"done: loss ([\d.]+), accuracy ([\d.]+)")
        self.assertEqual(last.search(output).groups(), last.search(alone).groups())

    def test_co_adaptation(self):
        self.daemon.answer = {"params": PARAMS, "noise": 100}
        env = dict(self.env, FAIRWAY_ADAPT=1, FAIRWAY_BATCH_MAX=64, FAIRWAY_BATCH_LOCAL_MAX=32)
        outputs = run([TRAINER, "--steps", "400", "--sleep", "0.0005"], 2, env)
        self.assertIn("batch size 16 -> ", outputs[0])
        loss = float(re.search(r"done: loss ([\d.]+)", outputs[0]).group(1))
        self.assertLess(loss, 0.25)
        last = self.daemon.reports[-1]
        self.assertTrue(last["complete"])
        self.assertTrue(16 < last["point"]["batch"] <= 64, last)
        self.assertTrue(0 < last["point"]["efficiency"] < 1, last)
        self.assertGreater(last["training"]["noise"], 0)
        self.assertEqual(self.daemon.problems, [])

    def test_rule_that_sets_the_batch(self):
        """All ranks follow the schedule, across a resize, and every report names the
        batch in use."""
        env = dict(self.env, FAIRWAY_ADAPT=1, FAIRWAY_BATCH_MAX=64, FAIRWAY_BATCH_LOCAL_MAX=32)
        command = [TRAINER, "--steps", "400", "--rule", "adabatch:every=0.7:decay=1", "--sleep"]
        first = Running([*command, "0.004"], 2, env)
        wait_for(lambda: self.daemon.reports and self.daemon.reports[-1].get("done", 0) >= 2000)
        first.notice()
        codes, outputs = first.wait()
        self.assertEqual(codes, [YIELD, YIELD], outputs)
        outputs = run([*command, "0.001"], 3, dict(env, FAIRWAY_ATTEMPT=2))
        self.assertLess(float(re.search(r"done: loss ([\d.]+)", outputs[0]).group(1)), 0.3)
        told = [r for r in self.daemon.reports if "training" in r]
        self.assertTrue(all(r["training"]["fixed"] == r["point"]["batch"] <= 64 for r in told), told)
        used = [r["training"]["fixed"] for r in told]
        self.assertEqual(used, sorted(used), "it only grows")
        self.assertTrue(16 in used and used[-1] == 63, used)  # the most that three can share
        self.assertTrue(6400 <= self.daemon.reports[-1]["done"] < 6464, self.daemon.reports[-1])
        self.assertEqual(self.daemon.problems, [])

    def test_bug_is_a_real_one(self):
        codes, outputs = Running([TRAINER, "--steps", "100", "--bug", "5"], 1, self.env).wait()
        self.assertEqual(codes, [1])
        self.assertIn("IndexError: list index out of range", outputs[0])

    def test_daemon_away(self):
        self.daemon.stop()
        out = run([TRAINER, "--steps", "50"], 1, self.env)[0]
        self.assertIn("done: loss", out)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    unittest.main()
