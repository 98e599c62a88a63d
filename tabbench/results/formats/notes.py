"""The notes below a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tabbench.results.formats.names import RowNames
from tabbench.results.json_shapes import KeptUntrained, LeftOut
from tabbench.results.record_lines import RAW
from tabbench.results.score_table import FEW_TEST_ROWS
from tabbench.results.selection import describe_budget

if TYPE_CHECKING:
    from tabbench.results.row_settings import SharedSettings
    from tabbench.results.score_table import Cell, Row, ScoreTable

NOTES = 5
"""How many notes on datasets are printed."""
REMEDIES = {
    "test rows also occur in training": "run again with --duplicates group, which keeps identical rows on one side"
}
"""What the user can do about a flag."""
NAMED = 4
"""How many rows to name for each reason to leave records out."""


def score_notes(
    made: ScoreTable, with_spread: bool = True, ranked: bool = True, settings: Sequence[str] | None = None
) -> list[str]:
    """The notes below a table of scores.

    Args:
        made: the table.
        with_spread: whether cells show their spread.
        ranked: whether cells show ranks.
        settings: notes on the rows' settings; by default, those of ``RowNames``.
    """
    told = RowNames(made.rows).notes() if settings is None else settings
    lines = [_about_cells(made, with_spread)] if made.rows else []
    lines += [*_ranks(made), *_criteria(made)] if ranked else []
    lines += [*told, *_groups(made), *kept_notes(made.kept_untrained), *_coverage(made), *_data_notes(made)]
    return lines + left_out_notes(made.left_out)


def board_notes(made: ScoreTable, settings: SharedSettings) -> list[str]:
    """The notes below the main table of a page, which itself says what cells show, and lists skipped pairs and notes on
    datasets."""
    left_out = [item for item in made.left_out if {"key", "records"} & item.keys()]
    return score_notes(replace(made, left_out=left_out, data_notes={}), with_spread=False, settings=settings.notes())


def _ranks(made: ScoreTable) -> list[str]:
    if not made.rows or made.metric != "rank":
        return []
    missing = {"last": "missing cells are ranked last", "skip": "missing cells are not ranked"}
    return [
        f"Ranks in parentheses: per dataset on means, ties get the {made.convention['ties']} rank, "
        f"{missing[made.convention['missing']]}."
    ]


def _criteria(made: ScoreTable) -> list[str]:
    """What letters mean, or why there are none."""
    told = list(dict.fromkeys(made.criteria.values()))
    if len(told) < 2:
        return told
    if any(row.rank_group for row in made.rows):
        return ["Rows of a group that share a letter cannot be told apart (95 %, over datasets and splits)."]
    return ["No rank groups: rows have too few results (splits, summed over datasets) to tell them apart."]


def _groups(made: ScoreTable) -> list[str]:
    lines = []
    if len({row.group for row in made.rows}) > 1:
        lines.append("Each group has its own ranks.")
    if len({row.group.protocol for row in made.rows}) > 1 and any(row.protocol == RAW for row in made.rows):
        lines.append("Raw rows are shown with every protocol; they were run once.")
    if any(row.uses_labels for row in made.rows):
        lines.append("* uses labels in its first stage: ranked separately from label-free rows.")
    if any(made.has_few_test_rows(name) for name in made.datasets):
        lines.append(f"† fewer than {FEW_TEST_ROWS} test rows: a single row changes the score a lot.")
    return lines


def _data_notes(made: ScoreTable) -> list[str]:
    told = [
        f"note on {name}: {note}"
        for name in made.datasets
        for note in made.data_notes.get(name, [])
        if not (note.startswith("only ") and made.has_few_test_rows(name))  # the dagger says it already
    ]
    more = len(told) - NOTES
    if more <= 0:
        return told
    return [*told[:NOTES], f"{more} more {'note' if more == 1 else 'notes'}: see tabbench report, or --format json."]


def _about_cells(made: ScoreTable, with_spread: bool) -> str:
    counts = sorted({cell.n for row in made.rows for cell in row.cells.values() if cell.n}) or [0]
    number = "-".join(str(count) for count in (counts[0], counts[-1])) if len(counts) > 1 else str(counts[0])
    records = "1 record per cell" if number == "1" else f"{number} records per cell"
    if with_spread and counts[-1] > 1:
        spread = "95 % interval over splits" if made.criteria else "standard deviation over splits and seeds"
        records += f", mean with its {spread}" if made.criteria else f", mean ± {spread}"
    return f"fidelity {made.fidelity}; {describe_tuning(made.rows)}; {records}."


def describe_tuning(rows: Iterable[Row]) -> str:
    """How the rows of a table were tuned; parts with nothing to tune in any row are not counted."""
    rows = list(rows)
    if len({row.budget for row in rows}) != 1:
        return "different tuning budgets"
    methods, models = rows[0].budget
    methods *= any(row.tuned[0] for row in rows)
    models *= any(row.tuned[1] for row in rows)
    if any(rows[0].budget) and not (methods or models):
        return "nothing to tune"
    if models and not methods and rows[0].budget[0]:
        return f"models tuned with {models} trials, SSL methods have nothing to tune"
    if methods and not models and rows[0].budget[1]:
        return f"SSL methods tuned with {methods} trials, models have nothing to tune"
    return describe_budget((methods, models))


def row_name(row: Row) -> str:
    return f"{row.ssl} + {row.model}"


def _coverage(made: ScoreTable) -> list[str]:
    """Say which results do not count because other rows lack them, and which cells are partial."""
    more: dict[str, str] = {}
    for row in made.rows:
        for name, cell in row.cells.items():
            if cell.aside and cell.n:
                more.setdefault(row_name(row), f"{_more(cell)} on {name}")
    lines = []
    if more:
        named = [f"{name} has {text}" for name, text in list(more.items())[:NAMED]]
        rest = f"; {len(more) - NAMED} more rows have more results too" if len(more) > NAMED else ""
        lines.append(
            f"left aside: {'; '.join(named)}{rest}. Rows are compared on the splits and seeds that all of them have "
            "(--common none shows all)."
        )
    cells = [cell for row in made.rows for cell in row.cells.values()]
    if any(cell.found and not cell.n for cell in cells):
        lines.append("not shared: no split and seed is common to all rows here (--common none shows each row's own).")
    if any(cell.is_partial for cell in cells):
        lines.append("n/m: the row has n of the m results here.")
    if made.convention["common"] == "none" and any(cell.is_partial for cell in cells):
        lines.append("No ranks where rows have different splits or seeds.")
    if any(not cell.found and cell.incomplete for cell in cells):
        lines.append("left out: all records of this cell failed or are flagged.")
    return lines


def _more(cell: Cell) -> str:
    """``4 more splits``, or ``results`` if only some seeds of a split are compared."""
    compared = {split for split, _ in cell.results}
    aside = {split for split, _ in cell.found if split not in compared}
    whole = all(split in aside for split, seed in cell.found if (split, seed) not in cell.results)
    count, word = (len(aside), "split") if whole else (cell.aside, "result")
    return f"{count} more {word}{'s' * (count != 1)}"


def kept_notes(kept: Sequence[KeptUntrained]) -> list[str]:
    """One line on the methods whose rows repeat those of their control."""
    named = [f"{item['ssl']} on {item['data']} ({item['kept']} of {item['encoders']} encoders)" for item in kept]
    names = ", ".join(named[:NAMED]) + (f" and {len(named) - NAMED} more" if len(named) > NAMED else "")
    return [f"untrained weights kept, as no epoch was better on validation: {names}"] if named else []


def left_out_notes(left_out: Sequence[LeftOut]) -> list[str]:
    """One line per reason, with the rows that it affects."""
    lines = [f"left out: {_records(item['records'])}, {item['reason']}" for item in left_out if "records" in item]
    places: dict[str, Counter[str]] = {}
    for item in left_out:
        if "key" in item:
            place = f"{item['ssl']} + {item['model']} on {item['data']}"
            places.setdefault(str(item["reason"]), Counter())[place] += 1
    for reason, hit in sorted(places.items(), key=lambda pair: -pair[1].total()):
        names = ", ".join(list(hit)[:NAMED]) + (f" and {len(hit) - NAMED} more" if len(hit) > NAMED else "")
        remedies = [remedy for flag, remedy in REMEDIES.items() if flag in reason]
        lines.append(f"left out: {_records(hit.total())} of {names}: {'; '.join([reason, *remedies])}")
    return lines + [f"skipped: {text}" for text in skipped_pairs(left_out)]


def skipped_pairs(left_out: Sequence[LeftOut]) -> list[str]:
    """Pairs that were skipped, and why; methods with the same model, place and reason share a line."""
    methods: dict[tuple[str, ...], list[str]] = {}
    for item in left_out:
        if not {"key", "records"} & item.keys():
            labels = f"{item['labels']} labels" if item.get("labels") else ""
            place = ", ".join(filter(None, [item.get("protocol"), item.get("data"), labels]))
            hit = methods.setdefault((str(item.get("model")), place, str(item.get("reason"))), [])
            hit += [name for name in [str(item.get("ssl"))] if name not in hit]
    found = []
    for (model, place, reason), hit in methods.items():
        few = hit[:NAMED] if len(hit) > NAMED + 1 else hit
        names = ", ".join(few) + (f" and {len(hit) - len(few)} more methods" if len(hit) > len(few) else "")
        found.append(f"{names} + {model} ({place}): {reason}")
    return found


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"
