# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The mathematics against the vectors shared with the Go package."""

import json
import math
import unittest
from pathlib import Path

from fairway import goodput
from fairway.goodput import Config, Limits, Params, Shape
from fairway.noise import Estimator, Noise
from fairway.profile import Profile, Sample
from fairway.rules import SCALINGS

VECTORS = Path(__file__).resolve().parents[2] / "sched" / "goodput" / "testdata" / "vectors.json"


def square(g):
    return sum(x * x for x in g)


def middle(*gradients):
    return [sum(column) / len(gradients) for column in zip(*gradients)]


class Vectors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.all = json.loads(VECTORS.read_text())

    def agree(self, got, want, about):
        self.assertTrue(abs(got - want) <= 1e-9 * abs(want), f"{about}: {got}, want {want}")

    def test_version(self):
        self.assertEqual((self.all["fairway"], self.all["version"]), ("goodput-vectors", 1))

    def test_times(self):
        for i, v in enumerate(self.all["times"]):
            p, s = Params(**v["params"]), Shape(**v["place"])
            self.agree(p.grad(v["local"]), v["grad"], i)
            self.agree(p.sync(s), v["sync"], i)
            self.agree(p.step(s, v["local"]), v["step"], i)
            self.agree(p.iter(s, v["local"], v["accum"]), v["iter"], i)
            self.agree(p.throughput(s, v["local"], v["accum"]), v["throughput"], i)

    def test_efficiency(self):
        for i, v in enumerate(self.all["efficiency"]):
            self.agree(goodput.efficiency(v["noise"], v["initial"], v["batch"]), v["efficiency"], i)
            self.agree(goodput.gain(v["noise"], v["initial"], v["batch"]), v["gain"], i)

    def test_split(self):
        for i, v in enumerate(self.all["split"]):
            got = Limits(**v["limits"]).split(v["batch"], v["gpus"])
            want = Config(v["local"], v["accum"]) if v["ok"] else None
            self.assertEqual(got, want, i)

    def test_best(self):
        for i, v in enumerate(self.all["best"]):
            got, worth = Limits(**v["limits"]).best(Params(**v["params"]), v["noise"], Shape(**v["place"]))
            self.assertEqual(got, Config(v["local"], v["accum"]), i)
            self.agree(worth, v["goodput"], i)

    def test_growth(self):
        for i, v in enumerate(self.all["growth"]):
            profile = Profile()
            if v["seen"]:
                profile.add(Sample(1, v["seen"], 1, 1.0, 0.0))
            self.assertEqual(profile.most_allowed(Limits(**v["limits"]), v["limit"]), v["most"], i)

    def test_rules(self):
        for i, v in enumerate(self.all["rules"]):
            self.agree(SCALINGS[v["rule"]](v["scale"], Noise(**v["noise"])), v["factor"], i)

    def test_noise(self):
        for v in self.all["noise"]:
            estimator, before = Estimator(), None
            for i, step in enumerate(v["steps"]):
                gradients, bad = step["gradients"], step.get("bad", False)
                if bad:
                    gradients[0][0] = math.nan
                if len(gradients) > 1:
                    local = sum(map(square, gradients)) / len(gradients)
                    used = estimator.add(local, square(middle(*gradients)), len(gradients), step["scale"])
                    self.assertEqual(used, not bad, (v["name"], i))
                    before = None
                elif bad:
                    self.assertFalse(estimator.add_pair(square(gradients[0]), 1, 1, step["scale"]))
                    before = None
                else:
                    now = gradients[0]
                    if before is not None:
                        pair = square(before), square(now), square(middle(before, now))
                        self.assertTrue(estimator.add_pair(*pair, step["scale"]))
                    before = now
                self.check(v, i, estimator, step["want"])

    def check(self, v, i, estimator, want):
        noise = estimator.noise()
        self.assertEqual(noise is not None, want["ok"], (v["name"], i))
        self.assertEqual(estimator.biased, want["biased"], (v["name"], i))
        if noise is not None:
            self.agree(noise.sqr, want["sqr"], (v["name"], i))
            self.agree(noise.var, want["var"], (v["name"], i))
            self.agree(noise.scale(v["initial"]), want["scale"], (v["name"], i))


class Parts(unittest.TestCase):
    def test_estimator_lives_on_in_a_checkpoint(self):
        first, second = Estimator(), Estimator()
        first.add_pair(2.0, 3.0, 1.0, 1.0)
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        for e in (first, second):
            e.add_pair(1.0, 3.0, 1.5, 2.0)
        self.assertEqual(first.noise(), second.noise())
        self.assertTrue(second.biased)

    def test_params_from_an_answer(self):
        good = {"alpha_grad": 0.1, "beta_grad": 0.01, "alpha_local": 0, "beta_local": 0, "alpha_node": 0, "beta_node": 0, "gamma": 1}
        self.assertEqual(Params.from_json(good).alpha_grad, 0.1)
        for bad in (None, [], "x", {}, dict(good, gamma=11), dict(good, alpha_grad=-1), dict(good, beta_node="x"),
                    dict(good, beta_local=math.nan), dict(good, alpha_node=math.inf), dict(good, gamma=None)):
            self.assertIsNone(Params.from_json(bad), bad)

    def test_profile_means(self):
        profile = Profile()
        self.assertTrue(profile.add(Sample(1, 2, 8, 2.0, 0.5, 1)))
        self.assertTrue(profile.add(Sample(1, 2, 8, 4.0, 1.5, 3)))
        self.assertTrue(profile.add(Sample(1, 1, 8, 1.0, 0.0)))
        for bad in (Sample(1, 2, 8, 1.0, 1.0), Sample(0, 2, 8, 1.0, 0.0), Sample(3, 2, 8, 1.0, 0.0), Sample(1, 2, 0, 1.0, 0.0),
                    Sample(1, 2, 8, math.nan, 0.0), Sample(1, 2, 8, 1.0, -1.0), Sample(1, 2, 8, 1.0, 0.0, math.inf)):
            self.assertFalse(profile.add(bad), bad)
        self.assertEqual(profile.drain(), [Sample(1, 1, 8, 1.0, 0.0, 1), Sample(1, 2, 8, 3.5, 1.25, 4)])
        self.assertEqual(profile.samples(), [])

    def test_limits_out_of_range(self):
        for bad in (Limits(0, 1, 1, 1), Limits(4, 2, 1, 1), Limits(1, 1, 0, 1), Limits(1, 1, 2, 1)):
            with self.assertRaises(ValueError):
                bad.check()


if __name__ == "__main__":
    unittest.main()
