"""Published figures from CSV files, with caveats from TOML files next to them."""

import csv
import tomllib
from importlib import resources
from typing import Any

from tabbench import PublishedCell, Reference

AVERAGE_RANK = "AVG_RANK"


class PublishedTables(Reference):
    """The figures of a paper as printed.

    The caveats file is a list of ``[[caveat]]`` tables. One holds for the cells that agree with all of its keys
    ``table``, ``ssl``, ``model`` and ``dataset`` (each a name or a list of names); ``text`` is the caveat, and
    ``compares_with`` names our metric in the unit of the figure, where that is not the printed one.
    """

    def __init__(self, figures: str, caveats: str) -> None:
        folder = resources.files(__package__)
        with folder.joinpath(figures).open(encoding="utf-8") as file:
            self._lines = list(csv.DictReader(file))
        self._caveats: list[dict[str, Any]] = tomllib.loads(folder.joinpath(caveats).read_text(encoding="utf-8"))[
            "caveat"
        ]

    def cells(self) -> list[PublishedCell]:
        return [self._cell(line) for line in self._lines if line["dataset"] != AVERAGE_RANK and line["mean"]]

    def printed_ranks(self) -> dict[tuple[str, str, str], float]:
        return {
            (line["table"], line["ssl"], line["model"]): float(line["mean"])
            for line in self._lines
            if line["dataset"] == AVERAGE_RANK
        }

    def _cell(self, line: dict[str, str]) -> PublishedCell:
        found = [caveat for caveat in self._caveats if _holds(caveat, line)]
        units = [caveat["compares_with"] for caveat in found if "compares_with" in caveat]
        return PublishedCell(
            table=line["table"],
            ssl=line["ssl"],
            model=line["model"],
            dataset=line["dataset"],
            metric=line["metric"],
            mean=float(line["mean"]),
            std=float(line["std"]) if line["std"] else None,
            caveat="; ".join(caveat["text"] for caveat in found),
            compares_with=units[0] if units else "",
            protocol=line.get("protocol", ""),
            labels=line.get("labels", ""),
        )


def _holds(caveat: dict[str, Any], line: dict[str, str]) -> bool:
    for key in ("table", "ssl", "model", "dataset"):
        wanted = caveat.get(key, line[key])
        if line[key] not in (wanted if isinstance(wanted, list) else [wanted]):
            return False
    return True
