# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""The append-only CSV files, and the description of the machine."""

import csv
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import time

from . import VERSION


class Table:
    """A CSV file with fixed columns. A row is on the disk when add returns."""

    def __init__(self, path, columns):
        self.path, self.columns = path, columns
        self.rows = []
        if os.path.exists(path):
            with open(path, newline="") as file:
                reader = csv.DictReader(file)
                if reader.fieldnames != list(columns):
                    raise SystemExit(f"{path}: columns are {reader.fieldnames}, want {list(columns)}")
                self.rows = list(reader)

    def add(self, row):
        fresh = not os.path.exists(self.path)
        os.makedirs(os.path.dirname(self.path) or ".", exist_ok=True)
        text = {c: _text(row.get(c, "")) for c in self.columns}
        with open(self.path, "a", newline="") as file:
            writer = csv.DictWriter(file, self.columns, lineterminator="\n")
            if fresh:
                writer.writeheader()
            writer.writerow(text)
            file.flush()
            os.fsync(file.fileno())
        self.rows.append(text)

    def keys(self, *columns):
        return {tuple(row[c] for c in columns) for row in self.rows}


def _text(value):
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value).replace("\n", " ")


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _output(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.strip() or None
    except (OSError, subprocess.TimeoutExpired):
        return None


def _cpu():
    try:
        with open("/proc/cpuinfo") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), None)
    except OSError:
        return None


def _pace():
    """Milliseconds that a fixed loop takes: machines with the same CPU name differ in speed."""
    began = time.perf_counter()
    total = 0
    for i in range(1_000_000):
        total += i
    return round((time.perf_counter() - began) * 1000, 1)


def describe_machine(path, command, idle_mib, settings):
    """Adds this session to the machine file; returns the session's name, which rows record."""
    sessions = []
    if os.path.exists(path):
        with open(path) as file:
            sessions = json.load(file)
    name = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    gpu = _output("nvidia-smi", "--query-gpu=name,driver_version,memory.total,power.limit,clocks.max.sm,compute_mode,persistence_mode",
                  "--format=csv,noheader")
    sessions.append({
        "session": name, "command": command, "settings": settings, "harness": VERSION, "gpu": gpu, "gpu_idle_mib": idle_mib,
        "cpu": _cpu(), "cores": os.cpu_count(), "python_loop_ms": _pace(),
        "kernel": platform.release().split("-")[0], "python": platform.python_version(),
        "packages": {p: _version(p) for p in ("torch", "torchvision", "timm", "numpy", "nvidia-cudnn-cu13", "nvidia-cublas")},
        "precision": "float32, PyTorch's defaults (TF32 in cuDNN convolutions and recurrent cells, not in matrix products)",
    })
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as file:
        json.dump(sessions, file, indent=1)
        file.write("\n")
    return name
