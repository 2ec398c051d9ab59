# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""Measures two models at a time on one GPU.

Models come in groups. The processes of a group stay on the GPU together, those not in the
present pair asleep, which costs memory but no time: a pair then costs its window and a
short warm-up only, not two starts.
"""

import itertools
import math
import os
import random
import statistics
import subprocess
import tempfile
import time

from . import VERSION
from .worker import Failed, Worker

COLUMNS = ("model_a", "batch_a", "model_b", "batch_b", "mode", "status",
           "solo_ms_a", "solo_ms_b", "ms_a", "ms_b", "ms_median_a", "ms_median_b", "slowdown_a", "slowdown_b",
           "solo_util_a", "solo_util_b", "util_mean", "util_max", "mem_util_mean", "power_w_mean",
           "steps_a", "steps_b", "window_s", "solo_from", "note", "session", "harness")

MEMORY_SHARE = 0.85  # of the GPU, that a group may fill
SETTLE_SECONDS = 1.0  # of a pair, before its window; each process has warmed up alone before


class Config:
    """A solo row that may be paired."""

    def __init__(self, row):
        self.model, self.batch = row["model"], int(row["batch"])
        self.util, self.mem_mib, self.ms = float(row["util_mean"] or "nan"), float(row["mem_device_mib"] or "nan"), float(row["step_ms_mean"])
        self.key = (self.model, str(self.batch))


def usable(solo_rows):
    """Solo rows with a utilisation and a step short enough for the window to hold many."""
    configs = [Config(r) for r in solo_rows if r["status"] == "ok"]
    return [c for c in configs if not math.isnan(c.util + c.mem_mib) and c.ms < 500]


def choose_group(configs, used, size, room_mib, rng):
    """Configurations spread evenly over utilisation, the least used of each part first."""
    ranked = sorted(configs, key=lambda c: (c.util, c.key))
    group, room = [], room_mib
    for i in range(size):
        part = ranked[i * len(ranked) // size:(i + 1) * len(ranked) // size]
        rng.shuffle(part)
        part.sort(key=lambda c: used.get(c.key, 0))
        for config in part:
            if config.mem_mib <= room and all(config.model != g.model for g in group):
                group.append(config)
                room -= config.mem_mib
                break
    return group


class SharedServer:
    """NVIDIA's multi-process service (MPS), for the time of a campaign."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="mps-")
        self.environment = {"CUDA_MPS_PIPE_DIRECTORY": self.folder, "CUDA_MPS_LOG_DIRECTORY": self.folder}

    def _control(self, *arguments, text=None):
        return subprocess.run(["nvidia-cuda-mps-control", *arguments], input=text, text=True, capture_output=True,
                              timeout=60, env={**os.environ, **self.environment}, check=True)

    def __enter__(self):
        self._control("-d")
        return self.environment

    def __exit__(self, *failure):
        self._control(text="quit\n")


