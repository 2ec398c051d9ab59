# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Makes a report from the output of lab/bench/gpu/run.sh: report.py OUT > docs/gpu-run.md

With --figure FILE it also draws which job held the GPU over time, and its utilisation."""

from __future__ import annotations

import argparse
import glob
import json
import re
from datetime import datetime
from pathlib import Path

COLOURS = ["#0a56c2", "#cf4455", "#178f6b", "#d99a1b", "#6d4aa8", "#8a6a4f"]


def when(text: str) -> float:
    """Seconds of a time stamp."""
    return datetime.fromisoformat(re.sub(r"\.(\d{1,6})\d*", r".\1", text.replace("Z", "+00:00"))).timestamp()


def load(folder: Path) -> list[dict]:
    """The explanations of all jobs, in order of submission."""
    jobs = [json.loads(Path(p).read_text()) for p in glob.glob(str(folder / "explain-*.json"))]
    return sorted(jobs, key=lambda e: e["job"]["status"]["seq"])


def spells(entry: dict, end: float) -> list[tuple[float, float, int]]:
    """Start, end and GPUs of every interval in which the job held some."""
    out, since, held = [], 0.0, 0
    for step in entry.get("ledger", []):
        at = when(step["at"])
        if held:
            out.append((since, at, held))
        since, held = at, step["to_gpus"]
    if held:
        out.append((since, end, held))
    return out


def telemetry(folder: Path) -> list[dict]:
    """Every measurement of the first GPU."""
    out, seen = [], set()
    for path in sorted(glob.glob(str(folder / "nodes-[0-9]*.json"))):
        try:
            node = json.loads(Path(path).read_text())["nodes"][0]
        except (ValueError, KeyError, IndexError):
            continue
        use = node["slots"][0].get("use")
        if use and use["at"] not in seen:
            seen.add(use["at"])
            out.append(use | {"job": ", ".join(node["slots"][0].get("jobs") or []), "type": node.get("gpu_type", "")})
    return out


def table(rows: list[list[str]]) -> str:
    """A table of Markdown; the first row is its head."""
    lines = ["| " + " | ".join(r) + " |" for r in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def report(folder: Path) -> str:
    """The report."""
    jobs, uses = load(folder), telemetry(folder)
    begin = min(when(e["job"]["submitted"]) for e in jobs)
    end = max(when(e["now"]) for e in jobs)
    rows = [["job", "outcome", "waited", "ran", "starts", "preempted", "GPU time lost", "last loss", "batch"]]
    for e in jobs:
        job, status = e["job"], e["job"]["status"]
        points = json.loads((folder / f"points-{job['id']}.json").read_text())["points"]
        losses = [p["loss"] for p in points if p.get("loss") is not None]
        batches = [p["batch"] for p in points if p.get("batch")]
        rows.append([
            f"`{job['id']}`", job["state"], seconds(status.get("waited", "0s")), f"{sum(b - a for a, b, _ in spells(e, end)):.0f} s", str(status.get("starts", 0)),
            str(status.get("preemptions", 0)), f"{e['price']['lost_s']:.1f} s", f"{losses[-1]:.2g}" if losses else "-",
            f"{min(batches)} to {max(batches)}" if batches else "-",
        ])  # fmt: skip
    busy = [u for u in uses if u["job"]]
    lines = [
        f"From the first submission to the last observation: {end - begin:.0f} s. Policy `las:lease=25s`.", "", table(rows), "",
        f"{len(uses)} measurements of the GPU; while a job held it: mean utilisation "
        f"{100 * mean([u['util'] for u in busy]):.0f} %, memory in use up to {max(u['memory_used'] for u in uses) / 2**30:.1f} GiB "
        f"of {uses[0]['memory_total'] / 2**30:.0f} GiB, power up to {max(u.get('power_w', 0) for u in uses):.0f} W.",
    ]  # fmt: skip
    return "\n".join(lines)


def seconds(text: str) -> str:
    """A duration of the API, such as 1m2.5s, in seconds."""
    total = 0.0
    for number, unit in re.findall(r"([\d.]+)(h|ms|µs|ns|m|s)", text):
        total += float(number) * {"h": 3600, "m": 60, "s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]
    return f"{total:.0f} s"


def mean(values: list[float]) -> float:
    """The mean; 0 without values."""
    return sum(values) / len(values) if values else 0.0


def figure(folder: Path) -> str:
    """Which job held the GPU, and its utilisation, as SVG."""
    jobs, uses = load(folder), telemetry(folder)
    begin = min(when(e["job"]["submitted"]) for e in jobs)
    end = max(when(e["now"]) for e in jobs)
    left, width, row = 130, 640, 22
    x = lambda t: left + width * (t - begin) / (end - begin)  # noqa: E731
    height = row * len(jobs) + 190
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 20}" height="{height}" font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="#fff"/>', '<text x="10" y="18" font-weight="bold">Which job held the GPU, and its utilisation</text>']  # fmt: skip
    for i, e in enumerate(jobs):
        y = 34 + row * i
        parts.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{e["job"]["id"]}</text>')
        for a, b, _ in spells(e, end):
            parts.append(f'<rect x="{x(a):.1f}" y="{y}" width="{max(1, x(b) - x(a)):.1f}" height="{row - 6}" fill="{COLOURS[i % len(COLOURS)]}"/>')
    top, size = 50 + row * len(jobs), 90
    for share in (0, 0.5, 1):
        y = top + size * (1 - share)
        parts.append(f'<line x1="{left}" x2="{left + width}" y1="{y}" y2="{y}" stroke="#ddd"/><text x="{left - 8}" y="{y + 4}" text-anchor="end">{share:.0%}</text>')
    dots = " ".join(f"{x(when(u['at'])):.1f},{top + size * (1 - u['util']):.1f}" for u in uses)
    parts.append(f'<polyline points="{dots}" fill="none" stroke="#333" stroke-width="1.5"/>')
    for t in range(0, int(end - begin) + 1, 60):
        parts.append(f'<text x="{x(begin + t):.1f}" y="{top + size + 20}" text-anchor="middle">{t} s</text>')
    parts.append(f'<text x="10" y="{top + 12}">utilisation</text></svg>')
    return "\n".join(parts) + "\n"


def main() -> None:
    """Prints the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--figure", type=Path)
    args = parser.parse_args()
    if args.figure:
        args.figure.write_text(figure(args.folder))
    print(report(args.folder))


if __name__ == "__main__":
    main()
