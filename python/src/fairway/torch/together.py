# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Several optimisers, or several schedulers, as one."""

from __future__ import annotations

from typing import Any, Mapping, Sequence


def parts_of(item: Any) -> list[Any]:
    """The optimisers or schedulers of which one is made."""
    return item.parts if isinstance(item, Together) else [item]


def together(item: Any) -> Any:
    """One for a list or tuple of them; another is returned as it is."""
    if not isinstance(item, (list, tuple)):
        return item
    if not item:
        raise ValueError("the list of optimisers is empty; want at least one")
    return item[0] if len(item) == 1 else Together(item)


def check_count(item: Any, state: Any) -> None:
    """Raises unless a state was that of as many."""
    kept, here = len(state) if isinstance(state, list) else 1, len(parts_of(item))
    if kept != here:
        raise ValueError(f"the checkpoint is of {kept} optimisers or schedulers, and the script has {here}; it cannot go on from it")


class Together:
    """All parts are stepped at every step."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = list(parts)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for part in self.parts for group in part.param_groups]

    @property
    def state(self) -> Mapping[Any, Any]:
        return {key: value for part in self.parts for key, value in part.state.items()}

    def step(self) -> None:
        for part in self.parts:
            part.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none=set_to_none)

    def state_dict(self) -> list[Any]:
        return [part.state_dict() for part in self.parts]

    def load_state_dict(self, states: Sequence[Any]) -> None:
        for part, state in zip(self.parts, states):
            part.load_state_dict(state)
