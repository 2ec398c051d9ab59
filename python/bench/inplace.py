# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Measures what it costs to change a gang in place: a training with DDP over gloo
that goes 1 -> 4 -> 2 -> 4 processes, and one of four processes that loses one by
kill -9 again and again.

    python3 bench/inplace.py --rounds 5 --kills 100

The supervisor's part is played by tests/gangs.py: the real one gives up a job that
loses a process more than three times in ten minutes. Time without a step is from the
end of the last step before to the end of the first step after; steps lost are those
that had ended and were taken again, and the one that was under way."""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE.parent)]

from tests.gangs import Supervisor, run

PAUSE = 0.05  # seconds of a step, until the end is near
BATCH = 24  # for any number of processes up to four
EXAMPLES = 4096


def job(folder: Path, steps: int) -> None:
    """Trains, and logs the end of each step. Pauses in each until there is a file
    "hurry"."""
    import torch

    import fairway.torch

    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(EXAMPLES, 32, generator=generator)
    targets = torch.tanh(inputs @ torch.randn(32, 1, generator=generator)) + 0.1 * torch.randn(EXAMPLES, 1, generator=generator)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    data = torch.utils.data.TensorDataset(inputs, targets)
    run = fairway.torch.wrap(model, optimizer, data, batch_size=BATCH, epochs=steps * BATCH / EXAMPLES, checkpoint_every=1e9)
    with open(folder / f"steps-{run.agent.env.member}", "w", buffering=1) as ended:
        for x, y in run:
            if not (folder / "hurry").exists():
                time.sleep(PAUSE)
            if run.step(torch.nn.functional.mse_loss(run.model(x), y)):
                ended.write(f"{time.time()} {run.loop.steps} {run.agent.env.world}\n")
    with torch.no_grad():
        print("loss", float(torch.nn.functional.mse_loss(model(inputs), targets)))


class Training:
    """A gang that trains, and what it has logged."""

    def __init__(self, folder: Path, world: int, steps: int) -> None:
        self.folder, self.steps = folder, steps
        self.command = [__file__, "--job", str(folder), "--steps", str(steps)]
        env = {"FAIRWAY_JOB": "bench", "FAIRWAY_CHECKPOINT_DIR": str(folder / "kept"), "FAIRWAY_NOTICE": 60}
        self.gang = Supervisor(self.command, world, env)
        self.progress(0)

    def log(self, number: int) -> list[tuple[float, int, int]]:
        """Time, number of the step and world size of the steps of a process."""
        path = self.folder / f"steps-{number}"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(float(at), int(step), int(world)) for at, step, world in (line.split() for line in lines if line.count(" ") == 2)]

    def progress(self, after: float, count: int = 5) -> list[tuple[float, int, int]]:
        """Waits for some steps of the first rank after a time; returns its log."""
        end = time.monotonic() + 120
        while True:
            log = self.log(self.gang.ranks[0])
            if len([1 for at, _, _ in log if at > after]) >= count:
                return log
            if time.monotonic() > end:
                raise AssertionError("no step in two minutes\n" + "\n".join(map(self.gang.output, self.gang.ranks)))
            time.sleep(0.02)

    def resize(self, world: int) -> float:
        """Changes the size; returns the seconds without a step."""
        before = time.time()
        self.gang.resize(world)
        log = self.progress(time.time())
        return without(log, time.time() - before + 1)[0]

    def kill(self, rank: int, elastic: bool) -> tuple[float, int]:
        """Kills a rank; returns the seconds without a step, and the steps lost."""
        before = time.time()
        stay = [n for i, n in enumerate(self.gang.ranks) if i != rank]
        self.gang.kill(rank, without=elastic)
        self.progress(time.time())
        since = time.time() - before
        seen = [without(self.log(n), since + 1) for n in stay]
        return max(away for away, _ in seen), 1 + max(again for _, again in seen)

    def end(self) -> float:
        """Lets it run to its end; returns the loss."""
        (self.folder / "hurry").touch()
        self.gang.wait(600)
        return loss(self.gang.output(self.gang.ranks[0]))


def without(log: list[tuple[float, int, int]], window: float) -> tuple[float, int]:
    """The longest time without a step of late, and the steps that were taken again."""
    late = [line for line in log if line[0] > log[-1][0] - window]
    pairs = list(zip(late, late[1:]))
    return max(b[0] - a[0] for a, b in pairs), sum(max(0, a[1] + 1 - b[1]) for a, b in pairs)


def loss(output: str) -> float:
    """The loss that a process has printed."""
    return float(next(line for line in output.splitlines() if line.startswith("loss ")).split()[1])


def undisturbed(steps: int) -> float:
    """The loss of the same training in one process."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "hurry").touch()
        return loss(run([__file__, "--job", folder, "--steps", str(steps)])[0])


def summary(seconds: list[float]) -> dict[str, float]:
    """Median and worst."""
    return {"median_s": statistics.median(seconds), "worst_s": max(seconds), "count": len(seconds)}


def resizes(rounds: int) -> dict[str, object]:
    """Goes 1 -> 4 -> 2 -> 4 some times."""
    took: dict[str, list[float]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            t = Training(Path(folder), 1, 2000)
            try:
                for size, name in ((4, "1 -> 4"), (2, "4 -> 2"), (4, "2 -> 4")):
                    took.setdefault(name, []).append(t.resize(size))
                end = t.end()
            finally:
                t.gang.close()
    every = [s for seconds in took.values() for s in seconds]
    out = {name: summary(seconds) for name, seconds in took.items()}
    return {**out, "all": summary(every), "loss": end, "undisturbed": undisturbed(2000)}


def losses(kills: int, elastic: bool, seed: int = 1) -> dict[str, object]:
    """Kills one of four ranks again and again. An elastic gang goes on without it
    until there is another."""
    steps = 1000 + 60 * kills
    choose = random.Random(seed)
    away, lost = [], []
    with tempfile.TemporaryDirectory() as folder:
        t = Training(Path(folder), 4, steps)
        try:
            for _ in range(kills):
                time.sleep(choose.uniform(0, 3 * PAUSE))
                seconds, again = t.kill(choose.randrange(4), elastic)
                away.append(seconds)
                lost.append(again)
            end = t.end()
        finally:
            t.gang.close()
    return {**summary(away), "steps_lost_mean": statistics.fmean(lost), "steps_lost_worst": max(lost), "loss": end, "undisturbed": undisturbed(steps)}


def main() -> None:
    """Prints the figures and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="of 1 -> 4 -> 2 -> 4")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--kinds", default="rigid,elastic", help="of gangs that lose a process")
    parser.add_argument("--job", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job:
        job(args.job, args.steps)
        return
    print(f"gloo on {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    out: dict[str, object] = {}
    if args.rounds:
        out["resize"] = found = resizes(args.rounds)
        for name in ("1 -> 4", "4 -> 2", "2 -> 4", "all"):
            print("{:8} without a step: median {median_s:.2f} s, worst {worst_s:.2f} s of {count}".format(name, **found[name]))
        print("loss {loss:.8f}, undisturbed {undisturbed:.8f}".format(**found))
    if args.kills:
        for kind in args.kinds.split(","):
            out[kind] = found = losses(args.kills, kind == "elastic")
            print("kill -9 of one of four, {} gang, {count} times: without a step median {median_s:.2f} s, worst {worst_s:.2f} s; "
                  "steps lost {steps_lost_mean:.2f}, worst {steps_lost_worst}".format(kind, **found))
            print("loss {loss:.8f}, undisturbed {undisturbed:.8f}".format(**found))
    print(json.dumps(out))


if __name__ == "__main__":
    main()
