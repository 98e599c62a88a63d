"""Learning-rate and momentum schedules as plain functions of the step."""

import math


def warmup_cosine(step: int, total: int, warmup: int = 0) -> float:
    """Factor of the peak learning rate for ``step`` of ``total`` (from 0): linear warm-up, then cosine to 0.

    The first step of a warm-up already moves: its factor is 1/warmup, not 0.
    """
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(total - warmup, 1)))


def linear(step: int, total: int, start: float, end: float) -> float:
    """From ``start`` at step 0 to ``end`` at the last of ``total`` steps."""
    return start + (end - start) * step / max(total - 1, 1)
