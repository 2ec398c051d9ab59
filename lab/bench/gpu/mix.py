# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Twelve light PyTorch models of mixed kinds, submitted at once to one GPU under
"fairway up": lab/bench/gpu/mix.py OUT --policy P [--policy Q]. Prints the makespan
of each policy against that of fifo, which gives each job the GPU alone. With --pause,
a large job is among them: it is paused while the others run, and resumed after them.
Utilisation and memory are predicted from the models' graphs, none of which was measured
before. Needs bin/fairway and a python3 with PyTorch, torchvision, timm and onnx."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path

from daemon import FAIRWAY, ROOT, Daemon

# model of lab/profiling's catalogue, batch size
LIGHT = (
    ("torchvision/resnet50@96", 16), ("torchvision/shufflenet_v2_x1_5", 16), ("timm/mobilenetv4_conv_small", 16),
    ("torchvision/efficientnet_b1@240", 4), ("plain/cifar-resnet56x2", 64),  # convolutions
    ("timm/levit_256", 16), ("timm/crossvit_9_240@240", 4),  # attention on images
    ("plain/bert-tiny-64", 16), ("plain/gpt-micro-64", 4), ("plain/lstm-1x200", 20),  # language
    ("plain/deepfm", 512), ("plain/gcn-256x256x6", 16),  # recommendation, graphs
)  # fmt: skip
LARGE = ("torchvision/resnet50", 128)
EXCLUSIVE = "fifo"
ENDED = ("finished", "failed", "killed")


def export(folder: Path) -> None:
    """Writes the graphs of the models to a folder, unless they are there."""
    if (folder / "index.json").exists():
        return
    names = "|".join(re.escape(model) for model, _ in (*LIGHT, LARGE))
    archive = folder / "graphs.tar.gz"
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, ROOT / "lab/profiling/measure.py", "graphs", "--only", f"^({names})$", "--jobs", str(len(LIGHT)), "--out", archive]
    subprocess.run(command, check=True, stdout=sys.stderr)
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")


class Mix:
    """The jobs, with as many steps as each should take in some seconds alone."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.out = args, args.out
        graphs = args.graphs or args.out / "graphs"
        export(graphs)
        self.files = {model: graphs / entry["file"] for model, entry in json.loads((graphs / "index.json").read_text())["files"].items()}

    def write(self, path: Path, models: tuple, seconds: float, share: bool) -> None:
        """Writes the job file of some models."""
        texts = []
        for model, batch in models:
            ask = [FAIRWAY, "predict", self.files[model], "--batch", str(batch), "--json"]
            predicted = json.loads(subprocess.run(ask, check=True, capture_output=True, text=True).stdout)
            steps = max(1, round(seconds * 1e3 / predicted["step_ms"]))
            job = {
                "name": re.sub(r"[^a-z0-9]+", "-", model.split("/")[1].lower()), "model": model, "gpus": 1, "share": share, "dir": str(ROOT),
                "command": [*self.args.train.split(), model, str(batch), str(steps)], "graph": str(self.files[model]), "batch": {"initial": batch},
                "env": {"OMP_NUM_THREADS": "1"},
            }  # fmt: skip
            texts.append(json.dumps(job))
        path.write_text("\n---\n".join(texts) + "\n")

    def run(self, policy: str, pause: bool) -> dict:
        """Runs the jobs under a policy; returns what was measured."""
        name = re.sub(r"[^a-z0-9]+", "-", policy) + ("-pause" if pause else "")
        light, large = self.out / "light.yaml", self.out / "large.yaml"
        self.write(light, LIGHT, self.args.seconds, True)
        self.write(large, (LARGE,), 3 * self.args.seconds, False)
        daemon = Daemon(policy, self.out / f"daemon-{name}.log", self.args.slots)
        result: dict = {"policy": policy, "pause": pause}
        try:
            if pause:
                big = daemon.ask("submit", "-f", str(large)).strip()
                wait(lambda: daemon.job(big)["status"].get("can", "unproven") != "unproven")
            began = time.monotonic()
            ids = daemon.ask("submit", "-f", str(light)).split()
            if pause:
                daemon.ask("pause", big)
                wait(lambda: daemon.job(big)["state"] == "paused")
                result["paused_after_s"] = time.monotonic() - began
            result["most"] = self.watch(daemon, ids)
            result["makespan_s"] = time.monotonic() - began
            if pause:
                before = daemon.job(big)["status"].get("done", 0)
                daemon.ask("resume", big)
                resumed = time.monotonic()
                wait(lambda: daemon.job(big)["status"].get("done", 0) > before or daemon.job(big)["state"] in ENDED)
                result["resumed_after_s"] = time.monotonic() - resumed
                self.watch(daemon, [big])
                result["all_s"] = time.monotonic() - began
            result["mps"] = bool(daemon.mps())
            result["jobs"] = [self.summary(daemon, job) for job in (ids + [big] if pause else ids)]
            (self.out / f"events-{name}.txt").write_text(daemon.ask("events", "--tail", "300"))
        finally:
            daemon.stop()
            daemon.remove()
        return result

    def watch(self, daemon: Daemon, ids: list[str]) -> int:
        """Waits until the jobs have ended; returns how many ran at once at most."""
        most = 0
        while True:
            states = [job["state"] for job in daemon.jobs("--all") if job["id"] in ids]
            most = max(most, states.count("running"))
            if all(state in ENDED for state in states):
                return most
            if time.monotonic() - daemon.began > self.args.limit:
                raise SystemExit(f"not over after {self.args.limit:.0f} s: {states}")
            time.sleep(0.2)

    def summary(self, daemon: Daemon, job: str) -> dict:
        """What became of a job."""
        shown, log = daemon.job(job), subprocess.run([FAIRWAY, "logs", job], env=daemon.env, capture_output=True, text=True).stdout
        trained = [float(s) for s in re.findall(r"(?:steps in|after) ([0-9.]+) s", log)]
        if shown["state"] != "finished":
            (self.out / f"log-{job}.txt").write_text(log)
        return {"job": job, "model": shown["model"], "state": shown["state"], "util": shown.get("gpu_util", 0), "trained_s": sum(trained),
                "waited": shown["status"].get("waited", "0s"), "starts": shown["status"].get("starts", 0)}  # fmt: skip


def wait(done, seconds: float = 60) -> None:
    """Waits until something is so."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise SystemExit(f"not so after {seconds:.0f} s")
        time.sleep(0.1)


