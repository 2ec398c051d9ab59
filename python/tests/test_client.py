# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The client and the agent against a daemon that is there, away, slow, wrong."""

import collections
import logging
import math
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock
from pathlib import Path

from fairway import links
from fairway.agent import YIELD, Agent
from fairway.client import Client, connection
from fairway.env import Environment, read
from fairway.goodput import Limits
from fairway.profile import Sample
from tests.daemon import Daemon, wait_for

logging.getLogger("fairway").addHandler(logging.NullHandler())
SRC = Path(__file__).resolve().parents[1] / "src"


PATIENCE = 60  # seconds that a slow machine may take for what takes a moment


class WithDaemon(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.daemon = Daemon(self.folder)
        self.addCleanup(self.daemon.stop)


class ClientTests(WithDaemon):
    def client(self, **options):
        self.answers = []
        options = {"first_delay": 0.02, "longest_delay": 0.1, **options}
        client = Client(self.daemon.api, lambda: "secret", self.answers.append, **options)
        self.addCleanup(client.close, 0)
        return client

    def test_in_order_with_answers(self):
        self.daemon.answer = {"stop": True}
        self.daemon.start()
        client = self.client()
        for i in range(10):
            client.send({"done": i})
        self.assertTrue(client.flush(PATIENCE))
        self.assertEqual([r["done"] for r in self.daemon.reports], list(range(10)))
        self.assertEqual(self.answers, [{"stop": True}] * 10)

    def test_over_tcp(self):
        self.daemon.start(tcp=True)
        client = self.client()
        client.send({"done": 1})
        self.assertTrue(client.flush(PATIENCE))
        self.assertEqual(self.daemon.reports, [{"done": 1}])

    def test_token_is_renewed(self):
        """The file of the token is read for every report, and one that is not
        there yet is waited for."""
        self.daemon.start()
        file = self.folder / "token"
        env = Environment(api=self.daemon.api, token="wrong", token_file=str(file))
        client = Client(env.api, env.bearer, lambda _: None, first_delay=0.02, longest_delay=0.1)
        self.addCleanup(client.close, 0)
        client.send({"done": 1})
        wait_for(lambda: client.away)
        file.write_text("")  # as it is for a moment while it is written
        time.sleep(0.2)
        self.assertEqual((self.daemon.reports, self.daemon.problems), ([], []))
        file.write_text("secret\n")
        self.assertTrue(client.flush(PATIENCE))
        self.daemon.token = "second"
        file.write_text("second\n")
        client.send({"done": 2})
        self.assertTrue(client.flush(PATIENCE))
        self.assertEqual([r["done"] for r in self.daemon.reports], [1, 2])

    def test_daemon_comes_back(self):
        client = self.client()
        with self.assertLogs("fairway", "WARNING") as logs:
            client.send({"done": 1})
            client.send({"done": 2})
            wait_for(lambda: client.away)
            self.daemon.start()
            wait_for(lambda: len(self.daemon.reports) == 2)
            self.assertTrue(client.flush(PATIENCE))
        self.assertEqual([r["done"] for r in self.daemon.reports], [1, 2])
        self.assertEqual(len([m for m in logs.output if "cannot reach the daemon" in m]), 1, logs.output)

    def test_never_blocks_and_stays_bounded(self):
        client = self.client(capacity=8)
        started = time.monotonic()
        client.send({"done": 0, "checkpoint": True}, keep=True)
        for i in range(1, 1000):
            client.send({"done": i})
        self.assertLess(time.monotonic() - started, 10)  # a try for each takes longer
        self.assertLessEqual(len(client._queue), 9)
        self.daemon.start()
        self.assertTrue(client.flush(PATIENCE))
        got = [r["done"] for r in self.daemon.reports]
        self.assertEqual(got[0], 0, "the kept one")
        self.assertEqual(got[-1], 999, "the newest")

    def test_errors_are_tried_again(self):
        self.daemon.status = 503
        self.daemon.start()
        client = self.client()
        client.send({"done": 7})
        wait_for(lambda: self.daemon.calls >= 3)
        self.daemon.status = 200
        self.assertTrue(client.flush(PATIENCE))
        self.assertEqual(self.daemon.reports, [{"done": 7}])

    def test_back_off(self):
        self.daemon.status = 500
        self.daemon.start()
        client = self.client(first_delay=0.1, longest_delay=10)
        started = time.monotonic()
        client.send({"done": 7})
        time.sleep(1.0)
        calls, took = self.daemon.calls, time.monotonic() - started
        self.assertLessEqual(calls, 2 + math.log2(1 + took / 0.05))  # at 0, 0.05+, 0.15+, 0.35+, 0.75+, and so on

    def test_refusals_are_left_out(self):
        self.daemon.start()
        client = self.client()
        client.send({"done": -1})
        client.send({"done": 1})
        self.assertTrue(client.flush(PATIENCE))
        self.assertEqual(self.daemon.reports, [{"done": 1}])
        client.send({"done": math.nan})
        client.send({"x": "y" * 300_000})
        client.send({"done": 2})
        self.assertTrue(client.flush(PATIENCE))
        self.assertEqual(self.daemon.reports[-1], {"done": 2})

    def test_slow_daemon(self):
        self.daemon.delay = 120
        self.daemon.start()
        client = self.client(timeout=0.1)
        client.send({"done": 1})
        started = time.monotonic()
        self.assertFalse(client.flush(0.3))
        client.close(0.2)
        self.assertLess(time.monotonic() - started, PATIENCE)

    def test_nonsense_answer(self):
        self.daemon.body = b"<html>"
        self.daemon.start()
        client = self.client()
        client.send({"done": 1})
        wait_for(lambda: self.daemon.calls >= 2)
        self.daemon.body = b"[1]"
        self.assertTrue(client.flush(PATIENCE))
        self.assertEqual(self.answers, [{}])

    def test_callback_that_fails(self):
        self.daemon.start()
        client = Client(self.daemon.api, lambda: "secret", lambda _a: 1 / 0)
        self.addCleanup(client.close, 0)
        client.send({"done": 1})
        client.send({"done": 2})
        self.assertTrue(client.flush(PATIENCE))
        self.assertEqual(len(self.daemon.reports), 2)

    def test_addresses(self):
        self.assertEqual(connection("http://127.0.0.1:80", 1).port, 80)
        self.assertEqual(connection("https://host:8443", 1).port, 8443)
        for bad in ("", "unix://", "ftp://x", "host:1", "http://"):
            with self.assertRaises(ValueError):
                connection(bad, 1)


class AgentTests(WithDaemon):
    def agent(self, **more):
        env = {"job": "j1", "attempt": 1, "api": self.daemon.api, "token": "secret", "report_seconds": 0.05,
               "checkpoint_dir": str(self.folder / "kept"), **more}
        agent = Agent(Environment(**env))
        self.addCleanup(agent.close)
        self.addCleanup(agent.notice.uninstall)
        return agent

    def test_reports(self):
        self.daemon.start()
        agent = self.agent()
        agent.training(Limits(8, 64, 1, 16), fixed=0, noise=12.5, point={"gpus": 2, "batch": 16, "lr": 0.1, "efficiency": math.nan})
        agent.measured([Sample(1, 2, 8, 0.5, 0.1, 3)])
        agent.progress(5, 100)
        agent.report(loss=1.0, accuracy=0.5, bad=math.inf, worse="x")
        agent.report(loss=2.0)
        wait_for(lambda: any("loss" in r["point"] for r in self.daemon.reports))
        report = next(r for r in self.daemon.reports if "loss" in r["point"])
        self.assertEqual((report["done"], report["work"]), (5, 100))
        self.assertEqual(report["point"]["loss"], 1.5)
        self.assertEqual(report["point"]["metrics"], {"accuracy": 0.5})
        self.assertEqual((report["point"]["gpus"], report["point"]["batch"]), (2, 16))
        self.assertNotIn("efficiency", report["point"])
        samples = [s for r in self.daemon.reports for s in r.get("training", {}).get("samples", [])]
        self.assertEqual(samples, [{"nodes": 1, "gpus": 2, "local": 8, "step": 0.5, "sync": 0.1, "count": 3}])
        self.assertEqual(report["training"]["noise"], 12.5)
        self.assertEqual(self.daemon.problems, [])

    def test_every_value_is_sent(self):
        """Sixty losses are sixty points, however few reports there are, and also if the script
        just ends."""
        self.daemon.start()
        for end in ("complete", "close"):
            with self.subTest(end):
                self.daemon.reports.clear()
                agent = self.agent(report_seconds=30)
                for i in range(60):
                    agent.progress(i + 1, 60)
                    agent.report(loss=1 / (i + 1), accuracy=i)
                agent.report(val=0.5, step=7)
                getattr(agent, end)()
                sent = collections.defaultdict(list)
                for report in self.daemon.reports:
                    for series in report.get("series", []):
                        sent[series["name"]] += zip(series["steps"], series["values"])
                self.assertEqual(sent["loss"], [(i + 1, 1 / (i + 1)) for i in range(60)])
                self.assertEqual(sent["accuracy"], [(i + 1, i) for i in range(60)])
                self.assertEqual(sent["val"], [(7, 0.5)])
        self.assertEqual(self.daemon.problems, [])

    def test_links(self):
        """The runs of other tools are found if the script has opened them."""
        self.daemon.start()
        run = types.SimpleNamespace(info=types.SimpleNamespace(experiment_id="3", run_id="abc"))
        tools = {
            "wandb": types.SimpleNamespace(run=types.SimpleNamespace(url="https://wandb.ai/lab/x/runs/1")),
            "mlflow": types.SimpleNamespace(active_run=lambda: run, get_tracking_uri=lambda: "http://mlflow:5000/"),
        }
        with unittest.mock.patch.dict(sys.modules, tools):
            agent = self.agent(report_seconds=30)
            agent.complete()
        want = [{"name": "W&B", "url": "https://wandb.ai/lab/x/runs/1"}, {"name": "MLflow", "url": "http://mlflow:5000/#/experiments/3/runs/abc"}]
        self.assertEqual(self.daemon.reports[-1]["links"], want)
        broken = types.SimpleNamespace(active_run=lambda: 1 / 0)
        with unittest.mock.patch.dict(sys.modules, {"wandb": types.SimpleNamespace(run=None), "mlflow": broken}):
            self.assertEqual(links.found(), [])

    def test_old_daemon(self):
        """A daemon that knows no series gets the rest of the report."""
        self.daemon.refuses = "series"
        self.daemon.start()
        agent = self.agent(report_seconds=30)
        agent.progress(1, 2)
        agent.report(loss=2.0)
        agent.saved()
        agent.report(loss=1.0)
        agent.complete()
        self.assertEqual([r["point"].get("loss") for r in self.daemon.reports if "loss" in r["point"]], [2.0, 1.0])
        self.assertEqual(len(self.daemon.problems), 1, "after the first refusal it knows")

    def test_rate(self):
        self.daemon.start()
        agent = self.agent(report_seconds=0.3)
        started = time.monotonic()
        for i in range(100):
            agent.progress(10 * i, 5000)
            time.sleep(0.01)
        wait_for(lambda: any(r.get("done") == 990 for r in self.daemon.reports))
        whole = 990 / (time.monotonic() - started)
        rates = [r["rate"] for r in self.daemon.reports if "rate" in r]
        # The machine may stop now and then, but some part was as fast as the whole, and
        # half of that is in the mean; no step is faster than its pause.
        self.assertTrue(whole / 2 < max(rates) < 1100, (whole, rates))

    def test_checkpoint_is_told_at_once(self):
        self.daemon.start()
        agent = self.agent(report_seconds=1000)
        agent.progress(3, 10)
        path = agent.save(b"state")
        self.assertEqual(path.read_bytes(), b"state")
        wait_for(lambda: any(r.get("checkpoint") for r in self.daemon.reports))
        self.assertEqual([r["done"] for r in self.daemon.reports if r.get("checkpoint")], [3])

    def test_checkpoint_behind_is_told_when_it_is_safe(self):
        self.daemon.start()
        agent = self.agent(report_seconds=1000)
        written = threading.Event()
        agent.progress(3, 10)

        def content(file):
            written.wait(60)
            file.write(b"three")

        agent.save_behind(lambda: content)
        agent.progress(5, 10)
        self.assertFalse(agent.settle(0.05))
        self.assertFalse([r for r in self.daemon.reports if r.get("checkpoint")])
        written.set()
        self.assertTrue(agent.settle(60))
        wait_for(lambda: any(r.get("checkpoint") for r in self.daemon.reports))
        self.assertEqual([(r["done"], r["saved"]) for r in self.daemon.reports if r.get("checkpoint")], [(5, 3)])
        self.assertEqual(agent.store.load(), b"three")

    def test_checkpoint_behind_that_fails(self):
        self.daemon.start()
        (self.folder / "kept").write_text("a file where a folder should be")
        agent = self.agent(report_seconds=1000)
        for make in (lambda: b"state", lambda: 1 / 0):
            with self.assertLogs("fairway", "ERROR"):
                agent.save_behind(make)
                agent.settle()
            self.assertTrue(agent.save_error)
            with self.assertRaises(SystemExit) as left:
                agent.leave()
            self.assertEqual(left.exception.code, 1)
        self.assertFalse([r for r in self.daemon.reports if r.get("checkpoint")])

    def test_disk_that_takes_nothing(self):
        self.daemon.start()
        (self.folder / "kept").write_text("a file where a folder should be")
        agent = self.agent(report_seconds=1000)
        with self.assertLogs("fairway", "ERROR"):
            self.assertIsNone(agent.save(b"state"))
        agent.complete()
        self.assertFalse([r for r in self.daemon.reports if r.get("checkpoint")])

    def test_answer(self):
        params = {"alpha_grad": 0.1, "beta_grad": 0.01, "alpha_local": 0.1, "beta_local": 0, "alpha_node": 0, "beta_node": 0, "gamma": 2}
        self.daemon.answer = {"params": params, "noise": 33}
        self.daemon.start()
        agent = self.agent()
        wait_for(lambda: agent.params is not None)
        self.assertEqual((agent.params.gamma, agent.prior_noise), (2, 33))
        self.assertFalse(agent.should_stop())
        self.daemon.answer = {"stop": True, "params": "nonsense", "noise": "x"}
        wait_for(agent.should_stop)
        self.assertEqual(agent.params.gamma, 2)

    def test_end(self):
        self.daemon.start()
        agent = self.agent(report_seconds=1000)
        agent.progress(10, 10)
        agent.complete()
        agent.complete()
        self.assertEqual([r.get("complete") for r in self.daemon.reports], [True])
        with self.assertRaises(SystemExit) as left:
            agent.leave()
        self.assertEqual(left.exception.code, YIELD)

    def test_end_without_a_daemon_takes_seconds_at_most(self):
        agent = self.agent(notice=1.0)
        agent.progress(1, 1)
        agent.notice.give()
        started = time.monotonic()
        agent.complete()
        self.assertLess(time.monotonic() - started, 20)

    def test_only_rank_0_reports(self):
        self.daemon.start()
        agent = self.agent(rank=1, world=2)
        agent.progress(1, 1)
        agent.report(loss=1.0)
        agent.complete()
        self.assertEqual(self.daemon.calls, 0)

    def test_not_under_fairway(self):
        agent = Agent(Environment())
        agent.progress(1, 2)
        agent.report(loss=object())
        self.assertIsNone(agent.save(b"x"))
        self.assertFalse(agent.should_stop())
        agent.complete()

    def test_no_torch_where_it_is_not_needed(self):
        code = "import sys, fairway, fairway.hf, fairway.gang, fairway.loop; print('torch' in sys.modules)"
        out = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(SRC)}, capture_output=True, text=True, check=True)
        self.assertEqual(out.stdout.strip(), "False")


