# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""Which models are paired, and for how long a pair is measured.

Pairs that leave the GPU room matter most, for a scheduler has to tell those that may share
safely from those that may not; drawn blindly, most pairs would be of two models that each
fill the GPU.
"""

import itertools
import math

# (from, below, share): of a group's models by their utilisation alone, in percent.
UTIL_PARTS = ((0, 35, 0.40), (35, 70, 0.25), (70, math.inf, 0.35))
# The same of the pairs, by the sum of both utilisations.
SUM_PARTS = ((0, 60, 0.2), (60, 100, 0.2), (100, 150, 0.3), (150, math.inf, 0.3))

STEPS_WANTED = 12  # of the slower model, within a pair's window
SLOWDOWN_AT_FULL = 2.2  # observed when each model alone fills the GPU


class Config:
    """A solo row that may be paired."""

    def __init__(self, row):
        self.model, self.batch = row["model"], int(row["batch"])
        self.util, self.mem_mib = float(row["util_mean"] or "nan"), float(row["mem_device_mib"] or "nan")
        self.ms = float(row["step_ms_mean"])
        self.key = (self.model, str(self.batch))


def usable(solo_rows, most_ms):
    """Solo rows with a utilisation and a step short enough for a window to hold many."""
    configs = [Config(r) for r in solo_rows if r["status"] == "ok"]
    return [c for c in configs if not math.isnan(c.util + c.mem_mib) and c.ms < most_ms]


def quotas(parts, total):
    """Splits a count by the parts' shares; the remainder of rounding goes to the last."""
    counts = [int(share * total) for _, _, share in parts]
    counts[-1] += total - sum(counts)
    return counts


def choose_group(configs, used, size, room_mib, rng):
    """Configurations of different models that fit together, the least used first."""
    order = sorted(configs, key=lambda c: c.key)
    rng.shuffle(order)
    order.sort(key=lambda c: used.get(c.key, 0))
    group, room = [], room_mib

    def take(pool, count):
        nonlocal room
        for config in pool:
            if count > 0 and config.mem_mib <= room and all(config.model != g.model for g in group):
                group.append(config)
                room -= config.mem_mib
                count -= 1

    for (low, high, _), count in zip(UTIL_PARTS, quotas(UTIL_PARTS, size)):
        take([c for c in order if low <= c.util < high], count)
    take(order, size - len(group))  # the others fill the places of a part that has too few
    return group


def choose_pairs(group, done, count, rng):
    """At most count pairs of a group that are not done yet, spread over the sum of utilisations."""
    pool = [(a, b) for a, b in itertools.combinations(sorted(group, key=lambda c: c.key), 2)
            if (*a.key, *b.key) not in done]
    rng.shuffle(pool)
    chosen = []
    for (low, high, _), quota in zip(SUM_PARTS, quotas(SUM_PARTS, count)):
        chosen += [(a, b) for a, b in pool if low <= a.util + b.util < high][:quota]
    rest = [pair for pair in pool if pair not in chosen]
    chosen += rest[:max(0, count - len(chosen))]
    rng.shuffle(chosen)
    return chosen


def groups_again(configs, rows, below, size):
    """Pairs that leave room on the GPU, to be measured once more, in groups of about so many models.

    Those are the pairs whose safety is in question, and the errors of measuring are largest
    there. Utilisation is scaled by the step alone, as rows and configurations may be of
    different hosts. Pairs that share a model stay together.
    """
    known = {c.key: c for c in configs}
    links = []
    for row in rows:
        pair = [known.get((row[f"model_{side}"], row[f"batch_{side}"])) for side in "ab"]
        if row["status"] != "ok" or None in pair:
            continue
        steps = [float(row[f"solo_ms_{side}"]) for side in "ab"]
        if sum(min(100, c.util * c.ms / ms) for c, ms in zip(pair, steps)) < below:
            links.append(tuple(pair))
    clusters = []  # of keys that are linked
    for a, b in links:
        joined = {a.key, b.key}.union(*(c for c in clusters if a.key in c or b.key in c))
        clusters = [c for c in clusters if not c & joined] + [joined]
    packed = []
    for cluster in clusters:
        if packed and len(packed[-1]) + len(cluster) <= size:
            packed[-1] |= cluster
        else:
            packed.append(cluster)
    return [([known[key] for key in sorted(group)], [pair for pair in links if pair[0].key in group]) for group in packed]


def window_seconds(a, b, least, most):
    """Long enough for the slower model to take STEPS_WANTED steps at the expected slowdown."""
    full = min(a.util + b.util, 200) / 200
    expected = 1 + (SLOWDOWN_AT_FULL - 1) * full
    return min(most, max(least, STEPS_WANTED * expected * max(a.ms, b.ms) / 1000))
