# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""Measures two models at a time on one GPU.

Models come in groups. The processes of a group stay on the GPU together, those not in the
present pair asleep, which costs memory but no time: a pair then costs its window and a
moment to settle, not two starts.
"""

import math
import os
import random
import statistics
import subprocess
import tempfile
import time

from . import VERSION, plan
from .worker import Failed, Worker

COLUMNS = ("model_a", "batch_a", "model_b", "batch_b", "mode", "status",
           "solo_ms_a", "solo_ms_b", "ms_a", "ms_b", "ms_median_a", "ms_median_b", "slowdown_a", "slowdown_b",
           "solo_util_a", "solo_util_b", "util_mean", "util_max", "mem_util_mean", "power_w_mean",
           "steps_a", "steps_b", "window_s", "solo_from", "note", "session", "harness")

MEMORY_SHARE = 0.85  # of the GPU memory that a group may use
START_IN = 0.01  # seconds from the command to both processes until they start
PAIR_SECONDS = 0.15  # overhead of a pair besides settling and window; an estimate for planning only
GROUP_SECONDS = 10  # to load a group onto the GPU; likewise
ALONE_STEPS = 8  # minimum in the window of a model alone
RUN_REPLY_SECONDS = 30  # a pair that does not reply within this time is given up


def mode_of(mps):
    """How a pair shares the GPU, as its row records it."""
    return "mps" if mps else "time-slice"


class SharedServer:
    """NVIDIA's multi-process service (MPS), for the time of a campaign."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="mps-")
        self.environment = {"CUDA_MPS_PIPE_DIRECTORY": self.folder, "CUDA_MPS_LOG_DIRECTORY": self.folder}

    def _control(self, *arguments, text=None):
        return subprocess.run(["nvidia-cuda-mps-control", *arguments], input=text, text=True, capture_output=True,
                              timeout=20, env={**os.environ, **self.environment}, check=True)

    def __enter__(self):
        self._control("-d")
        return self.environment

    def __exit__(self, *failure):
        self._control(text="quit\n")


class Group:
    """Models that are on the GPU together, and the pairs of them to measure."""

    def __init__(self, processes, configs, pairs, environment):
        needed = {c.key for pair in pairs for c in pair}
        self.pairs = pairs
        self.configs = [c for c in configs if c.key in needed]
        self.workers = {c.key: Worker(processes, c.model, environment) for c in self.configs}
        self.alive = {c.key for c in self.configs}

    def attempt(self, act, config):
        if config.key not in self.alive:
            return
        try:
            act(config)
        except Failed as failure:
            print(f"{config.model} batch {config.batch}: {failure}", flush=True)
            self.alive.discard(config.key)

    def wait_built(self):
        for config in self.configs:
            self.attempt(lambda c: self.workers[c.key].ready(), config)

    def open(self, device):
        """Loads all models onto the GPU at the same time; nothing is measured meanwhile."""
        for stage in (lambda c: ("begin", device), lambda c: ("prepare", c.batch)):
            for act in (lambda c: self.workers[c.key].send(*stage(c)), lambda c: self.workers[c.key].reply()):
                for config in self.configs:
                    self.attempt(act, config)

    def warm(self, seconds):
        for config in self.configs:
            self.attempt(lambda c: self.workers[c.key].call("run", seconds), config)

    def close(self):
        for worker in self.workers.values():
            worker.leave()
        for worker in self.workers.values():
            worker.close()


