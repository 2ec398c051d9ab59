#!/usr/bin/env python3
# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs pairs of training jobs that the prediction calls safe, and some that it does not.

    pairs.py choose --graphs DIR --fairway bin/fairway --out pairs.json   # needs no GPU
    pairs.py run pairs.json --out results.json                           # on the GPU

choose takes models of lab/profiling's catalogue that were not measured, so that no predictor
was trained on them, runs "fairway predict A --with B" for random pairs, and keeps the first
three called safe and the first three that should slow one job by more than 15 %. It records
the predictions before anything runs. DIR is the output of "lab/profiling/measure.py graphs".
run measures each job alone and each pair together, and prints both next to the prediction.
"""

import argparse
import csv
import json
import os
import random
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROFILING = os.path.join(HERE, "..", "..", "profiling")
sys.path.insert(0, PROFILING)

WANTED = 3  # of each kind
ALONE_SECONDS, TOGETHER_SECONDS, SETTLE_SECONDS = 3.0, 5.0, 1.0
MOST_STEP_MS, MOST_MIB = 150, 9000  # long steps need long windows; all jobs are on the GPU at once


def measured():
    with open(os.path.join(PROFILING, "data", "h200-solo.csv"), newline="") as file:
        return {row["model"] for row in csv.DictReader(file)}


def predict(fairway, path, batch, others=()):
    command = [fairway, "predict", path, "--batch", str(batch), "--json"]
    for other, size in others:
        command += ["--with", f"{other}:{size}"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def choose(options):
    with open(os.path.join(options.graphs, "index.json")) as file:
        files = json.load(file)["files"]
    known = measured()
    rng = random.Random(options.seed)
    candidates = []
    for model in sorted(set(files) - known):
        path = os.path.join(options.graphs, files[model]["file"])
        for batch in (4, 32):
            try:
                p = predict(options.fairway, path, batch)
            except subprocess.CalledProcessError:
                continue
            if p["step_ms"] <= MOST_STEP_MS and p["gpu_mem_mib"] <= MOST_MIB:
                candidates.append((model, path, batch))
    print(f"{len(candidates)} jobs of {len({c[0] for c in candidates})} models not measured before")
    found = {True: [], False: []}
    used = set()
    for _ in range(20000):
        if all(len(f) >= WANTED for f in found.values()):
            break
        a, b = rng.sample(candidates, 2)
        if a[0] == b[0] or used & {a[0], b[0]}:
            continue
        p = predict(options.fairway, a[1], a[2], [(b[1], b[2])])
        other = p["with"][0]
        unsure = not other["safe"] and max(other["slowdown"], other["other_slowdown"]) < 1.15
        if unsure or not other["fits"] or len(found[other["safe"]]) >= WANTED:
            continue
        q = predict(options.fairway, b[1], b[2])
        used |= {a[0], b[0]}
        found[other["safe"]].append({
            "a": a[0], "batch_a": a[2], "b": b[0], "batch_b": b[2], "safe": other["safe"],
            "util_a": p["gpu_util"], "util_b": q["gpu_util"], "mem_a": p["gpu_mem_mib"], "mem_b": q["gpu_mem_mib"],
            "slowdown_a": other["slowdown"], "high_a": other["slowdown_high"],
            "slowdown_b": other["other_slowdown"], "high_b": other["other_slowdown_high"],
        })
    with open(options.out, "w") as file:
        json.dump(found[True] + found[False], file, indent=1)
    print(f"{len(found[True])} safe and {len(found[False])} unsafe pairs written to {options.out}")


def run(options):
    from fairway_profiling.nvml import Sampler
    from fairway_profiling.worker import Worker, context
    import statistics
    import time

    with open(options.pairs) as file:
        pairs = json.load(file)
    sampler = Sampler()
    sampler.start()
    keys = [(p[side], p["batch_" + side]) for p in pairs for side in "ab"]
    workers = {key: Worker(context(), key[0], {}) for key in keys}
    alone = {}
    try:
        for stage in (lambda k: ("begin", options.device), lambda k: ("prepare", k[1])):
            for key in keys:
                workers[key].send(*stage(key))
            for key in keys:
                workers[key].reply()
        for key in keys:
            result = workers[key].call("run", ALONE_SECONDS, SETTLE_SECONDS)
            readings = sampler.between(result["began"] + SETTLE_SECONDS, result["ended"])
            util = statistics.fmean(r.util for r in readings) if readings else float("nan")
            alone[key] = (result["step_ms_mean"], util)
        for p in pairs:
            sides = [(p["a"], p["batch_a"]), (p["b"], p["batch_b"])]
            start_at = time.monotonic() + 0.1
            for key in sides:
                workers[key].send("run", TOGETHER_SECONDS, SETTLE_SECONDS, start_at)
            for side, key in zip("ab", sides):
                result = workers[key].reply(60)
                p["measured_util_" + side] = round(alone[key][1], 1)
                p["measured_" + side] = round(result["step_ms_mean"] / alone[key][0], 3)
            p["was_safe"] = max(p["measured_a"], p["measured_b"]) < 1.15
    finally:
        for worker in workers.values():
            worker.close()
        sampler.close()
    if options.out:
        with open(options.out, "w") as file:
            json.dump(pairs, file, indent=1)
    print(table(pairs))


def table(pairs):
    lines = ["| called | job | utilisation: predicted | measured | slowdown: predicted | up to | measured | outcome |", "|---|---|---|---|---|---|---|---|"]
    for p in pairs:
        for side in "ab":
            called = ("safe" if p["safe"] else "unsafe") if side == "a" else ""
            was = ("safe" if p["was_safe"] else "unsafe") if side == "a" else ""
            lines.append(f"| {called} | {p[side]}, batch {p['batch_' + side]} | {p['util_' + side]:.0f} % | {p['measured_util_' + side]:.0f} % "
                         f"| {p['slowdown_' + side]:.2f} | {p['high_' + side]:.2f} | {p['measured_' + side]:.2f} | {was} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("choose")
    first.add_argument("--graphs", required=True)
    first.add_argument("--fairway", default="bin/fairway")
    first.add_argument("--seed", type=int, default=1)
    first.add_argument("--out", default="pairs.json")
    second = commands.add_parser("run")
    second.add_argument("pairs")
    second.add_argument("--device", default="cuda")
    second.add_argument("--out", default="")
    options = parser.parse_args()
    {"choose": choose, "run": run}[options.command](options)


if __name__ == "__main__":
    main()
