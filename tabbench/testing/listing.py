"""Promises of references and data schemes."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

from tabbench.contracts import PublishedCell
from tabbench.errors import TabbenchError
from tabbench.testing.common import require
from tabbench.testing.subject import Subject, temporary_folder


def check_cells_are_sound(subject: Subject) -> None:
    """Figures are numbers, spreads are not negative, and no cell is there twice."""
    cells = subject.make().cells()
    require(bool(cells), "it has no figures")
    for cell in cells:
        require(isinstance(cell, PublishedCell), f"cells gave a {type(cell).__name__}, not a PublishedCell")
        where = f"{cell.table}, {cell.ssl} + {cell.model} on {cell.dataset}"
        require(math.isfinite(cell.mean), f"{where}: {cell.mean} is not a number")
        require(cell.std is None or cell.std >= 0, f"{where}: the spread {cell.std} is negative")
    keys = [(c.table, c.ssl, c.model, c.dataset, c.metric, c.protocol, c.labels) for c in cells]
    twice = [key for key, number in Counter(keys).items() if number > 1]
    require(not twice, f"duplicate cell: {', '.join(map(str, twice[:1]))}")
    subject.note = f"{len(cells)} cells"


def check_wrong_reference_is_refused(subject: Subject) -> None:
    """An unknown reference is refused with a sentence, without the network."""
    with temporary_folder() as folder:
        try:
            found = subject.make().expand(f"{subject.name}:no/such table", Path(folder), offline=True)
        except TabbenchError as refusal:
            subject.note = f"refused: {refusal}"
            return
    require(False, f"'no/such table' was taken for {', '.join(found)}")


REFERENCE_CHECKS = (check_cells_are_sound,)
SCHEME_CHECKS = (check_wrong_reference_is_refused,)
