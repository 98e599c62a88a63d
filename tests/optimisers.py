"""What tests of training look at: the settings that an optimiser had in each step."""

from typing import Any

import pytest
import torch


def note_steps(monkeypatch: pytest.MonkeyPatch, optimiser: type[torch.optim.Optimizer]) -> list[dict[str, Any]]:
    """Copies of the first parameter group, one for each step of any ``optimiser`` from now on."""
    seen: list[dict[str, Any]] = []
    step: Any = optimiser.step

    def noted(self: torch.optim.Optimizer, *arguments: Any) -> Any:
        seen.append(dict(self.param_groups[0]))
        return step(self, *arguments)

    monkeypatch.setattr(optimiser, "step", noted)
    return seen