class EnvironmentTests(unittest.TestCase):
    def test_all(self):
        env = read({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "FAIRWAY_NODES": "2", "MASTER_ADDR": "h", "MASTER_PORT": "1",
                    "FAIRWAY_BATCH_SCALE": "0.5", "FAIRWAY_SCREENING": "1",
                    "FAIRWAY_JOB": "j", "FAIRWAY_ATTEMPT": "2", "FAIRWAY_NOTICE": "12.5", "FAIRWAY_ADAPT": "1", "FAIRWAY_BATCH_MAX": "64"})
        self.assertEqual((env.rank, env.world, env.local_rank, env.nodes, env.attempt), (3, 4, 1, 2, 2))
        self.assertEqual((env.batch_scale, env.screening), (0.5, True))
        self.assertEqual((env.notice, env.adapt, env.batch_max, env.managed, env.report_seconds), (12.5, True, 64, True, 30))

    def test_nothing(self):
        self.assertEqual(read({}), Environment())

    def test_roles(self):
        roles = {"FAIRWAY_ROLES": "trainer=1,rollout=3", "FAIRWAY_MEET": "h:1", "FAIRWAY_JOB": "j", "FAIRWAY_API": "unix:///nowhere"}
        with tempfile.TemporaryDirectory() as folder:
            for role, leads, name in (("trainer", True, "fairway"), ("rollout", False, "fairway-rollout")):
                agent = Agent(read(dict(roles, FAIRWAY_ROLE=role, FAIRWAY_CHECKPOINT_DIR=folder)))
                self.assertEqual((agent.env.role, agent.env.leads, agent.env.meet), (role, leads, "h:1"))
                self.assertEqual(agent._client is not None, leads)
                self.assertEqual(agent.save(b"x").parent, Path(folder) / name)
                agent.notice.uninstall()
                agent.close()

    def test_nonsense_is_left_out(self):
        env = read({"RANK": "x", "WORLD_SIZE": "-3", "FAIRWAY_NOTICE": "nan", "FAIRWAY_REPORT_SECONDS": "0", "FAIRWAY_BATCH_MAX": "1e3",
                    "FAIRWAY_BATCH_SCALE": "2"})
        self.assertEqual((env.rank, env.world, env.notice, env.report_seconds, env.batch_max), (0, 1, 30, 30, 0))
        self.assertEqual((env.batch_scale, len(env.problems)), (1.0, 6))

    def test_nodes_under_torchrun(self):
        self.assertEqual(read({"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "RANK": "7"}).nodes, 2)


if __name__ == "__main__":
    unittest.main()