def table(results: list[dict]) -> str:
    """The report."""
    alone = next(r for r in results if r["policy"] == EXCLUSIVE and not r["pause"])
    base = {job["model"]: job["trained_s"] for job in alone["jobs"]}
    lines = ["| policy | makespan | of exclusive | most at once | finished | slowdown while training: mean | worst | with the large job |", "|---|---|---|---|---|---|---|---|"]
    for r in results:
        slow = [job["trained_s"] / base[job["model"]] for job in r["jobs"] if job["trained_s"] and base.get(job["model"])]
        ended = sum(job["state"] == "finished" for job in r["jobs"])
        large = f"paused after {r['paused_after_s']:.1f} s, trains {r['resumed_after_s']:.1f} s after its resumption, all over after {r['all_s']:.0f} s" if r["pause"] else "-"
        lines.append(f"| `{r['policy']}`{', MPS' if r['mps'] else ''} | {r['makespan_s']:.0f} s | {r['makespan_s'] / alone['makespan_s']:.2f} | {r['most']} "
                     f"| {ended} of {len(r['jobs'])} | {sum(slow) / max(len(slow), 1):.2f} | {max(slow, default=0):.2f} | {large} |")
    return "\n".join(lines)


def main() -> None:
    """Runs the policies, fifo first, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--policy", action="append", default=[], help="policy to compare with fifo; may be repeated")
    parser.add_argument("--pause", action="store_true", help="run the last policy again, with a large job that is paused")
    parser.add_argument("--seconds", type=float, default=15, help="how long each model should train alone, as predicted")
    parser.add_argument("--graphs", type=Path, help="folder with the models' graphs and index.json (default: export them to OUT/graphs)")
    parser.add_argument("--limit", type=float, default=420, help="most seconds for one policy")
    parser.add_argument("--slots", type=int, default=0, help="CPU slots instead of GPUs, to try the script itself")
    parser.add_argument("--train", default=f"{sys.executable} {ROOT}/lab/bench/gpu/light.py")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    mix = Mix(args)
    file = args.out / "mix.json"
    results = json.loads(file.read_text()) if file.exists() else []  # of an earlier run with the same OUT
    done = {(r["policy"], r["pause"]) for r in results}
    for policy, pause in [(p, False) for p in (EXCLUSIVE, *args.policy)] + [(args.policy[-1], True)] * args.pause:
        if (policy, pause) in done:
            continue
        results.append(mix.run(policy, pause))
        file.write_text(json.dumps(results, indent=1))
        print(f"{policy}: {results[-1]['makespan_s']:.1f} s", file=sys.stderr, flush=True)
    print(table(results))


if __name__ == "__main__":
    main()
