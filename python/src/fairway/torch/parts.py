# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""What a step spends besides computing: PyTorch's profiler watches one step now and then."""

from __future__ import annotations

import logging
import os
from typing import Any, Iterable, NamedTuple, Optional

import torch

from fairway.loop import Parts

log = logging.getLogger("fairway")

Interval = tuple[float, float]


class Event(NamedTuple):
    """Something that the profiler saw."""

    name: str
    start: float  # seconds
    end: float
    on_gpu: bool = False


class Recorder:
    """Watches steps of a training on a device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._profile: Any = None
        self._broken = False

    def begin(self) -> None:
        """Watches from here on, unless somebody else uses the profiler."""
        if self._broken or torch.autograd._profiler_enabled():
            return
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it has something to say at each start and stop
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self._device.type == "cuda":
            torch.cuda.synchronize()  # what was begun before does not belong to the step
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        try:
            self._profile = torch.profiler.profile(activities=activities)
            self._profile.start()
        except Exception as err:  # noqa: BLE001: the training goes on
            self._give_up(err)

    def end(self) -> Optional[Parts]:
        """What was spent since begin; None: that is not known."""
        profile, self._profile = self._profile, None
        if profile is None:
            return None
        try:
            profile.stop()
            return parts_of(_events(profile))
        except Exception as err:  # noqa: BLE001
            self._give_up(err)
            return None

    def _give_up(self, err: Exception) -> None:
        self._profile, self._broken = None, True
        log.warning("steps are not taken apart: %s: %s", type(err).__name__, err)


def _events(profile: Any) -> list[Event]:
    return [
        Event(e.name(), e.start_ns() / 1e9, (e.start_ns() + e.duration_ns()) / 1e9, e.device_type() != torch.autograd.DeviceType.CPU)
        for e in profile.profiler.kineto_results.events()
    ]  # fmt: skip


def parts_of(events: Iterable[Event]) -> Parts:
    """On a GPU its kernels count: those of NCCL, and all others. On a CPU these are the
    exchanges of gloo, and the operators less those that wait for an exchange."""
    exchanges: list[Interval] = []
    sends: list[Interval] = []
    computing: list[Interval] = []
    halts: list[Interval] = []
    events = list(events)
    gpu = any(e.on_gpu for e in events)
    for e in events:
        name, span = e.name.lower(), (e.start, e.end)
        if e.on_gpu != gpu:
            continue
        if name.startswith("nccl" if gpu else "gloo:"):
            (sends if "send" in name or "recv" in name else exchanges).append(span)
        elif gpu or name.startswith("aten::"):
            computing.append(span)
        elif name.startswith(("c10d::", "_c10d_functional::")):
            halts.append(span)
    busy = without(union(computing), union(halts))
    under_way = union(exchanges)
    waits = without(under_way, busy)
    return Parts(_length(under_way), _length(waits), _length(without(without(union(sends), busy), under_way)))


def union(spans: Iterable[Interval]) -> list[Interval]:
    """The same time, in spans that do not touch, in order."""
    out: list[Interval] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def without(spans: list[Interval], others: list[Interval]) -> list[Interval]:
    """What others, a union, leave of spans, a union."""
    out: list[Interval] = []
    at = 0
    for start, end in spans:
        while at < len(others) and others[at][1] <= start:
            at += 1
        k = at
        while k < len(others) and others[k][0] < end:
            if others[k][0] > start:
                out.append((start, others[k][0]))
            start = max(start, others[k][1])
            k += 1
        if start < end:
            out.append((start, end))
    return out


def _length(spans: list[Interval]) -> float:
    return sum(end - start for start, end in spans)