class Pairs:
    def __init__(self, options, table, sampler, session):
        self.options, self.table, self.sampler, self.session = options, table, sampler, session
        self.mode = "mps" if options.mps else "time-slice"
        self.deadline = time.monotonic() + options.seconds if options.seconds else math.inf
        self.added = 0

    def enough(self):
        late = time.monotonic() + SETTLE_SECONDS + self.options.window + 1 > self.deadline
        return late or bool(self.options.count and self.added >= self.options.count)

    def done(self):
        return {(r["model_a"], r["batch_a"], r["model_b"], r["batch_b"])
                for r in self.table.rows if r["mode"] == self.mode}

    def run(self, processes, solo_rows, environment, total_mib):
        """Measures groups until the time is up or the count reached; returns the pairs added."""
        configs = usable(solo_rows)
        rng = random.Random(f"{self.options.seed}/{self.mode}/{len(self.table.rows)}")
        used = {}
        for a, x, b, y in self.done():
            for key in ((a, x), (b, y)):
                used[key] = used.get(key, 0) + 1
        while not self.enough():
            before = self.added
            group = choose_group(configs, used, self.options.group, total_mib * MEMORY_SHARE, rng)
            if len(group) < 2:
                raise SystemExit(f"{len(configs)} usable solo rows: want at least two models")
            for config in group:
                used[config.key] = used.get(config.key, 0) + 1
            self.measure_group(processes, group, environment, rng)
            if self.added == before:
                break
        return self.added

    def measure_group(self, processes, group, environment, rng):
        done = self.done()
        todo = [(a, b) for a, b in itertools.combinations(sorted(group, key=lambda c: c.key), 2)
                if (*a.key, *b.key) not in done]
        rng.shuffle(todo)
        needed = {c.key for pair in todo for c in pair}
        workers = {c.key: Worker(processes, c.model, environment) for c in group if c.key in needed}
        try:
            solo = self.start([c for c in group if c.key in needed], workers)
            for a, b in todo:
                if self.enough():
                    return
                if solo[a.key] and solo[b.key]:
                    self.measure(a, b, workers, solo)
        finally:
            for worker in workers.values():
                worker.close()

    def start(self, configs, workers):
        """Puts the models on the GPU; returns each one's solo step time in ms, None where it failed.

        They open the GPU at the same time, for nothing is measured then.
        """
        solo = {c.key: c.ms for c in configs}
        stages = [lambda c: ("begin", self.options.device), lambda c: ("prepare", c.batch)]
        for stage in stages:
            alive = [c for c in configs if solo[c.key]]
            for act in (lambda c: workers[c.key].send(*stage(c)), lambda c: workers[c.key].reply()):
                for config in alive:
                    self.attempt(act, config, solo)
        if self.options.solo_now:
            for config in configs:
                self.attempt(lambda c: self.alone(workers[c.key], solo, c), config, solo)
        return solo

    def alone(self, worker, solo, config):
        worker.call("run", SETTLE_SECONDS)
        solo[config.key] = worker.call("run", self.options.solo_now)["step_ms_mean"]

    @staticmethod
    def attempt(act, config, solo):
        if not solo[config.key]:
            return
        try:
            act(config)
        except (Failed, BrokenPipeError) as failure:
            print(f"{config.model} batch {config.batch}: {failure}", flush=True)
            solo[config.key] = None

    def measure(self, a, b, workers, solo):
        both = [workers[a.key], workers[b.key]]
        tail = max(a.ms, b.ms) * 3 / 1000  # keeps the faster one busy until the slower one's last counted step
        row = {"model_a": a.model, "batch_a": a.batch, "model_b": b.model, "batch_b": b.batch, "mode": self.mode,
               "solo_ms_a": solo[a.key], "solo_ms_b": solo[b.key], "solo_util_a": a.util, "solo_util_b": b.util,
               "solo_from": "group" if self.options.solo_now else "solo", "status": "ok",
               "session": self.session, "harness": VERSION}
        try:
            self.together(both, SETTLE_SECONDS, 0.0)
            results = self.together(both, self.options.window, tail)
        except Failed as failure:
            row.update(status=failure.status, note=failure.note)
            for config in (a, b):
                solo[config.key] = None  # a worker that failed once is out of step
        else:
            began = max(r["began"] for r in results)
            row["window_s"] = self.options.window
            for side, config, result in zip("ab", (a, b), results):
                row.update({f"ms_{side}": result["step_ms_mean"], f"ms_median_{side}": result["step_ms_median"],
                            f"steps_{side}": result["steps"], f"slowdown_{side}": result["step_ms_mean"] / solo[config.key]})
            readings = self.sampler.between(began, began + self.options.window)
            if readings:
                row.update(util_mean=statistics.fmean(r.util for r in readings), util_max=max(r.util for r in readings),
                           mem_util_mean=statistics.fmean(r.mem_util for r in readings),
                           power_w_mean=statistics.fmean(r.power_w for r in readings))
        self.table.add(row)
        self.added += 1
        print(f"{a.model}/{a.batch} ({a.util:.0f} %) + {b.model}/{b.batch} ({b.util:.0f} %) {self.mode}: {row['status']} "
              f"{row.get('slowdown_a', math.nan):.2f} {row.get('slowdown_b', math.nan):.2f} {row.get('note', '')}", flush=True)

    @staticmethod
    def together(workers, seconds, tail):
        start_at = time.monotonic() + 0.05
        for worker in workers:
            worker.send("run", seconds, tail, start_at)
        return [worker.reply() for worker in workers]
