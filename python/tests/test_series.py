# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

import math
import unittest

from fairway.series import Metrics, Series


class Lazy:
    """A number that is read late, as a tensor is."""

    def __init__(self, value, read):
        self.value, self.read = value, read

    def detach(self):
        return self

    def float(self):
        return self

    def __add__(self, other):
        return Lazy(self.value + other.value, self.read)

    def __float__(self):
        self.read.append(self.value)
        return self.value


class SeriesTests(unittest.TestCase):
    def test_few_are_exact(self):
        s = Series()
        for i in range(64):
            s.add(i, 1000 + i, i / 3)
        self.assertEqual(s.drain("x", 100), {
            "name": "x", "steps": list(range(64)), "at": [1000 + i for i in range(64)], "values": [i / 3 for i in range(64)]})
        self.assertIsNone(s.drain("x", 100))

    def test_many_are_means(self):
        s = Series()
        for i in range(10_000):
            s.add(i, i, i % 10)
        out = s.drain("x", 100)
        self.assertTrue(32 <= len(out["values"]) <= 64, len(out["values"]))
        self.assertEqual(sum(out["counts"]), 10_000)
        self.assertAlmostEqual(sum(v * n for v, n in zip(out["values"], out["counts"])), 45_000)
        self.assertEqual((set(out["mins"]), set(out["maxs"])), ({0}, {9}))
        self.assertEqual(out["steps"][-1], 9999)

    def test_a_long_training_sends_less_and_less(self):
        s, sent = Series(), []
        for report in range(1000):
            for i in range(50):
                s.add(50 * report + i, report, 1.0)
            sent.append(len(s.drain("x", 100)["values"]))
        self.assertEqual(sent[0], 50)
        self.assertEqual(sent[-1], 1)
        self.assertLess(sum(sent), 6000)

    def test_tensors_are_read_late(self):
        read: list = []
        s = Series()
        for i in range(1000):
            s.add(i, i, Lazy(float(i), read))
        self.assertEqual(read, [])
        out = s.drain("x", 100)
        self.assertEqual(len(read), len(out["values"]))
        self.assertAlmostEqual(sum(v * n for v, n in zip(out["values"], out["counts"])), 499_500)

    def test_what_is_no_number_is_left_out(self):
        m = Metrics()
        for value in (math.nan, math.inf, "text", [1], None):
            m.add("x", 1, 1, value)
        m.add("", 1, 1, 1.0)
        m.add("n" * 101, 1, 1, 1.0)
        self.assertEqual(m.drain(), [])

    def test_many_metrics_share_a_report(self):
        m = Metrics()
        for name in range(100):
            for i in range(1000):
                m.add(f"m{name}", i, i, i)
        out = m.drain()
        self.assertEqual(len(out), 64)
        self.assertLessEqual(sum(len(s["values"]) for s in out), 1024)


if __name__ == "__main__":
    unittest.main()
