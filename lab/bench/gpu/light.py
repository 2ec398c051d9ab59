# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Trains a model of lab/profiling's catalogue for a number of steps, with the agent:
light.py MODEL BATCH STEPS. Prints how long it trained, without the start."""

from __future__ import annotations

import argparse
import io
import time

import fairway
import torch
from fairway_profiling.worker import AHEAD, Trainer


def main() -> None:
    """Trains from the last checkpoint to the last step, or until asked to stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("batch", type=int)
    parser.add_argument("steps", type=int)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    agent = fairway.init()
    trainer = Trainer(args.model)
    trainer.begin(args.device)
    trainer.prepare(args.batch)  # loads the kernels
    first = 0
    saved = agent.store.load() if agent.store else None
    if saved:
        state = torch.load(io.BytesIO(saved), map_location=args.device)
        trainer.model.load_state_dict(state["model"])
        trainer.optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    fairway.restored(first, args.steps)
    began, marks = time.monotonic(), []
    for step in range(first, args.steps):
        loss = trainer.step()
        marks.append(trainer.mark())
        if trainer.cuda and len(marks) > AHEAD:
            marks.pop(0).synchronize()
        fairway.progress(step + 1, args.steps)
        if agent.should_stop():
            content = io.BytesIO()
            torch.save({"step": step + 1, "model": trainer.model.state_dict(), "optimizer": trainer.optimizer.state_dict()}, content)
            if agent.save(content.getvalue()):
                print(f"left at step {step + 1}, after {time.monotonic() - began:.3f} s", flush=True)
                agent.leave()
    trainer.wait()
    print(f"trained {args.steps - first} steps in {time.monotonic() - began:.3f} s, last loss {loss.item():.4g}", flush=True)
    fairway.complete()


if __name__ == "__main__":
    main()
