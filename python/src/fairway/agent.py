# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The agent: what a training tells the daemon, and what it is told. Torch-free
and safe to use where there is no daemon: then nothing is sent."""

from __future__ import annotations

import atexit
import dataclasses
import errno
import logging
import math
import sys
import threading
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, Mapping, NoReturn, Optional

from fairway import env as environment
from fairway import links
from fairway.behind import Behind, Write
from fairway.checkpoint import Content, Store
from fairway.client import Answer, Client
from fairway.goodput import Limits, Params
from fairway.notice import Notice
from fairway.pace import MOST
from fairway.probe import PROBES, Link, to_json
from fairway.profile import Profile, Sample
from fairway.series import Metrics
from fairway.watch import Watch

log = logging.getLogger("fairway")

# The exit code of a process that saved its work and leaves because it was
# asked to (EX_TEMPFAIL).
YIELD = 75

_MOST_METRICS = 32
_LONGEST_NAME = 100  # bytes, of a metric
_LONGEST_ERROR = 200
_FAREWELL = 5.0  # the most seconds the last report may take


class Agent:
    """One rank's link to the daemon. Rank 0, of the first role where there are
    several, reports; the others only listen for the notice."""

    def __init__(self, env: Optional[environment.Environment] = None, *, checkpoint_dir: Optional[str] = None) -> None:
        self.env = env if env is not None else environment.read()
        for problem in self.env.problems:
            log.warning("ignoring %s", problem)
        folder = checkpoint_dir or self.env.checkpoint_dir
        self.store: Optional[Store] = None
        if folder:
            own = "fairway" if self.env.leads else "fairway-" + self.env.role  # roles share the folder
            self.store = Store(Path(folder) / own, memory=self.env.memory_dir if self.env.leads else "", attempt=self.env.attempt, nodes=self.env.nodes)
        self._behind = Behind()
        self.wrote = 0.0  # seconds that the last checkpoint in memory took to write
        self.notice = Notice()
        self.params: Optional[Params] = None  # of the throughput model, as the daemon fitted it
        self.save_error = ""  # why the last save failed; empty: it did not
        self.prior_noise = 0.0  # what to assume of the noise scale until it is measured
        self.profile = Profile()
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._done: Optional[float] = None  # None: not known yet
        self._work, self._rate = 0.0, 0.0
        self._restored: Optional[float] = None  # of done, what a checkpoint held
        self._stepped = False
        # Time and done: of the step that the rate was last measured at, of the last two steps.
        self._rated = self._before = self._last = (0.0, 0.0)
        self._left = 0.0  # when the last step before a change in place ended; 0: there is none
        self._resized: Optional[dict[str, Any]] = None  # the last such change
        self._losses: list[float] = []
        self._lazy_loss: Any = None  # a sum
        self._lazy_count = 0
        self._metrics: dict[str, Any] = {}  # the last value of each
        self._series = Metrics()
        self._reports = self._told = 0  # calls of report(), and those that were sent
        self._point: dict[str, Any] = {}
        self._training: Optional[dict[str, Any]] = None
        self._parts: Optional[dict[str, float]] = None
        self._windows: list[list[float]] = []
        self._probes: list[dict[str, Any]] = []
        self._can = "unproven"  # what the job can do when asked to make room
        self._completed = False
        self._closed = False
        self._client: Optional[Client] = None
        self.regrouping = False  # the gang changes in place: no step is due
        # Only a loop knows that all ranks of a gang are watched.
        floor = self.env.hang_seconds if self.env.managed else 0.0
        self.watch = Watch(floor, self.env.rank, folder, lambda: self.notice.given or self.regrouping)
        if self.env.world == 1:
            self.watch.arm()
        if self.env.managed:
            self.notice.install()
            self._connect()

    def _connect(self) -> None:
        if self.env.rank != 0 or not self.env.leads or not self.env.api:
            return
        try:
            self._client = Client(self.env.api, self.env.bearer, self._answered)
        except ValueError as err:
            log.warning("no reports: FAIRWAY_API: %s", err)
            return
        threading.Thread(target=self._report_regularly, name="fairway-reports", daemon=True).start()
        atexit.register(self.close)

    # What the training tells.

    def progress(self, done: float, work: Optional[float] = None) -> None:
        """Says how much work is done, and how much there is, in the job's unit."""
        with self._lock:
            if _usable(done):
                self._progressed(float(done))
            if work is not None and _usable(work):
                self._work = float(work)

    def _progressed(self, done: float) -> None:
        step = (time.monotonic(), done)
        first = not self._stepped and done > (self._restored or 0.0)
        if self._done is None or done < self._done or first:
            # What came before this process, and what its first step waits for, is no rate.
            self._rated = self._before = self._last = step
        elif done > self._done:
            self._before, self._last = self._last, step
            self.watch.step(step[0])
        self._done = done
        if first:
            self._stepped = True
            if self._left:
                self._resized = {"gpus": self.env.world, "away": step[0] - self._left}
                self._left = 0.0
            self._wake.notify_all()  # how long the job was away is measured to here

    def restored(self, done: float, work: Optional[float] = None) -> None:
        """Says how much work the checkpoint holds that this process continues from.
        Call it before the first progress()."""
        with self._lock:
            if _usable(done):
                self._restored = float(done)
        self.progress(done, work)

    def regrouped(self, rank: int, world: int) -> None:
        """Says that the gang has changed in place: this process goes on as another
        rank, or among more or fewer."""
        with self._lock:
            self.env = dataclasses.replace(self.env, rank=rank, world=world)
            self._left, self._stepped = self._last[0], False
        if self._client is None and self.env.managed:
            self._connect()

    def report(self, loss: Any = None, *, step: Optional[float] = None, **metrics: Any) -> None:
        """Gives the daemon numbers for its plots; cheap enough for every step.
        They are plotted over the step, by default the work done that progress()
        was told. Tensors are read when the report is made, not now."""
        if self._client is None:
            return
        with self._lock:
            self._reports += 1
            if step is None or not _usable(step):
                step = self._done if self._done is not None else float(self._reports)
            now = time.time()
            for name, value in {"loss": loss, **metrics}.items():
                if value is not None:
                    self._series.add(name, float(step), now, value)
            if isinstance(loss, (int, float)):
                self._losses.append(float(loss))
                del self._losses[:-10000]
            elif loss is not None:
                loss = loss.detach().float() if hasattr(loss, "detach") else loss  # sums of 16 bits are none
                self._lazy_loss = loss if self._lazy_loss is None else self._lazy_loss + loss
                self._lazy_count += 1
            for name, value in metrics.items():
                self._metrics[name] = value.detach() if hasattr(value, "detach") else value

    def measured(self, samples: list[Sample]) -> None:
        """Takes in step times."""
        with self._lock:
            for sample in samples:
                self.profile.add(sample)

    def spent(self, parts: Mapping[str, float]) -> None:
        """Takes in what a step spends besides computing; parts holds fields of plan.Parts."""
        with self._lock:
            self._parts = dict(parts)

    def paced(self, window: list[float], urgent: bool) -> None:
        """Takes in how long the ranks compute (see fairway.pace)."""
        if self._client is None or not window:
            return
        with self._lock:
            if self._windows and len(self._windows[0]) != len(window):
                self._windows = []
            self._windows.append(window)
            del self._windows[: -max(1, MOST // len(window))]
            if urgent:
                self._wake.notify_all()

    def probed(self, world: int, links: list[Link], urgent: bool) -> None:
        """Takes in how long ranks took to send each other something (see fairway.probe)."""
        if self._client is None or not links:
            return
        with self._lock:
            self._probes = [*self._probes, to_json(world, links)][-PROBES:]
            if urgent:
                self._wake.notify_all()

    def training(
        self, limits: Limits, *, fixed: int, noise: float, point: Mapping[str, Any], stop: Optional[Mapping[str, float]] = None
    ) -> None:
        """Says how the job trains now; fixed is 0 if the batch size adapts to the
        GPUs, point holds fields of api.Point, stop is a goodput.Stop."""
        with self._lock:
            self._training = {"limits": limits.to_json()}
            if fixed:
                self._training["fixed"] = fixed
            if _usable(noise) and noise > 0:
                self._training["noise"] = float(noise)
            if stop:
                self._training["stop"] = dict(stop)
            self._point = dict(point)

    # Stopping, saving, ending.

    def should_stop(self) -> bool:
        """Whether the job was asked to save and leave. Ranks may learn it at
        different steps: a gang must agree before it acts (see fairway.loop).
        A script that asks is taken to save and leave when the answer is yes."""
        if self._can == "unproven" and self.store is not None:
            self.able("saves")
        return self.notice.given

    def able(self, can: str) -> None:
        """Says what the job can do when asked to make room: "saves" its work, or
        also "resizes", or does so "in_place". Until then it keeps its GPUs. Counts only where the request
        is heard."""
        if self.notice.installed:
            self._can = can

    def save(self, content: Content) -> Optional[Path]:
        """Writes a checkpoint of all that progress() spoke of, and tells the
        daemon. None if it could not: that is logged and told, not raised, and the
        training goes on with the checkpoint before."""
        self._behind.withdraw()
        self._behind.settle()
        return self._write(lambda: self._put(content), None)

    def save_behind(self, make: Callable[[], Content], number: int = 0) -> None:
        """Like save, but returns as soon as make has: a thread writes what it
        returned, which must not change any more, and tells the daemon then. If
        the write before is not done, this one waits for it, and the newest
        replaces it. number is the checkpoint's, by default the next."""

        def copy() -> Write:
            content = make()
            return lambda: self._put(content, number)

        self.write_behind(copy)

    def write_behind(self, copy: Callable[[], Write]) -> None:
        """Like save_behind, for a checkpoint that is not in the store: copy returns what
        writes it, and raises if that fails."""
        self._behind.withdraw()
        try:
            write = copy()
        except Exception as err:  # noqa: BLE001
            self.save_failed(f"{type(err).__name__}: {err}")
            return
        done = self._done
        self._behind.put(lambda: self._write(write, done))

    def save_near(self, write: Callable[[], object]) -> None:
        """Lets a thread write a checkpoint to the memory of the node. The daemon is not
        told: it counts on what is on the disk."""

        def timed() -> None:
            began = time.monotonic()
            try:
                write()
            except Exception:  # noqa: BLE001: the training goes on with the one before
                log.exception("cannot write a checkpoint to memory")
            self.wrote = time.monotonic() - began

        self._behind.put(timed)

    @property
    def saving(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._behind.busy

    def settle(self, timeout: Optional[float] = None) -> bool:
        """Waits until what was saved behind is durable, or has failed (see
        save_error). Returns whether that is so."""
        return self._behind.settle(timeout)

    def _put(self, content: Content, number: int = 0) -> Path:
        if self.store is None:
            raise OSError(errno.ENOENT, "there is no folder for checkpoints (FAIRWAY_CHECKPOINT_DIR)")
        return self.store.save(content, number)

    def _write(self, write: Write, done: Optional[float]) -> Any:
        try:
            result = write()
        except Exception as err:  # noqa: BLE001: whatever it was, the work is not saved
            self.save_failed(getattr(err, "strerror", None) or f"{type(err).__name__}: {err}")
            return None
        self.saved(done)
        return result

    def saved(self, done: Optional[float] = None) -> None:
        """Tells the daemon that all work done so far is saved, or that much of it."""
        self.save_error = ""
        self._send(checkpoint=True, saved=done)

    def save_failed(self, why: str) -> None:
        """Tells the daemon that the work could not be saved. A process that was
        asked to stop should train on and try again: what it does not save is lost."""
        if why != self.save_error:
            log.error("cannot save a checkpoint: %s; the previous one is kept", why)
        self.save_error = why
        self._send()

    def complete(self) -> None:
        """Says that the training is over."""
        if self._completed:
            return
        self._completed = True
        self._send(complete=True)
        self.close()

    def leave(self) -> NoReturn:
        """Ends this process because it was asked to: with the exit code that says
        that its work is saved, unless the last save failed."""
        self.settle()
        self.close()
        sys.exit(1 if self.save_error else YIELD)

    def close(self) -> None:
        """Sends what is left, within seconds, and stops reporting. A checkpoint
        that is being written gets the time of a notice."""
        self.settle(self.notice.left(self.env.notice))
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._wake.notify_all()
        self.watch.close()
        # The notice stays installed: a signal that comes now must not turn a
        # good end into a bad one.
        if self._client is not None:
            if self._told < self._reports:
                self._try_to_send()
            self._client.close(min(_FAREWELL, max(0.5, self.notice.left(self.env.notice) / 2)))
            atexit.unregister(self.close)

    # Reports.

    def _report_regularly(self) -> None:
        """Reports every report_seconds, at first more often: a job that ends
        within the first minute is seen too."""
        delay = min(1.0, self.env.report_seconds)
        while True:
            with self._wake:
                self._wake.wait(delay)
                if self._closed:
                    return
            self._try_to_send()
            delay = min(2 * delay, self.env.report_seconds)

    def _try_to_send(self) -> None:
        try:
            self._send()
        except Exception:  # noqa: BLE001: a bad number must not end the reports, or the training
            log.exception("a report could not be made")

    def _send(self, checkpoint: bool = False, complete: bool = False, saved: Optional[float] = None) -> None:
        if self._client is not None:
            report = self._make(checkpoint, complete)
            if saved is not None and saved != report.get("done"):
                report["saved"] = saved
            self._client.send(report, keep=checkpoint or complete)

    def _make(self, checkpoint: bool, complete: bool) -> dict[str, Any]:
        """The api.AgentReport of now."""
        with self._lock:
            self._measure_rate()
            rate = self._rate if checkpoint else min(self._rate, self._ceiling())
            losses, self._losses = self._losses, []
            lazy, self._lazy_loss = self._lazy_loss, None
            lazy_count, self._lazy_count = self._lazy_count, 0
            metrics, self._metrics = self._metrics, {}
            series = self._series.drain()
            self._told = self._reports
            windows, self._windows = self._windows, []
            probes, self._probes = self._probes, []
            point, training = dict(self._point), self._training
            samples = self.profile.drain() if training else []
            parts, self._parts = (self._parts, None) if training else (None, self._parts)
            known = {"done": self._done, "restored": self._restored, "work": self._work or None, "rate": rate or None}
            report: dict[str, Any] = {name: value for name, value in known.items() if value is not None}
            report["can"] = self._can
            if self._resized:
                report["resized"] = self._resized
        if self.save_error:
            report["save_failed"] = self.save_error[:_LONGEST_ERROR]
        if checkpoint:
            report["checkpoint"] = True
        if complete:
            report["complete"] = True
        if series:
            report["series"] = series
        found = links.found()
        if found:
            report["links"] = found
        if windows or probes:
            report["pace"] = {"windows": windows, **({"probes": probes} if probes else {})}
        if training:
            report["training"] = dict(training, samples=[s.to_json() for s in samples[:1000]], **({"parts": parts} if parts else {}))
        loss = math.fsum(losses) / len(losses) if losses else None
        if lazy is not None:
            total = _number(lazy)
            loss = None if total is None else total / lazy_count
        report["point"] = _point(dict(point, done=report.get("done"), rate=report.get("rate")), loss, metrics)
        return report

    def _measure_rate(self) -> None:
        """Measures from the end of a step to the end of a later one."""
        seconds, work = self._last[0] - self._rated[0], self._last[1] - self._rated[1]
        if seconds >= 0.2:
            self._rated = self._last
            self._rate = work / seconds if self._rate == 0 else (self._rate + work / seconds) / 2

    def _ceiling(self) -> float:
        """The most that the rate can be when the last step ended this long ago: a
        training that hangs must not keep its rate."""
        waited, step = time.monotonic() - self._last[0], self._last[1] - self._before[1]
        return 2 * step / waited if waited > 0 else math.inf

    def _answered(self, answer: Answer) -> None:
        if answer.get("stop") is True:
            self.notice.give()
        params = Params.from_json(answer.get("params"))
        if params is not None:
            self.params = params
        noise = answer.get("noise")
        if isinstance(noise, (int, float)) and _usable(noise):
            self.prior_noise = float(noise)


def _point(fields: Mapping[str, Any], loss: Optional[float], metrics: Mapping[str, Any]) -> dict[str, Any]:
    """A api.Point; what is not a finite number is left out."""
    point: dict[str, Any] = {"at": datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")}
    for name, value in fields.items():
        if isinstance(value, (int, float)) and math.isfinite(value):
            point[name] = value
    if loss is not None and math.isfinite(loss):
        point["loss"] = loss
    kept: dict[str, float] = {}
    for name, value in metrics.items():
        number = _number(value)
        if number is not None and len(name.encode()) <= _LONGEST_NAME and len(kept) < _MOST_METRICS:
            kept[name] = number
    if kept:
        point["metrics"] = kept
    return point


def _number(value: Any) -> Optional[float]:
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError):
        return None
    return number if math.isfinite(number) else None


def _usable(value: Any) -> bool:
    return isinstance(value, (int, float)) and value >= 0 and math.isfinite(value)
