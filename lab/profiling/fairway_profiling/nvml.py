# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the GPU's counters: through the NVML library, else through nvidia-smi."""

import ctypes
import subprocess
import threading
import time
from typing import NamedTuple, Optional

MIB = 1 << 20


class Reading(NamedTuple):
    """One reading of the GPU. Utilisations in percent, memory in MiB."""

    at: float  # time.monotonic()
    util: float
    mem_util: float
    mem_mib: float
    power_w: float
    sm_mhz: float


class Library:
    """NVML through ctypes, because there may be no Python binding."""

    def __init__(self, index=0):
        self.lib = ctypes.CDLL("libnvidia-ml.so.1")
        self._call("nvmlInit_v2")
        self.handle = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(self.handle))

    def _call(self, name, *args):
        code = getattr(self.lib, name)(*args)
        if code != 0:
            raise OSError(f"{name}: NVML error {code}")

    def read(self):
        pair = (ctypes.c_uint * 2)()
        memory = (ctypes.c_ulonglong * 3)()
        self._call("nvmlDeviceGetUtilizationRates", self.handle, pair)
        self._call("nvmlDeviceGetMemoryInfo", self.handle, memory)
        return Reading(time.monotonic(), pair[0], pair[1], memory[2] / MIB,
                       self._number("nvmlDeviceGetPowerUsage") / 1000, self._number("nvmlDeviceGetClockInfo", 1))

    def _number(self, name, *options):
        """A counter that some machines do not support: nan there."""
        value = ctypes.c_uint()
        try:
            self._call(name, self.handle, *map(ctypes.c_uint, options), ctypes.byref(value))
        except (OSError, AttributeError):
            return float("nan")
        return float(value.value)

    def close(self):
        self._call("nvmlShutdown")


class Command:
    """One long-lived nvidia-smi that prints a line every period."""

    FIELDS = "utilization.gpu,utilization.memory,memory.used,power.draw,clocks.sm"

    def __init__(self, index=0, period_ms=200):
        self.process = subprocess.Popen(
            ["nvidia-smi", f"--id={index}", f"--query-gpu={self.FIELDS}", "--format=csv,noheader,nounits", f"-lms={period_ms}"],
            stdout=subprocess.PIPE, text=True)

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise OSError("nvidia-smi exited")
        numbers = []
        for word in line.split(","):
            try:
                numbers.append(float(word))
            except ValueError:
                numbers.append(float("nan"))
        return Reading(time.monotonic(), *numbers)

    def close(self):
        self.process.terminate()
        self.process.wait()


class Sampler(threading.Thread):
    """Keeps every reading at the given rate until closed. Without a GPU it keeps none."""

    def __init__(self, rate_hz=5.0):
        super().__init__(daemon=True)
        self.period = 1 / rate_hz
        self.readings = []
        self.failure: Optional[OSError] = None
        self.source = None
        self.ended = threading.Event()
        for kind in (Library, Command):
            try:
                self.source = kind()
                self.readings.append(self.source.read())
                break
            except OSError as failure:
                self.source, self.failure = None, failure

    def run(self):
        # nvidia-smi paces itself: its read blocks until the next line.
        own_pace = isinstance(self.source, Library)
        due = time.monotonic()
        while self.source is not None and not self.ended.is_set():
            try:
                self.readings.append(self.source.read())
            except OSError as failure:
                self.failure = failure
                return
            if own_pace:
                due = max(due + self.period, time.monotonic())
                self.ended.wait(due - time.monotonic())

    def between(self, start, end):
        return [r for r in list(self.readings) if start < r.at <= end]

    def latest(self):
        return self.readings[-1] if self.readings else None

    def close(self):
        self.ended.set()
        self.join(2)
        if self.source is not None:
            self.source.close()
