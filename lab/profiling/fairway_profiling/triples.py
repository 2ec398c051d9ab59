# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""Measures three models at a time on one GPU, and in the same session the pairs of which they consist.

A row is a set of two or three models. The time alone of a model is the mean over the
session: each is timed alone before the first set, in the middle and after the last.
"""

import itertools
import math
import random
import statistics
import time

from . import VERSION, plan
from .pairs import MEMORY_SHARE, PAIR_SECONDS, RUN_REPLY_SECONDS, START_IN, Group, mode_of
from .worker import Failed

SIDES = "abc"
COLUMNS = ("mode", "status", *(f"{name}_{side}" for side in SIDES for name in ("model", "batch", "solo_ms", "solo_util", "ms", "slowdown", "steps")),
           "window_s", "note", "session", "harness")


def sets_of(group, count, rng):
    """Pairs and triples in the order to measure: each triple comes after the pairs it contains."""
    triples = list(itertools.combinations(sorted(group, key=lambda c: c.key), 3))
    rng.shuffle(triples)
    order = []
    for triple in triples[:count]:
        order += [pair for pair in itertools.combinations(triple, 2) if pair not in order]
        order.append(triple)
    return order


class Triples:
    def __init__(self, options, table, session):
        self.options, self.table, self.session = options, table, session
        self.deadline = time.monotonic() + options.seconds if options.seconds else math.inf
        self.solos = {}  # by key: times alone, ms
        self.found = []

    def run(self, processes, solo_rows, total_mib):
        """Measures one group; returns the sets added."""
        rng = random.Random(f"{self.options.seed}/triples")
        configs = plan.usable(solo_rows, self.options.most_ms)
        chosen = plan.choose_group(configs, {}, self.options.group, total_mib * MEMORY_SHARE, rng)
        order = sets_of(chosen, self.options.count, rng)
        group = Group(processes, chosen, order, {})
        try:
            group.wait_built()
            group.open(self.options.device)
            group.warm(self.options.warm)
            self.alone(group)
            for i, some in enumerate(order):
                if i == len(order) // 2:
                    self.alone(group)
                if time.monotonic() + self.cost(some) + self.alone_seconds(group) > self.deadline:
                    break
                if all(c.key in group.alive for c in some):
                    self.together(some, group)
            self.alone(group)
        finally:
            group.close()
        for some, window, results in self.found:
            self.table.add(self.row(some, window, results))
        return len(self.found)

    def alone_seconds(self, group):
        return len(group.configs) * (self.options.solo_settle + self.options.solo_now + PAIR_SECONDS)

    def cost(self, some):
        return self.options.settle + self.window(some) + PAIR_SECONDS

    def window(self, some):
        longest = max(c.ms for c in some) * len(some) / 1000  # of a step, if each gets an equal part
        return min(self.options.pair_window_most, max(self.options.pair_window, plan.STEPS_WANTED * longest))

    def alone(self, group):
        for config in group.configs:
            def act(c):
                result = group.workers[c.key].call("run", self.options.solo_now, self.options.solo_settle)
                self.solos.setdefault(c.key, []).append(result["step_ms_mean"])
            group.attempt(act, config)

    def together(self, some, group):
        window = self.window(some)
        start_at = time.monotonic() + START_IN
        workers = [group.workers[c.key] for c in some]
        try:
            for worker in workers:
                worker.send("run", window, self.options.settle, start_at)
            results = [worker.reply(RUN_REPLY_SECONDS) for worker in workers]
        except Failed as failure:
            print(f"{' + '.join(c.model for c in some)}: {failure}", flush=True)
            group.alive -= {c.key for c in some}  # a worker that failed once is out of sync
            return
        self.found.append((some, window, results))
        print(" + ".join(f"{c.model}/{c.batch} ({c.util:.0f} %) {r['step_ms_mean']:.4g} ms" for c, r in zip(some, results)), flush=True)

    def row(self, some, window, results):
        row = {"mode": mode_of(False), "status": "ok", "window_s": window, "session": self.session, "harness": VERSION}
        for side, config, result in zip(SIDES, some, results):
            solo = statistics.fmean(self.solos[config.key])
            row.update({f"model_{side}": config.model, f"batch_{side}": config.batch, f"solo_ms_{side}": solo,
                        f"solo_util_{side}": config.util, f"ms_{side}": result["step_ms_mean"], f"steps_{side}": result["steps"],
                        f"slowdown_{side}": result["step_ms_mean"] / solo})
        return row
