# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Finds the run of this training in other tools, if the script uses one. Nothing
is imported, and nothing that goes wrong there may disturb the training."""

from __future__ import annotations

import sys
from typing import Any


def found() -> list[dict[str, str]]:
    """The api.Links of the runs that are open in this process."""
    links = []
    for name, find in (("W&B", _wandb), ("MLflow", _mlflow)):
        try:
            url = find()
        except Exception:  # noqa: BLE001
            continue
        if url.startswith(("http://", "https://")) and "@" not in url and len(url.encode()) <= 500:
            links.append({"name": name, "url": url})
    return links


def _wandb() -> str:
    run: Any = getattr(sys.modules.get("wandb"), "run", None)
    return str(getattr(run, "url", None) or "")


def _mlflow() -> str:
    mlflow: Any = sys.modules.get("mlflow")
    run = mlflow.active_run() if mlflow is not None else None
    if run is None:
        return ""
    return f"{mlflow.get_tracking_uri().rstrip('/')}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"
