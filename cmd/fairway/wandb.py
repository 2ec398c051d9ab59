# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

# Logs a job, which is read from standard input, as a run of W&B.
import json
import os
import sys

try:
    import wandb
except ImportError:
    sys.exit(f"{sys.executable} has no wandb: activate an environment that has, or run {sys.executable} -m pip install wandb")

job = json.load(sys.stdin)
run = wandb.init(
    project=job["project"], id=job["id"], name=job["name"], group=job["app"], notes=job["notes"], config=job["params"], settings=wandb.Settings(console="off")
)
run.define_metric("step")
run.define_metric("*", step_metric="step")
rows = {}
for metric in job["metrics"]:
    for step, at, value in zip(metric["steps"], metric["at"], metric["values"]):
        rows.setdefault(step, {"step": step}).update({metric["name"]: value, "_timestamp": at})
for step in sorted(rows):
    run.log(rows[step])
place = run.url or os.path.dirname(run.dir)
run.finish(exit_code=job["code"])
print(place)
