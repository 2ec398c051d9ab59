# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The rules of adaptation on a problem whose answer is known: a quadratic with
noise. Its loss is h/2 |w|^2, and the gradient of one example is h w plus noise of
variance s^2 in each of d directions."""

import random
import unittest

from fairway.goodput import Limits
from fairway.loop import Pair, Several
from fairway.noise import Noise
from fairway.rules import RULES, SCALINGS, CABS, AdaBatch, KungFu, Seen, adascale, make
from tests.test_loop import make_loop

LIMITS = Limits(16, 1024, 1, 1024)


def square(g):
    return sum(x * x for x in g)


def middle(gradients):
    return [sum(column) / len(gradients) for column in zip(*gradients)]


class Quadratic:
    def __init__(self, start, h=1.0, s=1.0, d=40):
        self.h, self.s, self.draw = h, s, random.Random(7)
        self.w = [start / d**0.5] * d  # of length start

    @property
    def loss(self):
        return self.h / 2 * square(self.w)

    @property
    def variance(self):
        """Of the gradient of one example, in all directions together."""
        return len(self.w) * self.s**2

    @property
    def noise(self):
        """The noise scale in examples."""
        return self.variance / (self.h**2 * square(self.w))

    def gradient(self, examples):
        return [self.h * x + self.draw.gauss(0, self.s / examples**0.5) for x in self.w]

    def descend(self, loop, lr, steps):
        """Trains on it, as an agent's script would."""
        taken, before = [], None
        loop.drain_lengths = lambda: [taken.pop() for _ in range(len(taken))]
        loop.lr = lr
        for _ in range(steps):
            config = loop.config
            parts = [self.gradient(config.local) for _ in range(config.accum + 1)]
            total = middle(parts)
            if len(parts) > 1:
                taken.append(Several(sum(map(square, parts)) / len(parts), square(total), len(parts), loop.scale))
                before = None
            else:
                if before:
                    taken.append(Pair(square(before), square(total), square(middle([before, total])), loop.scale))
                before = total
            rate = lr * loop.lr_factor
            self.w = [x - rate * g for x, g in zip(self.w, total)]
            loop.saw(self.loss)
            loop.step_done()
            if loop.config != config:
                before = None


class KnownAnswers(unittest.TestCase):
    def test_cabs_gains_most_for_each_example(self):
        """With a learning rate of 1/h, a step with a batch of m lowers the loss F to
        lr * variance / 2m on average; the batch with the largest gain over m is found
        by trying all."""
        for start, h, s in ((3.0, 1.0, 1.0), (1.0, 0.5, 2.0), (10.0, 4.0, 3.0)):
            q = Quadratic(start, h, s)
            lr = 1 / h
            best = max(range(1, 5000), key=lambda m: (q.loss - lr * q.variance / (2 * m)) / m)
            seen = Seen(LIMITS, 16, 0, lr, q.loss, Noise(h**2 * square(q.w), q.variance / LIMITS.initial))
            self.assertAlmostEqual(CABS().batch(seen), best, delta=0.6)
        raised = Seen(LIMITS, 16, 0, lr, q.loss + 5, seen.noise)
        self.assertAlmostEqual(CABS(least=5).batch(raised), CABS().batch(seen))
        self.assertEqual(CABS(least=q.loss + 1).batch(seen), float("inf"), "nothing is left to gain")
        for unknown in (Seen(LIMITS, 48, 0, lr, None, seen.noise), Seen(LIMITS, 48, 0, lr, 1.0, None)):
            self.assertEqual(CABS().batch(unknown), 48)

    def test_cabs_in_a_training(self):
        """The batch that the loop has chosen by what it measured is that of the rule
        by the truth."""
        q, loop = Quadratic(6.0, s=3.0), make_loop(rule="cabs")
        q.descend(loop, 0.02, 150)
        want = 0.02 * q.variance / q.loss
        self.assertGreater(want, 24, "the case is too easy")
        self.assertLess(want, 200, "the case is at its limits")
        self.assertAlmostEqual(loop.batch / want, 1, delta=0.3)
        self.assertEqual(loop.lr_factor, 1)
        self.assertEqual(loop.done, loop.position, "every example counts the same")

    def test_adabatch_does_what_a_decaying_rate_does(self):
        """E|w|^2 after a step is (1 - lr h)^2 |w|^2 + lr^2 variance / m. Doubling the
        batch with 0.75 times the rate ends where 0.375 times the rate does at a
        constant batch, in fewer steps."""

        def end(rule):
            size, q, steps, taken = 4000, Quadratic(5.0), 0, 0.0
            v = square(q.w)
            while taken < 6 * size:
                epoch = taken / size
                seen = Seen(LIMITS, LIMITS.initial, epoch, 0.2)
                batch, lr = LIMITS.initial, 0.2 * 0.375 ** int(epoch / 2)
                if rule:
                    batch = int(rule.batch(seen))
                    lr = 0.2 * rule.lr_factor(Seen(LIMITS, batch, epoch, 0.2))
                v = (1 - lr * q.h) ** 2 * v + lr**2 * q.variance / batch
                taken += batch
                steps += 1
            return q.h / 2 * v, steps

        decayed, many = end(None)
        grown, few = end(AdaBatch(every=2))
        constant, _ = end(AdaBatch(every=2, decay=2))
        self.assertAlmostEqual(grown / decayed, 1, delta=0.05)
        self.assertGreater(constant / decayed, 1.5, "the schedule makes no difference here")
        self.assertLess(few, 0.6 * many)

    def test_adabatch_in_a_training(self):
        """At its epochs, over 1000 examples each; beyond the largest batch the rate
        falls instead."""
        loop, seen = make_loop(rule="adabatch:at=1,2,4,5,6:decay=0.5"), {}
        while loop.position < 7000:
            seen[int(loop.position / 1000)] = (loop.batch, loop.lr_factor)
            loop.step_done()
        want = {0: (16, 1.0), 1: (32, 0.5), 2: (64, 0.25), 3: (64, 0.25), 4: (128, 0.125), 5: (256, 0.0625), 6: (256, 0.0625 / 4)}
        self.assertEqual(seen, want)
        self.assertFalse(loop.measures_noise, "it needs nothing measured")

    def test_kungfu_follows_the_noise_scale(self):
        q = Quadratic(2.0, s=1.5, d=360)  # of which hardly anything is descended here
        self.assertAlmostEqual(q.noise, 202.5)
        for rule, least, most in (
            ("kungfu", 256, 256),  # the first power of two above it
            ("kungfu:threshold=4", 64, 64),
            ("kungfu:factor=4", 256, 256),
            (KungFu(policy=lambda seen: seen.noise.scale(seen.limits.initial) / 2), 80, 125),
        ):
            loop = make_loop(rule=rule, batch_max=1024)
            q.descend(loop, 1e-6, 100)
            self.assertTrue(least <= loop.batch <= most, (rule, loop.batch))
            want = adascale(loop.scale, Noise(1.0, q.noise / 16))
            self.assertAlmostEqual(loop.lr_factor / want, 1, delta=0.1, msg=rule)

    def test_scalings_take_the_same_way(self):
        """What each says of a batch eight times as large, where gradient and noise of
        the initial batch are equal."""
        noise = Noise(1.0, 1.0)
        for name, want in (("adascale", 2 / (1 / 8 + 1)), ("sqrt", 8**0.5), ("linear", 8.0)):
            self.assertAlmostEqual(make(name).lr_factor(Seen(LIMITS, 128, 0, 1.0, noise=noise)), want)
            self.assertAlmostEqual(SCALINGS[name](8.0, noise), want)


