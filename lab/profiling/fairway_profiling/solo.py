# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""Measures models one at a time."""

import math
import statistics
import time

from . import VERSION
from .nvml import MIB
from .worker import Failed, Worker

COLUMNS = ("model", "family", "batch", "input", "params", "status",
           "util_mean", "util_max", "util_min", "util_samples", "mem_util_mean",
           "mem_device_mib", "mem_allocated_mib", "mem_reserved_mib",
           "step_ms_median", "step_ms_mean", "steps", "window_s", "warmup_s",
           "power_w_mean", "sm_mhz_mean", "loss", "note", "session", "harness")

STEPS_COLUMNS = COLUMNS + ("step_ms_p10", "step_ms_p90")

START_SECONDS = 4  # to open the GPU and take the first step; an estimate for planning only


def spread(batches, most):
    """At most that many batch sizes, the extremes first."""
    if not most or most >= len(batches):
        return list(batches)
    if most == 1:
        return [batches[len(batches) // 2]]
    return [batches[round(i * (len(batches) - 1) / (most - 1))] for i in range(most)]


def counters(readings, idle_mib):
    """The GPU's counters over a window."""
    if not readings:
        return {"util_samples": 0}
    util = [r.util for r in readings]
    out = {"util_mean": statistics.fmean(util), "util_max": max(util), "util_min": min(util), "util_samples": len(util),
           "mem_util_mean": statistics.fmean(r.mem_util for r in readings),
           "mem_device_mib": max(r.mem_mib for r in readings) - idle_mib,
           "power_w_mean": statistics.fmean(r.power_w for r in readings),
           "sm_mhz_mean": statistics.fmean(r.sm_mhz for r in readings)}
    return {k: v for k, v in out.items() if not math.isnan(v)}


class Solo:
    """One campaign: settings, the table it adds to, and its time limit."""

    def __init__(self, options, table, sampler, session):
        self.options, self.table, self.sampler, self.session = options, table, sampler, session
        self.idle_mib = sampler.latest().mem_mib if sampler.latest() else 0.0
        self.deadline = time.monotonic() + options.seconds if options.seconds else math.inf
        self.cost = options.warmup + options.window + 1  # seconds of a row

    def missing(self, entries):
        """(entry, batch sizes) still to be measured."""
        done = self.table.keys("model", "batch")
        for entry in entries:
            batches = [b for b in spread(entry.batches, self.options.max_batches) if (entry.name, str(b)) not in done]
            if batches:
                yield entry, sorted(batches)

    def enough(self):
        """Whether as many models as wanted have two batch sizes or more."""
        sizes = {}
        for row in self.table.rows:
            if row["status"] == "ok":
                sizes.setdefault(row["model"], set()).add(row["batch"])
        return bool(self.options.models) and sum(len(s) > 1 for s in sizes.values()) >= self.options.models

    def late(self):
        """Whether another model would end after the deadline."""
        return time.monotonic() + START_SECONDS + self.cost > self.deadline

    def run(self, processes, entries):
        """Measures what is missing until the time is up; returns the number of rows added."""
        before = len(self.table.rows)
        todo = list(self.missing(entries))
        worker = leaving = None
        for i, (entry, batches) in enumerate(todo):
            if self.enough() or self.late():
                break
            worker = worker or Worker(processes, entry.name)
            following = todo[i + 1][0].name if i + 1 < len(todo) else None
            ahead = self.measure_model(processes, (worker, leaving), (entry, batches), following)
            worker.leave()
            worker, leaving = ahead, worker
        for process in (worker, leaving):
            if process:
                process.close()
        return len(self.table.rows) - before

    def measure_model(self, processes, present, todo, following):
        """Adds the rows of one model; returns the process in which the next is being built."""
        (worker, leaving), (entry, batches) = present, todo
        ahead = None
        try:
            worker.send("begin", self.options.device)
            ahead = Worker(processes, following) if following else None
            if leaving:
                leaving.close()  # frees its memory while this one opens the GPU
            info = worker.reply()
            for batch in batches:
                if time.monotonic() + self.cost > self.deadline or not self.measure(worker, entry, batch, info):
                    break
        except Failed as failure:
            for batch in batches:
                self.record(entry, batch, {"status": failure.status, "note": failure.note})
        return ahead

    def measure(self, worker, entry, batch, info):
        """Adds the row of one batch size; false if larger ones would fail too."""
        row = dict(info)
        try:
            row.update(worker.call("prepare", batch))
            worker.call("run", self.options.warmup)
            result = worker.call("run", self.options.window)
        except Failed as failure:
            row.update(status=failure.status, note=failure.note)
            self.record(entry, batch, row)
            return False
        row.update({k: result[k] for k in ("steps", "step_ms_mean", "step_ms_median", "step_ms_p10", "step_ms_p90", "loss")})
        row.update(status="ok", window_s=result["ended"] - result["began"], warmup_s=self.options.warmup,
                   mem_allocated_mib=result["allocated"] / MIB, mem_reserved_mib=result["reserved"] / MIB)
        row.update(counters(self.sampler.between(result["began"], result["ended"]), self.idle_mib))
        self.record(entry, batch, row)
        return True

    def record(self, entry, batch, row):
        row.update(model=entry.name, family=entry.family, batch=batch, session=self.session, harness=VERSION)
        self.table.add(row)
        print(f"{row['model']} batch {batch} {row.get('recipe', '')}: {row['status']} util {row.get('util_mean', math.nan):.1f} "
              f"mem {row.get('mem_device_mib', math.nan):.0f} MiB step {row.get('step_ms_median', math.nan):.2f} ms {row.get('note', '')}",
              flush=True)
