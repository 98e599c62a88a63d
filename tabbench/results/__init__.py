"""Results: records, tables, statistics and pages. ``tabbench.results(folder)`` opens a results folder."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tabbench.results.face import Results


class _Room(ModuleType):
    """The package is also callable: ``tabbench.results(folder)`` opens a results folder."""

    def __call__(self, folder: str | Path = "results") -> Results:
        """The results in a folder.

        Raises:
            UsageError: there are none.
        """
        from tabbench.results.face import open_results

        return open_results(Path(folder))


sys.modules[__name__].__class__ = _Room
