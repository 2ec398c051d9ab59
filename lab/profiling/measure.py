#!/usr/bin/env python3
# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""Measures how training uses a GPU. See README.md in this folder."""

import argparse
import contextlib
import os
import re
import subprocess
import sys
import time

from fairway_profiling import catalogue, fractions, graphs, pairs, recipes, rows, solo, triples
from fairway_profiling.nvml import Sampler
from fairway_profiling.worker import context

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")

# The options recorded in a session's entry in the machine file.
SETTINGS = {"solo": ("warmup", "window", "max_batches"),
            "steps": ("warmup", "window", "max_batches"),
            "recipes": ("warmup", "window"),
            "fractions": ("warmup", "window"),
            "pairs": ("mps", "group", "per_group", "seed", "most_ms", "again", "warm", "settle", "pair_window", "pair_window_least",
                      "pair_window_most", "solo_now", "solo_settle")}
SETTINGS["triples"] = tuple(s for s in SETTINGS["pairs"] if s not in ("mps", "per_group", "again", "pair_window_least")) + ("count",)


def shared_options():
    """Option sets that several commands take: any, measuring, of models alone, of pairs."""
    shared, measured, alone, paired = (argparse.ArgumentParser(add_help=False) for _ in range(4))
    shared.add_argument("--only", default="", help="regular expression that a model's name must match")
    shared.add_argument("--skip", default="^$", help="regular expression that a model's name must not match")
    measured.add_argument("--gpu", default="h200", help="kind of GPU: the prefix of the data files")
    measured.add_argument("--data", default=DATA, help="folder of the data files")
    measured.add_argument("--device", default="cuda", help="PyTorch device (cpu: tests the harness)")
    measured.add_argument("--seconds", type=float, default=0, help="stop after this many seconds (0: when all is done)")

    alone.add_argument("--warmup", type=float, default=2, help="seconds")
    alone.add_argument("--window", type=float, default=5, help="seconds")
    alone.add_argument("--max-batches", type=int, default=0, help="at most this many batch sizes of each model (0: all)")
    alone.add_argument("--models", type=int, default=0, help="stop when this many models have two batch sizes (0: all)")

    paired.add_argument("--group", type=int, default=20, help="models on the GPU at once")
    paired.add_argument("--per-group", type=int, default=0, help="pairs measured of a group (0: all)")
    paired.add_argument("--seed", type=int, default=1)
    paired.add_argument("--most-ms", type=float, default=120, help="pair only models whose step alone is shorter")
    paired.add_argument("--again", type=float, default=0,
                        help="repeat only the pairs in the file whose utilisations add up to less than this (percent)")
    paired.add_argument("--warm", type=float, default=0.6, help="seconds that each model of a group trains before the first pair")
    paired.add_argument("--settle", type=float, default=0.25, help="seconds of a pair before its window")
    paired.add_argument("--pair-window", type=float, default=1.7, help="seconds; longer if steps are long")
    paired.add_argument("--pair-window-least", type=float, default=0.6,
                        help="seconds: the shortest window, to reach the count in time")
    paired.add_argument("--pair-window-most", type=float, default=2.5, help="seconds: the longest window, for long steps")
    paired.add_argument("--solo-now", type=float, default=0.5,
                        help="seconds to measure each model alone before each of its pairs (0: use the solo file's step time)")
    paired.add_argument("--solo-settle", type=float, default=0.15, help="seconds of warm-up before --solo-now")
    return shared, measured, alone, paired


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    shared, measured, alone, paired = shared_options()
    commands.add_parser("list", parents=[shared], help="print the catalogue")
    commands.add_parser("solo", parents=[shared, measured, alone], help="measure models alone")
    commands.add_parser("steps", parents=[shared, measured, alone], help="measure models alone again, and how even their steps are")
    two = commands.add_parser("pairs", parents=[measured, paired], help="measure two models at a time")
    two.add_argument("--mps", action="store_true", help="under NVIDIA's multi-process service")
    two.add_argument("--count", type=int, default=0, help="stop after this many pairs")
    three = commands.add_parser("triples", parents=[shared, measured, paired], help="measure three models at a time, and their pairs")
    three.add_argument("--count", type=int, default=30, help="triples of the group")
    commands.add_parser("recipes", parents=[measured, alone], help="measure models with mixed precision, Adam, recomputed layers, torch.compile")
    commands.add_parser("fractions", parents=[measured, alone], help="measure models with a part of the GPU's threads, under MPS")
    every = commands.add_parser("campaign", parents=[shared, measured, alone, paired],
                                help="solo, then pairs under MPS, then time-sliced pairs, until the files hold enough")
    every.add_argument("--solo-seconds", type=float, default=0, help="part of --seconds for single models")
    every.add_argument("--mps-seconds", type=float, default=0, help="part of --seconds for pairs under MPS")
    every.add_argument("--mps-group", type=int, default=10, help="models on the GPU at once under MPS")
    every.add_argument("--mps-pairs", type=int, default=30, help="pairs under MPS that the file should hold")
    every.add_argument("--pairs", type=int, default=300, help="time-sliced pairs that the file should hold")
    draw = commands.add_parser("graphs", parents=[shared], help="write the ONNX graphs, without weights (CPU only)")
    draw.add_argument("--out", default="graphs.tar.gz")
    draw.add_argument("--batch", type=int, default=2)
    draw.add_argument("--opset", type=int, default=17)
    draw.add_argument("--jobs", type=int, default=1, help="models exported at the same time")
    draw.add_argument("--inference", action="store_true", help="write the inference graph instead of the training graph")
    draw.add_argument("--dynamic", action="store_true", help="leave the batch dimension open")
    return parser.parse_args(arguments)


