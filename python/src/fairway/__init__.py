# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Fairway's agent. In a training loop:

    import fairway

    agent = fairway.init()
    for step in range(start, steps):
        ...
        fairway.progress(step + 1, steps)
        fairway.report(loss=loss)
        if fairway.should_stop():
            agent.save(state)
            agent.leave()
    fairway.complete()

For PyTorch, fairway.torch does all of this; for trainers with callbacks,
fairway.hf. Outside of Fairway the same script runs as it is.
"""

from __future__ import annotations

from typing import Any, Optional

from fairway.agent import YIELD, Agent

__version__ = "0.2.0"
__all__ = ["Agent", "YIELD", "complete", "init", "progress", "report", "restored", "save", "should_stop"]

_current: Optional[Agent] = None


def init(**options: Any) -> Agent:
    """Returns the agent of this process; the first call makes it. It must be
    in the main thread, where signals can be caught."""
    global _current
    if _current is None:
        _current = Agent(**options)
    return _current


def report(loss: Any = None, *, step: Optional[float] = None, **metrics: Any) -> None:
    """Gives the daemon numbers for its plots. See Agent.report."""
    init().report(loss, step=step, **metrics)


def progress(done: float, work: Optional[float] = None) -> None:
    """Says how much work is done, and how much there is, in the job's unit."""
    init().progress(done, work)


def restored(done: float, work: Optional[float] = None) -> None:
    """Says how much work the checkpoint holds that this process continues from."""
    init().restored(done, work)


def should_stop() -> bool:
    """Whether the job was asked to save and leave."""
    return init().should_stop()


def save(content: Any) -> Any:
    """Writes a checkpoint and tells the daemon. See Agent.save."""
    return init().save(content)


def complete() -> None:
    """Says that the training is over."""
    init().complete()
