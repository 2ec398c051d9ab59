# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""A trainer with callbacks: callback.py LOG STEPS. The trainer is a small one that calls
back, saves and resumes as Hugging Face's does; no model is large enough to need more."""

import json
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from fairway.hf import FairwayCallback, last_checkpoint


class Trainer:
    def __init__(self, folder, steps, callback):
        self.folder, self.callback, self.weight = Path(folder), callback, 4.0
        self.state = SimpleNamespace(global_step=0, max_steps=steps)
        self.control = SimpleNamespace(should_save=False, should_training_stop=False)

    def call(self, event, **more):
        result = getattr(self.callback, event)(SimpleNamespace(output_dir=str(self.folder)), self.state, self.control, **more)
        self.control = result if result is not None else self.control

    def train(self, log, resume_from_checkpoint=None):
        if resume_from_checkpoint:
            saved = json.loads((Path(resume_from_checkpoint) / "trainer_state.json").read_text())
            self.state.global_step, self.weight = saved["global_step"], saved["weight"]
        self.call("on_train_begin")
        while self.state.global_step < self.state.max_steps and not self.control.should_training_stop:
            line = {"position": self.state.global_step, "at": time.time(), "loss": self.weight**2, "world": 1,
                    "attempt": int(os.environ.get("FAIRWAY_ATTEMPT", 0))}
            print(json.dumps(line), file=log, flush=True)
            self.call("on_step_begin")
            self.weight -= 0.01 * self.weight
            time.sleep(0.05)
            self.state.global_step += 1
            self.call("on_step_end")
            if self.state.global_step % 10 == 0:
                self.call("on_log", logs={"loss": self.weight**2})
            if self.control.should_save:
                self.save()
        self.call("on_train_end")

    def save(self):
        folder = self.folder / f"checkpoint-{self.state.global_step}"
        folder.mkdir(parents=True)
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": self.state.global_step, "weight": self.weight}))
        self.control.should_save = False
        self.call("on_save")


callback = FairwayCallback()
trainer = Trainer(callback.folder(sys.argv[1] + ".out"), int(sys.argv[2]), callback)
with open(sys.argv[1], "a") as log:
    trainer.train(log, resume_from_checkpoint=last_checkpoint(trainer.folder))