def chosen(options):
    return [e for e in catalogue.entries() if re.search(options.only, e.name) and not re.search(options.skip, e.name)]


def list_models(options):
    for entry in chosen(options):
        print(f"{entry.name}\t{entry.family}\t{' '.join(map(str, entry.batches))}")


def draw_graphs(options):
    settings = {"batch": options.batch, "opset": options.opset, "training": not options.inference, "dynamic": options.dynamic}
    failures = graphs.write_all(chosen(options), settings, options.out, options.jobs)
    print(f"{len(failures)} failed: {' '.join(failures)}")


class Bench:
    """What the measuring commands share: sampler, tables, processes."""

    def __init__(self, options):
        self.path = os.path.join(options.data, options.gpu)
        self.sampler = Sampler()
        if self.sampler.source is None and options.device == "cuda":
            raise SystemExit(f"read the GPU's counters: {self.sampler.failure}")
        idle = self.sampler.latest()
        self.idle_mib = idle.mem_mib if idle else None
        self.processes = context()
        self.solo_table = rows.Table(self.path + "-solo.csv", solo.COLUMNS)
        self.pairs_table = rows.Table(self.path + "-pairs.csv", pairs.COLUMNS)

    def session(self, command, options):
        settings = {name: vars(options)[name] for name in SETTINGS[command]}
        return rows.describe_machine(self.path + "-machine.json", command, self.idle_mib, settings)

    def alone(self, options):
        return solo.Solo(options, self.solo_table, self.sampler, self.session("solo", options)).run(self.processes, chosen(options))

    def stepped(self, options):
        table = rows.Table(self.path + "-steps.csv", solo.STEPS_COLUMNS)
        return solo.Solo(options, table, self.sampler, self.session("steps", options)).run(self.processes, chosen(options))

    def paired(self, options):
        campaign = pairs.Pairs(options, self.pairs_table, self.sampler, self.session("pairs", options))
        with pairs.SharedServer() if options.mps else contextlib.nullcontext({}) as environment:
            return campaign.run(self.processes, self.solo_table.rows, environment, gpu_mib())

    def tripled(self, options):
        table = rows.Table(self.path + "-triples.csv", triples.COLUMNS)
        names = {entry.name for entry in chosen(options)}
        alone = [row for row in self.solo_table.rows if row["model"] in names]
        return triples.Triples(options, table, self.session("triples", options)).run(self.processes, alone, gpu_mib())

    def by_recipe(self, options):
        table = rows.Table(self.path + "-recipes.csv", recipes.COLUMNS)
        return recipes.Recipes(options, table, self.sampler, self.session("recipes", options)).run(self.processes)

    def by_fraction(self, options):
        table = rows.Table(self.path + "-fractions.csv", fractions.COLUMNS)
        return fractions.Fractions(options, table, self.sampler, self.session("fractions", options)).run(self.processes)

    def campaign(self, options):
        """Solo first, because pairs are chosen by its rows; then MPS with its own time; then time-sliced pairs."""
        deadline = time.monotonic() + options.seconds if options.seconds else None

        def settings(seconds, **changes):
            if deadline:
                left = max(1, deadline - time.monotonic())
                seconds = min(seconds or left, left)
            return argparse.Namespace(**{**vars(options), "seconds": seconds, **changes})

        added = self.alone(settings(options.solo_seconds))
        for mps, wanted, seconds, group in ((True, options.mps_pairs, options.mps_seconds, options.mps_group),
                                            (False, options.pairs, 0, options.group)):
            count = wanted - sum(r["status"] == "ok" and r["mode"] == pairs.mode_of(mps) for r in self.pairs_table.rows)
            if count <= 0:
                continue
            try:
                added += self.paired(settings(seconds, mps=mps, count=count, group=group))
            except (OSError, subprocess.SubprocessError) as failure:  # MPS may be missing or refuse
                print(f"measure pairs, MPS {mps}: {failure}", flush=True)
        return added


def measure(options):
    bench = Bench(options)
    bench.sampler.start()
    try:
        added = {"solo": bench.alone, "steps": bench.stepped, "recipes": bench.by_recipe, "fractions": bench.by_fraction, "pairs": bench.paired, "triples": bench.tripled,
                 "campaign": bench.campaign}[options.command](options)
    finally:
        bench.sampler.close()
    print(f"{added} rows added")


def gpu_mib():
    """The GPU's memory, from nvidia-smi so that this process never opens the GPU."""
    text = subprocess.run(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"],
                          capture_output=True, text=True, check=True).stdout
    return float(text.split()[0])


def main():
    options = parse(sys.argv[1:])
    {"list": list_models, "graphs": draw_graphs, "solo": measure, "steps": measure, "recipes": measure, "fractions": measure, "pairs": measure,
     "triples": measure, "campaign": measure}[options.command](options)


if __name__ == "__main__":
    main()
