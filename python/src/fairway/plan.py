# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Execution plans: how a model is laid out over the ranks. The names are those of
the Go package plan."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = re.compile(
    r"(?:(?P<kind>dp|zero|fsdp)(?P<data>[0-9]{1,7}))?-?(?:tp(?P<tensor>[0-9]{1,7}))?-?(?:pp(?P<pipeline>[0-9]{1,7}))?"
    r"(?:/(?P<micro>[0-9]{1,7}))?(?P<offload>\+offload)?(?P<recompute>\+recompute)?"
)


@dataclass(frozen=True)
class Plan:
    """A way to train on data * tensor * pipeline ranks."""

    data: int = 1  # replicas
    tensor: int = 1  # ranks that share each layer
    pipeline: int = 1  # stages
    micro: int = 1  # parts of a replica's batch, one after the other
    kind: str = "fsdp"  # what replicas share: nothing (dp), the optimiser's state (zero), all (fsdp)
    offload: bool = False  # the optimiser's state is on the host
    recompute: bool = False  # activations are computed again for the backward pass

    @property
    def ranks(self) -> int:
        """The ranks that it is for."""
        return self.data * self.tensor * self.pipeline

    def __str__(self) -> str:
        """Its name."""
        parts = []
        if self.data > 1 or self.kind != "dp" or self.tensor * self.pipeline == 1:
            parts.append(f"{self.kind}{self.data}")
        parts += [f"{name}{degree}" for name, degree in (("tp", self.tensor), ("pp", self.pipeline)) if degree > 1]
        micro = f"/{self.micro}" if self.micro > 1 else ""
        return "-".join(parts) + micro + "+offload" * self.offload + "+recompute" * self.recompute


def parse(name: str) -> Plan:
    """Reads a name such as fsdp2-tp2; raises ValueError."""
    if found := _NAME.fullmatch(name):
        data, tensor, pipeline, micro = (int(found[part] or 1) for part in ("data", "tensor", "pipeline", "micro"))
        plan = Plan(data, tensor, pipeline, micro, found["kind"] or "dp", bool(found["offload"]), bool(found["recompute"]))
        if str(plan) == name and min(data, tensor, pipeline, micro) > 0:
            return plan
    raise ValueError(f"plan {name[:40]!r}; want a name such as fsdp4, tp2 or fsdp2-tp2")