class Pairs:
    def __init__(self, options, table, sampler, session):
        self.options, self.table, self.sampler, self.session = options, table, sampler, session
        self.mode = mode_of(options.mps)
        self.deadline = time.monotonic() + options.seconds if options.seconds else math.inf
        self.added = 0
        self.planned = {(r["model_a"], r["batch_a"], r["model_b"], r["batch_b"])
                        for r in table.rows if r["mode"] == self.mode}
        self.used = {}
        for a, x, b, y in self.planned:
            self.count_use((a, x), (b, y))

    def count_use(self, *keys):
        for key in keys:
            self.used[key] = self.used.get(key, 0) + 1

    def missing(self):
        return self.options.count - self.added if self.options.count else math.inf

    def alone_seconds(self):
        """The minimum time to measure both models of a pair alone."""
        return 2 * (self.options.solo_settle + self.options.solo_now) if self.options.solo_now else 0

    def enough(self):
        cost = self.options.settle + self.options.pair_window_least + self.alone_seconds() + PAIR_SECONDS
        return time.monotonic() + cost > self.deadline or self.missing() <= 0

    def run(self, processes, solo_rows, environment, total_mib):
        """Measures groups until the time is up or the count reached; returns the pairs added."""
        configs = plan.usable(solo_rows, self.options.most_ms)
        if len({c.model for c in configs}) < 2:
            raise SystemExit(f"{len(configs)} usable solo rows: want at least two models")
        rng = random.Random(f"{self.options.seed}/{self.mode}/{len(self.table.rows)}")
        of_mode = [r for r in self.table.rows if r["mode"] == self.mode]
        again = plan.groups_again(configs, of_mode, self.options.again, self.options.group)

        def build(missing):
            """Starts the processes of a group, which build their models on the CPU; None if no group is needed."""
            if missing <= 0:
                return None
            if self.options.again:
                return Group(processes, *again.pop(0), environment) if again else None
            chosen = plan.choose_group(configs, self.used, self.options.group, total_mib * MEMORY_SHARE, rng)
            count = min(missing, self.options.per_group or math.comb(len(chosen), 2))
            pairs = plan.choose_pairs(chosen, self.planned, int(count), rng)
            self.planned.update((*a.key, *b.key) for a, b in pairs)
            self.count_use(*{c.key for pair in pairs for c in pair})
            return Group(processes, chosen, pairs, environment) if pairs else None

        group = build(self.missing())
        while group and not self.enough():
            # The next group is built while this one opens the GPU; neither is measured meanwhile.
            following = build(self.missing() - len(group.pairs))
            try:
                self.measure_group(group, following)
            finally:
                group.close()
            group = following or build(self.missing())
        if group:
            group.close()
        return self.added

    def measure_group(self, group, following):
        group.open(self.options.device)
        if following:
            following.wait_built()
        group.warm(self.options.warm)
        for i, (a, b) in enumerate(group.pairs):
            if self.enough():
                return
            if {a.key, b.key} <= group.alive:
                self.measure(a, b, group, len(group.pairs) - i)

    def least_window(self, left_in_group):
        """The window that time allows: shorter than requested if the count would otherwise be missed."""
        if math.isinf(self.deadline) or math.isinf(self.missing()):
            return self.options.pair_window
        left = self.deadline - time.monotonic()
        if self.missing() > left_in_group:
            groups = math.ceil((self.missing() - left_in_group) / (self.options.per_group or left_in_group))
            left -= groups * (GROUP_SECONDS + self.options.group * self.options.warm)
        affordable = left / self.missing() - self.options.settle - self.alone_seconds() - PAIR_SECONDS
        return min(self.options.pair_window, max(self.options.pair_window_least, affordable))

    def measure(self, a, b, group, left_in_group):
        window = plan.window_seconds(a, b, self.least_window(left_in_group), self.options.pair_window_most)
        row = {"model_a": a.model, "batch_a": a.batch, "model_b": b.model, "batch_b": b.batch, "mode": self.mode,
               "solo_util_a": a.util, "solo_util_b": b.util, "status": "ok",
               "solo_from": "pair" if self.options.solo_now else "solo", "session": self.session, "harness": VERSION}
        workers = [group.workers[c.key] for c in (a, b)]
        try:
            alone = [self.alone(worker, c) for worker, c in zip(workers, (a, b))]
            results = self.together(workers, window)
        except Failed as failure:
            row.update(status=failure.status, note=failure.note)
            group.alive -= {a.key, b.key}  # a worker that failed once is out of sync
        else:
            row["window_s"] = window
            for side, solo_ms, result in zip("ab", alone, results):
                row.update({f"solo_ms_{side}": solo_ms, f"ms_{side}": result["step_ms_mean"],
                            f"ms_median_{side}": result["step_ms_median"], f"steps_{side}": result["steps"],
                            f"slowdown_{side}": result["step_ms_mean"] / solo_ms})
            began = max(r["began"] for r in results) + self.options.settle
            readings = self.sampler.between(began, began + window)
            if readings:
                row.update(util_mean=statistics.fmean(r.util for r in readings), util_max=max(r.util for r in readings),
                           mem_util_mean=statistics.fmean(r.mem_util for r in readings),
                           power_w_mean=statistics.fmean(r.power_w for r in readings))
        self.table.add(row)
        self.added += row["status"] == "ok"
        print(f"{a.model}/{a.batch} ({a.util:.0f} %) + {b.model}/{b.batch} ({b.util:.0f} %) {self.mode}: {row['status']} "
              f"{row.get('slowdown_a', math.nan):.2f} {row.get('slowdown_b', math.nan):.2f} {window:.2f} s {row.get('note', '')}",
              flush=True)

    def alone(self, worker, config):
        """The step time alone, just before the pair: the speed of hosts changes within minutes."""
        if not self.options.solo_now:
            return config.ms
        seconds = max(self.options.solo_now, ALONE_STEPS * config.ms / 1000)
        return worker.call("run", seconds, self.options.solo_settle)["step_ms_mean"]

    def together(self, workers, seconds):
        start_at = time.monotonic() + START_IN
        for worker in workers:
            worker.send("run", seconds, self.options.settle, start_at)
        return [worker.reply(RUN_REPLY_SECONDS) for worker in workers]
