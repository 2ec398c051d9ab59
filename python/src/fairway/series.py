# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The values of a metric on their way to the daemon: all of them while they are
few, then means of several in a row with their least and largest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Optional

_MOST = 64  # points of a metric in one report
_ALL = 1024  # points of all metrics in one report
_NAMES = 64  # metrics
_LONGEST_NAME = 100  # bytes
_KEPT = 500  # points that the daemon keeps


@dataclass
class _Row:
    step: float
    at: float
    total: Any  # of the values; a tensor is read when the report is made
    count: int = 1
    least: Optional[float] = None  # None: not known
    most: Optional[float] = None

    def join(self, later: _Row) -> None:
        self.step, self.at = later.step, later.at
        self.total = self.total + later.total
        self.count += later.count
        known = self.least is not None and later.least is not None
        self.least = min(self.least, later.least) if known else None  # type: ignore[type-var]
        self.most = max(self.most, later.most) if known else None  # type: ignore[type-var]


class Series:
    """One metric since the last report."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._each = 1  # values of a point
        self._sent = 0  # points, since that last grew

    def add(self, step: float, at: float, value: Any) -> None:
        if isinstance(value, (int, float)):
            if not math.isfinite(value):
                return
            value = float(value)
            row = _Row(step, at, value, 1, value, value)
        elif hasattr(value, "detach"):
            row = _Row(step, at, value.detach().float())  # sums of 16 bits are none
        elif hasattr(value, "__float__"):
            row = _Row(step, at, value)
        else:
            return
        if self._rows and self._rows[-1].count < self._each:
            self._rows[-1].join(row)
            return
        self._rows.append(row)
        if len(self._rows) > _MOST:
            self._halve()

    def _halve(self) -> None:
        for first, second in zip(self._rows[::2], self._rows[1::2]):
            first.join(second)
        self._rows = self._rows[::2]
        self._each, self._sent = 2 * self._each, 0

    def drain(self, name: str, most: int) -> Optional[dict[str, Any]]:
        """An api.Series of at most so many points; None: there are none."""
        while len(self._rows) > max(1, most):
            self._halve()
        rows, self._rows = self._rows, []
        points = [p for p in map(_point, rows) if p is not None]
        if not points:
            return None
        self._sent += len(points)
        if self._sent >= _KEPT:  # the daemon has begun to join what it has
            self._each, self._sent = 2 * self._each, 0
        steps, at, values, counts, mins, maxs = (list(column) for column in zip(*points))
        out = {"name": name, "steps": steps, "at": at, "values": values}
        if any(count > 1 for count in counts):
            out.update(counts=counts, mins=mins, maxs=maxs)
        return out


def _point(row: _Row) -> Optional[tuple[float, float, float, int, float, float]]:
    try:
        mean = float(row.total) / row.count
    except (TypeError, ValueError, RuntimeError):
        return None
    if not math.isfinite(mean):
        return None
    least, most = (mean, mean) if row.least is None or row.most is None else (row.least, row.most)
    return row.step, round(row.at, 3), min(max(mean, least), most), row.count, least, most


class Metrics:
    """All metrics of a training since the last report."""

    def __init__(self) -> None:
        self._all: dict[str, Series] = {}

    def add(self, name: str, step: float, at: float, value: Any) -> None:
        series = self._all.get(name)
        if series is None:
            if len(self._all) >= _NAMES or not 0 < len(name.encode()) <= _LONGEST_NAME:
                return
            series = self._all[name] = Series()
        series.add(step, at, value)

    def drain(self) -> list[dict[str, Any]]:
        """The api.Series of a report."""
        most = _ALL // max(1, len(self._all))
        made = (series.drain(name, most) for name, series in self._all.items())
        return [series for series in made if series is not None]
