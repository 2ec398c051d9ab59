# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The noise estimator and the learning-rate rules beyond the shared vectors."""

import math
import random
import sys
import unittest

from fairway.noise import Estimator, Noise
from fairway.rules import SCALINGS


def square(g):
    return sum(x * x for x in g)


def middle(*gradients):
    return [sum(column) / len(gradients) for column in zip(*gradients)]


class NoiseEstimator(unittest.TestCase):
    def test_many_samples_give_the_truth(self):
        width, initial, variance = 20, 4, 4  # numbers in a gradient, examples, variance of one number
        draw = random.Random(3)

        def gradient(examples):  # of squared length 5, plus noise
            return [0.5 + draw.gauss(0, math.sqrt(variance / examples)) for _ in range(width)]

        for name, examples, count in (("two replicas", 2, 2), ("sixteen", 1, 16), ("larger batch", 8, 8), ("one GPU", 4, 1)):
            estimator, before = Estimator(), gradient(examples)
            for _ in range(3000):
                scale = examples * count / initial
                batch = [gradient(examples) for _ in range(count)]
                if count == 1:
                    estimator.add_pair(square(before), square(batch[0]), square(middle(before, batch[0])), scale)
                    before = batch[0]
                else:
                    estimator.add(sum(map(square, batch)) / count, square(middle(*batch)), count, scale)
            noise = estimator.noise()
            self.assertEqual(estimator.biased, count == 1, name)
            self.assertAlmostEqual(noise.sqr / 5, 1, delta=0.1, msg=name)
            self.assertAlmostEqual(noise.var / 20, 1, delta=0.1, msg=name)  # 20 numbers * 4 / 4 examples
            self.assertAlmostEqual(noise.scale(initial) / 16, 1, delta=0.15, msg=name)

    def test_unusable_batches_change_nothing(self):
        estimator = Estimator()
        self.assertIsNone(estimator.noise())
        estimator.add_pair(4, 4, 3, 1)
        before = estimator.state_dict()
        inf, nan, most = math.inf, math.nan, sys.float_info.max
        for bad in ((nan, 2, 2, 1), (3, inf, 2, 1), (-1, 2, 2, 1), (3, 2, 1, 1), (3, 2, 2, 0), (3, 2, 2, inf), (3, most, 1000, 1)):
            self.assertFalse(estimator.add(*bad), bad)
        for bad in ((nan, 1, 1, 1), (1, 1, inf, 1)):
            self.assertFalse(estimator.add_pair(*bad), bad)
        self.assertEqual(estimator.state_dict(), before)
        self.assertTrue(estimator.add(9, 6, 2, 1))  # forgets the pair
        self.assertAlmostEqual(estimator.noise().sqr, 3)
        self.assertAlmostEqual(estimator.noise().var, 3)

    def test_scale(self):
        most = sys.float_info.max
        for noise, want in ((Noise(2, 6), 300), (Noise(0, 1), most), (Noise(0, 0), 0), (Noise(1, 0), 0), (Noise(1e-300, 1e300), most)):
            self.assertEqual(noise.scale(100), want, noise)


class Rules(unittest.TestCase):
    def test_limits(self):
        most = sys.float_info.max
        for rule, noise, want in (
            ("adascale", Noise(1, 0), 1), ("adascale", Noise(0, 1), 4), ("adascale", Noise(1, 1), 1.6),
            ("adascale", Noise(0, 0), 1), ("adascale", Noise(most, most), 1.6), ("sqrt", Noise(1, 1), 2), ("linear", Noise(1, 1), 4),
        ):
            self.assertAlmostEqual(SCALINGS[rule](4, noise), want, msg=(rule, noise))


if __name__ == "__main__":
    unittest.main()
