# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes reference-losses.json: what SciPy's L-BFGS-B makes of the tables
published with Pollux (petuum/adaptdl, branch osdi21-artifact, folder
simulator/traces). Shares no code with the Go package.

usage: python reference.py TRACES > reference-losses.json    (numpy, scipy)
"""
import csv
import json
import pathlib
import sys

import numpy as np
import scipy
from scipy.optimize import minimize

MODELS = ["bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"]
# name, largest number of nodes, largest number of GPUs, rows taken at random
# (0: all), number of draws
CASES = [
    ("all", 16, 64, 0, 1),
    ("200 of all", 16, 64, 200, 3),
    ("50 of all", 16, 64, 50, 3),
    ("10 of all", 16, 64, 10, 5),
    ("3 of all", 16, 64, 3, 5),
    ("one GPU", 1, 1, 0, 1),
    ("up to 2 GPUs", 2, 2, 0, 1),
    ("2 of up to 2 GPUs", 2, 2, 2, 5),
    ("one node", 1, 4, 0, 1),
    ("4 of one node", 1, 4, 4, 5),
    ("8 of up to 8 GPUs", 4, 8, 8, 5),
]
START = [0.1, 0.01] * 3 + [1.001]
FLOOR = 1e-8
STARTS = 12


def table(folder):
    """Mean times by (nodes, GPUs, local batch), in that order."""
    sums = {}

    def add(key, row):
        s = sums.setdefault(key, [0, 0.0, 0.0])
        s[0] += 1
        s[1] += float(row["step_time"])
        s[2] += float(row["sync_time"])

    for row in csv.DictReader(open(folder / "placements.csv")):
        p = row["placement"]
        add((len(p), sum(map(int, p)), int(row["local_bsz"])), row)
    for row in csv.DictReader(open(folder / "scalability.csv")):
        add((int(row["num_nodes"]), int(row["num_replicas"]), int(row["local_bsz"])), row)
    return [k + (s[1] / s[0], s[2] / s[0]) for k, s in sorted(sums.items())]


def draw(rows, n, seed):
    """n rows without replacement: the first steps of a Fisher-Yates shuffle
    driven by splitmix64."""
    rows, state, mask = list(rows), seed, (1 << 64) - 1
    for i in range(n):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        z ^= z >> 31
        j = i + z % (len(rows) - i)
        rows[i], rows[j] = rows[j], rows[i]
    return rows[:n]


def problem(rows):
    nodes, gpus, local, step, sync = (np.array(c, dtype=float) for c in zip(*rows))
    grad = np.log(step - sync)
    step = np.log(step)

    def loss(x):  # x: grad, local, node pairs, then gamma; may be complex
        tg = x[0] + x[1] * local
        more = np.maximum(gpus - 2, 0)
        ts = np.where(nodes > 1, x[4] + x[5] * more, x[2] + x[3] * more)
        g = x[6]
        both = np.where(gpus > 1, (tg**g + ts**g) ** (1 / g), tg)
        return (
            np.sqrt(np.mean((np.log(tg) - grad) ** 2))
            + np.sqrt(np.mean((np.log(both) - step) ** 2))
            + 1e-3 * (g - 1) ** 2
            + 1e-2 * ((x[5] / x[4]) ** 2 + (x[3] / x[2]) ** 2)
        )

    fixed = {}
    if len(set(local)) == 1:
        fixed[0] = np.mean(np.exp(grad)) / 2
    if not (nodes > 1).any():
        fixed[4] = fixed[5] = FLOOR
    if not ((nodes == 1) & (gpus > 1)).any():
        fixed[2] = fixed[3] = FLOOR
    if not (gpus > 2).any():
        fixed[3] = fixed[5] = FLOOR
    return loss, fixed


def descend(loss, fixed, start, tight):
    free = [i for i in range(7) if i not in fixed]

    def full(x):
        y = np.zeros(7, dtype=x.dtype)
        for i, v in fixed.items():
            y[i] = v
        y[free] = x
        return y

    def value(x):
        with np.errstate(all="ignore"):
            f = loss(full(x))
            g = np.zeros(len(free))
            for i in range(len(free)):  # derivative by complex step
                h = 1e-30
                y = x.astype(complex)
                y[i] += 1j * h
                g[i] = loss(full(y)).imag / h
        if not np.isfinite(f):
            return 1e9, np.zeros(len(free))
        return f, np.where(np.isfinite(g), g, 0)

    x = np.array([start[i] for i in free])
    bounds = [(1.0, 10.0) if i == 6 else (FLOOR, None) for i in free]
    options = {"maxiter": 15000, "maxfun": 15000}
    if tight:
        options |= {"ftol": 1e-15, "gtol": 1e-12, "maxcor": 30}
    return minimize(value, x, jac=True, method="L-BFGS-B", bounds=bounds, options=options).fun


def main():
    cases = []
    for model in MODELS:
        rows = table(pathlib.Path(sys.argv[1]) / model)
        for name, most_nodes, most_gpus, size, draws in CASES:
            part = [r for r in rows if r[0] <= most_nodes and r[1] <= most_gpus]
            for seed in range(draws):
                chosen = draw(part, min(size, len(part)), seed) if size else part
                loss, fixed = problem(chosen)
                same = descend(loss, fixed, START, False)
                best = min(same, descend(loss, fixed, START, True))
                rng = np.random.default_rng(seed)
                for _ in range(STARTS):
                    at = np.append(10 ** rng.uniform(-6, 1, 6), 1 + 9 * rng.uniform())
                    best = min(best, descend(loss, fixed, at, True))
                cases.append({
                    "model": model, "case": name, "nodes": most_nodes, "gpus": most_gpus,
                    "size": size, "seed": seed, "same_start": float(same), "best": float(best),
                })
                print(cases[-1], file=sys.stderr)
    source = (
        f"testdata/reference.py: SciPy {scipy.__version__} L-BFGS-B; same_start: default tolerances from "
        f"(0.1, 0.01) x 3 and 1.001; best: of that and {STARTS} random starts with tight tolerances"
    )
    print('{\n "version": 1,\n "source": %s,\n "cases": [' % json.dumps(source))
    print(",\n".join("  " + json.dumps(c) for c in cases))
    print(" ]\n}")


if __name__ == "__main__":
    main()