class RulesInTheLoop(unittest.TestCase):
    def test_reported_limits_stay_true(self):
        """The scheduler hears the batch that is used now, on whatever GPUs: it bounds
        how many the job can use."""
        for world in (1, 3):
            loop = make_loop(world=world, rule="adabatch:every=0.5", batch_max=200)
            for _ in range(200):
                loop.step_done()
                told = loop.agent._training
                self.assertLessEqual(loop.batch, 200)
                self.assertEqual(loop.batch % world, 0)
                if told:
                    self.assertEqual((told["fixed"], told["limits"]["initial"], told["limits"]["max"]), (loop.batch, 16, 200))
            self.assertGreater(loop.batch, 190)
        loop = make_loop(rule="adascale")
        loop.step_done()
        self.assertNotIn("fixed", loop.agent._training, "it adapts to the GPUs")

    def test_a_restart_goes_on(self):
        first = make_loop(rule="adabatch:every=1")
        while first.position < 2500:
            first.step_done()
        second = make_loop(world=2, rule="adabatch:every=1")
        second.load_state_dict(first.state_dict())
        self.assertEqual((second.batch, second.lr_factor, second.done), (first.batch, first.lr_factor, first.done))

    def test_nothing_happens_unless_the_job_opted_in(self):
        for rule in RULES:
            loop = make_loop(adapt=False, rule=rule)
            for _ in range(100):
                loop.saw(1.0)
                loop.step_done()
            self.assertEqual((loop.batch, loop.lr_factor, loop.measures_noise), (16, 1.0, False), rule)

    def test_nonsense_keeps_the_batch(self):
        nan = float("nan")
        loop = make_loop(rule=KungFu(policy=lambda seen: nan))
        loop.drain_lengths = lambda: [Several(101.0, 51.0, 2, loop.scale)]
        for _ in range(50):
            loop.step_done()
        self.assertEqual(loop.batch, 16)
        loop = make_loop(rule="cabs")
        loop.drain_lengths = lambda: [Several(101.0, 51.0, 2, loop.scale)]
        for _ in range(50):
            loop.saw(nan)
            loop.step_done()
        self.assertEqual(loop.batch, 16)

    def test_converged_is_told(self):
        loop = make_loop(converged=0.01)
        loop.step_done()
        self.assertEqual(loop.agent._training["stop"], {"fall": 0.01, "epochs": 3, "epoch": 62.5})
        loop = make_loop()
        loop.step_done()
        self.assertNotIn("stop", loop.agent._training)


class Making(unittest.TestCase):
    def test_make(self):
        self.assertEqual(make("adabatch:every=5:decay=0.9"), AdaBatch(every=5.0, decay=0.9))
        self.assertEqual(make("adabatch:at=30,60"), AdaBatch(at=(30.0, 60.0)))
        self.assertEqual(make("kungfu:lr=sqrt:threshold=2"), KungFu(threshold=2.0, lr="sqrt"))
        self.assertIsInstance(make("cabs"), CABS)
        rule = KungFu(policy=lambda seen: 7)
        self.assertIs(make(rule), rule)
        for bad, why in (
            ("nonsense", "want one of adabatch"), ("adascale:x=1", "'x' is no setting of adascale; want one of none"),
            ("adabatch:evry=1", "want one of every, at, factor, decay"), ("adabatch:every=often", "every = 'often'"),
            ("adabatch:every=0", "every = 0"), ("adabatch:factor=1", "factor = 1"), ("kungfu:lr=cubic", "lr = 'cubic'"),
            ("kungfu:policy=x", "'policy' is no setting"), ("kungfu:threshold=-1", "threshold = -1"),
        ):
            with self.assertRaisesRegex(ValueError, why):
                make(bad)


if __name__ == "__main__":
    unittest.main()
