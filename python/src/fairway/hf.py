# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""A callback for trainers in the style of Hugging Face's. It follows their
protocol without importing them:

    from fairway.hf import FairwayCallback, last_checkpoint

    callback = FairwayCallback()
    args = TrainingArguments(output_dir=callback.folder("out"), save_steps=500, ...)
    trainer = Trainer(model, args, train_dataset=data, callbacks=[callback])
    trainer.train(resume_from_checkpoint=last_checkpoint(args.output_dir))

The trainer keeps its own checkpoints and batch size: the callback makes it save
and leave when it is asked to, and reports steps, losses and metrics.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Mapping, Optional, Union

import fairway
from fairway.agent import Agent
from fairway.meeting import Largest, Meeting, largest_with_torch

_CHECKPOINT = re.compile(r"^checkpoint-(\d+)$")
_STATE = "trainer_state.json"  # what a trainer writes last but for its random states


def last_checkpoint(folder: Union[str, Path]) -> Optional[str]:
    """The newest complete checkpoint that a trainer left in a folder; None for
    a fresh start."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return None
    found = sorted((int(m.group(1)), name) for name in names if (m := _CHECKPOINT.match(name)))
    for _, name in reversed(found):
        state = Path(folder) / name / _STATE
        if state.is_file() and state.stat().st_size > 0:
            return str(Path(folder) / name)
    return None


class FairwayCallback:
    """Links a trainer to Fairway. Work is counted in the trainer's steps. resizes
    says that the job may go on with another number of GPUs: the trainer's batch is
    that of one GPU, so the batch of all of them changes."""

    def __init__(
        self, agent: Optional[Agent] = None, agree: Optional[Largest] = None, agree_every: float = 0.5, resizes: bool = False
    ) -> None:
        self.agent = agent or fairway.init()
        self._meeting = Meeting(self.agent.env.world, agree or largest_with_torch, agree_every)
        self._resizes = resizes
        self._stopping = False
        self._saved = -1  # the last step that the trainer saved

    def folder(self, default: str) -> str:
        """Where the trainer should write: a folder that outlives attempts."""
        kept = self.agent.env.checkpoint_dir
        return str(Path(kept) / "trainer") if kept else default

    # The trainer's protocol. Every method gets (args, state, control, **more).

    def on_train_begin(self, args: Any, state: Any, control: Any, **_more: Any) -> None:
        self.agent.able("resizes" if self._resizes else "saves")
        self.agent.restored(state.global_step, _work(state))
        self._meeting.begin(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **_more: Any) -> Any:
        self.agent.progress(state.global_step, _work(state))
        if not self._stopping:
            (self._stopping,) = self._meeting.ask(state.global_step, self.agent.should_stop())
        if self._stopping:
            control.should_save = True
            control.should_training_stop = True
        return control

    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[Mapping[str, Any]] = None, **_more: Any) -> None:
        numbers = {str(k): v for k, v in (logs or {}).items() if isinstance(v, (int, float))}
        self.agent.report(loss=numbers.pop("loss", None), **numbers)

    def on_save(self, args: Any, state: Any, control: Any, **_more: Any) -> None:
        self.agent.progress(state.global_step, _work(state))
        self._saved = state.global_step
        self.agent.saved()

    def on_train_end(self, args: Any, state: Any, control: Any, **_more: Any) -> None:
        """Leaves if the trainer stopped because it was asked to: what the
        script does after training must wait for the end of training."""
        if self._stopping and state.global_step < state.max_steps:
            if self._saved != state.global_step:
                self.agent.save_failed(f"the trainer stopped at step {state.global_step} without a checkpoint of it")
            self.agent.leave()
        self.agent.complete()

    def __getattr__(self, name: str) -> Any:
        """Events that say nothing to Fairway, those of later versions too."""
        if name.startswith("on_"):
            return lambda *_args, **_more: None
        raise AttributeError(name)


def _work(state: Any) -> Optional[float]:
    return float(state.max_steps) if state.max_steps and state.max_steps > 0 else None
