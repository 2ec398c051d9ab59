#!/usr/bin/env python3
# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""Measures how much of a GPU training takes. See README.md beside this file."""

import argparse
import contextlib
import os
import re
import subprocess
import sys

from fairway_profiling import catalogue, graphs, pairs, rows, solo
from fairway_profiling.nvml import Sampler
from fairway_profiling.worker import context

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--only", default="", help="regular expression that a model's name must match")
    measured = argparse.ArgumentParser(add_help=False)
    measured.add_argument("--gpu", default="h200", help="kind of GPU: the prefix of the data files")
    measured.add_argument("--data", default=DATA, help="folder of the data files")
    measured.add_argument("--device", default="cuda", help="PyTorch device (cpu: to try the harness out)")
    measured.add_argument("--seconds", type=float, default=0, help="stop after so long (0: when all is done)")
    measured.add_argument("--warmup", type=float, default=2, help="seconds")
    measured.add_argument("--window", type=float, default=5, help="seconds")

    commands.add_parser("list", parents=[shared], help="print the catalogue")
    one = commands.add_parser("solo", parents=[shared, measured], help="measure models alone")
    one.add_argument("--max-batches", type=int, default=0, help="at most so many batch sizes of each model (0: all)")
    two = commands.add_parser("pairs", parents=[measured], help="measure two models at a time")
    two.add_argument("--mps", action="store_true", help="under NVIDIA's multi-process service")
    two.add_argument("--count", type=int, default=0, help="stop after so many pairs")
    two.add_argument("--group", type=int, default=8, help="models on the GPU at once")
    two.add_argument("--seed", type=int, default=1)
    two.add_argument("--solo-now", type=float, default=0,
                     help="seconds to measure each model alone within its group (0: take the solo file's step time)")
    draw = commands.add_parser("graphs", parents=[shared], help="write the ONNX graphs, without weights (CPU only)")
    draw.add_argument("--out", default="graphs.tar.gz")
    draw.add_argument("--batch", type=int, default=2)
    draw.add_argument("--opset", type=int, default=17)
    draw.add_argument("--inference", action="store_true", help="the graph of inference instead of training")
    draw.add_argument("--dynamic", action="store_true", help="leave the batch dimension open")
    return parser.parse_args(arguments)


def chosen(options):
    return [e for e in catalogue.entries() if re.search(options.only, e.name)]


def list_models(options):
    for entry in chosen(options):
        print(f"{entry.name}\t{entry.family}\t{' '.join(map(str, entry.batches))}")


def draw_graphs(options):
    settings = {"batch": options.batch, "opset": options.opset, "training": not options.inference, "dynamic": options.dynamic}
    failures = graphs.write_all(chosen(options), settings, options.out)
    print(f"{len(failures)} failed: {' '.join(failures)}")


def measure(options):
    """The part that solo and pairs share: sampler, machine file, tables."""
    path = os.path.join(options.data, options.gpu)
    sampler = Sampler()
    if sampler.source is None and options.device == "cuda":
        raise SystemExit(f"read the GPU's counters: {sampler.failure}")
    idle = sampler.latest()
    session = rows.describe_machine(path + "-machine.json", options.command, idle.mem_mib if idle else None)
    sampler.start()
    solo_table = rows.Table(path + "-solo.csv", solo.COLUMNS)
    try:
        if options.command == "solo":
            added = solo.Solo(options, solo_table, sampler, session).run(context(), chosen(options))
        else:
            campaign = pairs.Pairs(options, rows.Table(path + "-pairs.csv", pairs.COLUMNS), sampler, session)
            with pairs.SharedServer() if options.mps else contextlib.nullcontext({}) as environment:
                added = campaign.run(context(), solo_table.rows, environment, gpu_mib())
    finally:
        sampler.close()
    print(f"{added} rows added")


def gpu_mib():
    """The GPU's memory, asked of NVML's command so that this process never opens the GPU."""
    text = subprocess.run(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"],
                          capture_output=True, text=True, check=True).stdout
    return float(text.split()[0])


def main():
    options = parse(sys.argv[1:])
    {"list": list_models, "graphs": draw_graphs, "solo": measure, "pairs": measure}[options.command](options)


if __name__ == "__main__":
    main()
