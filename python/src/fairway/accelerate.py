# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""A training loop of one's own with Hugging Face's Accelerate, which is not imported:

    from fairway.accelerate import Course

    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    course = Course(accelerator, steps=10_000)      # goes on from the last checkpoint
    for batch in course.batches(loader):
        loss = model(**batch).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        course.step(loss)                           # may save, or save and leave

Accelerate writes and reads what prepare() and register_for_checkpointing() have seen.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

import fairway
from fairway.agent import Agent
from fairway.checkpoint import sync_folder
from fairway.meeting import Largest, Meeting, largest_with_torch

log = logging.getLogger("fairway")

_NAME = re.compile(r"^state-(\d{1,18})$")
_UNFINISHED = ".unfinished-"
_KEEP = 2


class Course:
    """Counts the batches of a training, saves its state every so many seconds and when
    asked to stop, and goes on from the newest one. steps is how many batches there are in
    all, on each process. folder, which all processes see, is used outside of Fairway. The place in
    the data depends on the number of processes: the job keeps its size."""

    def __init__(
        self, accelerator: Any, steps: int, *, folder: str = "out", checkpoint_every: float = 300.0,
        agent: Optional[Agent] = None, agree: Optional[Largest] = None,
    ) -> None:  # fmt: skip
        self.agent = agent or fairway.init()
        self.steps, self.done = steps, 0
        self._accelerator, self._every = accelerator, checkpoint_every
        self._largest = agree or largest_with_torch
        kept = self.agent.env.checkpoint_dir
        self._folder = Path(kept) / "accelerate" if kept else Path(folder)
        if accelerator.is_main_process:
            self._folder.mkdir(parents=True, exist_ok=True)
            for old in self._folder.glob(_UNFINISHED + "*"):
                shutil.rmtree(old, ignore_errors=True)  # a crash left it
        accelerator.wait_for_everyone()
        found = self._all()
        if found:
            self.done, path = found[-1]
            accelerator.load_state(str(path))
            log.info("resuming after %d batches", self.done)
        self.agent.able("saves")
        self.agent.restored(self.done, steps)
        self._meeting = Meeting(self.agent.env.world, self._largest)
        self._meeting.begin(self.done)
        self._next = time.monotonic() + checkpoint_every

    def batches(self, loader: Any) -> Iterator[Any]:
        """The batches that are left, of as many epochs as it takes. Say step() after each.
        The loader is one that was prepared; if it shuffles, then by a seedable sampler."""
        size = len(loader)
        if size == 0:
            raise ValueError("the loader has no batches")
        while self.done < self.steps:
            epoch, first = divmod(self.done, size)
            rest = self._accelerator.skip_first_batches(loader, first) if first else loader
            if hasattr(rest, "set_epoch"):
                rest.set_epoch(epoch)
            put_back = _keep_random_state() if first else None
            for batch in rest:
                if put_back is not None:  # to begin in the middle of an epoch has drawn random numbers
                    put_back = put_back()
                before = self.done
                yield batch
                if self.done == before:
                    raise RuntimeError("step(loss) was not called for the previous batch")
                if self.done >= self.steps:
                    break
        self._save()
        self.agent.complete()

    def step(self, loss: Any = None, **metrics: Any) -> None:
        """Says that a batch is done. Saves now and then; if the job was asked to stop, saves
        and ends the process. Work that could not be saved would be lost: then it goes on."""
        self.done += 1
        self.agent.report(loss=loss, **metrics)
        self.agent.progress(self.done, self.steps)
        stop, due = self._meeting.ask(self.done, self.agent.should_stop(), time.monotonic() >= self._next)
        if (stop or due) and self.done < self.steps:
            self._save()
            if stop and not self.agent.save_error:
                log.info("asked to stop: saved a checkpoint after %d batches, exiting", self.done)
                self.agent.leave()

    def _all(self) -> list[tuple[int, Path]]:
        """The checkpoints that are whole, oldest first."""
        names = os.listdir(self._folder)
        return sorted((int(m.group(1)), self._folder / name) for name in names if (m := _NAME.match(name)))

    def _save(self) -> None:
        """Writes a checkpoint, which has its name only when all ranks have written theirs."""
        unfinished = self._folder / f"{_UNFINISHED}{self.done}"
        why = self._try(lambda: self._accelerator.save_state(str(unfinished)))
        if not self._largest(float(bool(why))) and self._accelerator.is_main_process:
            why = self._try(lambda: self._finish(unfinished))
        if self._largest(float(bool(why))):
            self.agent.save_failed(why or "another rank could not write its part")
        else:
            self.agent.saved()
        self._next = time.monotonic() + self._every

    def _finish(self, unfinished: Path) -> None:
        for path in unfinished.rglob("*"):
            if path.is_file():
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
        sync_folder(unfinished)
        path = self._folder / f"state-{self.done}"
        shutil.rmtree(path, ignore_errors=True)
        os.replace(unfinished, path)
        sync_folder(self._folder)
        for _, old in self._all()[:-_KEEP]:
            shutil.rmtree(old, ignore_errors=True)

    @staticmethod
    def _try(act: Any) -> str:
        """Why an act failed; empty: it did not."""
        try:
            act()
            return ""
        except Exception as err:  # noqa: BLE001: whatever it was, the work is not saved
            return getattr(err, "strerror", None) or f"{type(err).__name__}: {err}"


def _keep_random_state() -> Optional[Callable[[], None]]:
    """What puts back the random state of now."""
    if "torch" not in sys.modules:
        return None
    from fairway.torch import state

    kept = state.random_state()
    return lambda: state.set_random_state([kept], 0, 1, 0)
