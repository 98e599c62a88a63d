"""Gains, and our figures next to published ones, as text cells and as lines for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tabbench.results.formats.axes import Axis, By
from tabbench.results.formats.grid import Grid, Text, interval_text, unit_name
from tabbench.results.formats.names import RowNames
from tabbench.results.formats.notes import kept_notes, left_out_notes, score_notes
from tabbench.results.gains import CONTROLS, GainRow, GainTable
from tabbench.results.published import ComparedCell, PublishedComparison
from tabbench.results.record_lines import ALL_LABELS, RAW
from tabbench.results.statistics import Gain, GainSummary

if TYPE_CHECKING:
    from tabbench.experiment.spec import Control

NO_GAINS = GainSummary(0, 0, 0, 0, None)


def gain_grid(made: GainTable, by: By | None = None) -> Grid:
    """Two lines for each method and model: the gain over raw features, and over the untrained encoder.

    Args:
        made: the table.
        by: an axis to show as columns, each with a summary over datasets instead of one column per dataset.
    """
    return _gains_on_datasets(made) if by is None else _gains_along(made, by)


def _gains_along(made: GainTable, by: By) -> Grid:
    """Summaries over datasets: what fits on a screen, whatever their number."""
    axis = Axis([row.row for row in made.rows], by)
    gains = {id(row.row): row for row in made.rows}
    lines: list[list[Text]] = []
    rules: list[int] = []
    for number, line in enumerate(axis.lines):
        if number in axis.rules:
            rules.append(len(lines))
        rows = [gains.get(id(line.rows.get(value))) for value in axis.values]
        for control in CONTROLS:
            summaries = [NO_GAINS if row is None else row.over(control) for row in rows]
            if any(summary != NO_GAINS for summary in summaries):
                lines.append([Text(text) for text in [*line.names, control, *map(_summary_text, summaries)]])
    about = (
        f"fidelity {made.fidelity}; on how many datasets it helps / hurts / is not shown to do either, and the mean "
        "gain in percent of the error; paired differences, 95 % intervals over splits."
    )
    notes = [about] if lines else []
    notes += axis.settings_notes() + _other_notes(made)
    return Grid([*axis.titles, "gain over", *axis.values], lines, notes, len(axis.titles) + 1, frozenset(rules))


def _summary_text(summary: GainSummary) -> str:
    """``3 / 0 / 1 (+4.2 %)``."""
    if summary == NO_GAINS:
        return ""
    percent = "" if summary.percent is None else f" ({summary.percent:+.1f} %)"
    return f"{_verdicts(summary)}{percent}"


def _verdicts(summary: GainSummary) -> str:
    return f"{summary.helped} / {summary.hurt} / {summary.not_shown + summary.not_estimable}"


def _gains_on_datasets(made: GainTable) -> Grid:
    rows = [row.row for row in made.rows]
    protocols, labels = {row.protocol for row in rows}, {row.labels for row in rows}
    headers = ["SSL", "model"] + ["protocol"] * (len(protocols) > 1) + ["labels"] * bool(labels - {ALL_LABELS})
    names = [*headers, "gain over"]
    headers = [*names, *(f"{name}\n({unit_name(made.units[name])})" for name in made.datasets)]
    headers += ["helps / hurts / not shown", "mean gain\n(% of error)"]
    row_names = RowNames(rows)
    lines: list[list[Text]] = []
    rules: list[int] = []
    for number, row in enumerate(made.rows):
        named = [row_names.ssl(row.row) + " *" * row.row.uses_labels, row.row.model]
        named += [row.row.protocol] * (len(protocols) > 1) + [row.row.labels] * bool(labels - {ALL_LABELS})
        if number and row.row.group != made.rows[number - 1].row.group:
            rules.append(len(lines))
        for control in CONTROLS:
            if row.over(control) != NO_GAINS:
                lines.append([Text(text) for text in [*named, control]] + _gain_cells(made, row, control))
    about = f"fidelity {made.fidelity}; paired differences, better is positive; 95 % intervals over splits."
    notes = [about] if rows else []
    notes += row_names.notes() + _other_notes(made)
    return Grid(headers, lines, notes, len(names), frozenset(rules))


def _other_notes(made: GainTable) -> list[str]:
    uses_labels = any(row.row.uses_labels for row in made.rows)
    notes = ["* uses labels in its first stage."] * uses_labels + kept_notes(made.kept_untrained)
    return notes + left_out_notes(made.left_out)


def _gain_cells(made: GainTable, row: GainRow, control: Control) -> list[Text]:
    summary = row.over(control)
    cells = []
    for name in made.datasets:
        cell = row.cells.get(name)
        gain = None if cell is None else cell.to_none if control == "none" else cell.to_untrained
        cells.append(Text(gain_text(gain), "best" if gain is not None and gain.verdict == "helps" else ""))
    cells.append(Text(_verdicts(summary)))
    return [*cells, Text("-" if summary.percent is None else f"{summary.percent:+.1f}")]


def gain_text(gain: Gain | None) -> str:
    """``+0.012 [+0.003, +0.021] helps``."""
    if gain is None or gain.mean is None:
        return "-"
    text = interval_text(gain.mean, gain.low, gain.high, "+")
    return text if gain.verdict == "not estimable" else f"{text} {gain.verdict}"


def gain_lines(made: GainTable) -> list[list[Any]]:
    """One line per gain, after a line of column names."""
    names = "ssl model variant protocol labels dataset metric control mean low high n verdict percent"
    lines: list[list[Any]] = [names.split()]
    for row in made.rows:
        named = [row.row.ssl, row.row.model, row.row.variant, row.row.protocol, row.row.labels]
        for name, cell in row.cells.items():
            for control, gain in (("none", cell.to_none), ("untrained", cell.to_untrained)):
                if gain is not None:
                    lines.append([*named, name, made.units[name], control, gain.mean, gain.low, gain.high, gain.n,
                                  gain.verdict, gain.percent])  # fmt: skip
    return lines


def compared_grid(made: PublishedComparison, *, brief: bool = False) -> Grid:
    """``own / published (difference)`` in each cell.

    Args:
        made: the comparison.
        brief: without ranks, which are among all rows of each table, and without notes on our own table.
    """
    owns = [row.own for row in made.rows if row.own is not None]
    names = ["SSL", "model"]
    names += ["protocol"] * (len({own.protocol for own in owns} - {RAW}) > 1)
    names += ["labels"] * bool({own.labels for own in owns} - {ALL_LABELS})
    headers = [*names, *made.datasets, *([] if brief else ["own rank", "printed rank", "recomputed rank"])]
    lines: list[list[Text]] = []
    caveats: dict[str, int] = {}
    row_names = RowNames(owns if brief else made.table.rows)
    for row in made.rows:
        line = [row.ssl if row.own is None else row_names.ssl(row.own), row.model]
        line += [getattr(row.own, name, "") for name in names[2:]]
        for name in made.datasets:
            cell = row.cells[name]
            mark = ""
            if cell.published is not None and cell.published.caveat:
                mark = f" [{caveats.setdefault(cell.published.caveat, len(caveats) + 1)}]"
            line.append(_compared(cell) + mark)
        own_rank = None if row.own is None else row.own.average_rank
        ranks = [] if brief else [own_rank, row.published_rank, row.recomputed_rank]
        line += ["" if rank is None else f"{rank:.2f}" for rank in ranks]
        lines.append([Text(text) for text in line])
    rules = made.table.convention
    footnotes = [f"[{number}] {caveat}" for caveat, number in caveats.items()]
    if brief:
        return Grid(headers, lines, footnotes + row_names.notes(), len(names))
    notes = [f"own / published (difference), in the published unit; compared with {made.reference}."]
    notes += [f"Recomputed ranks: from the printed means, ties {rules['ties']}, missing cells {rules['missing']}."]
    return Grid(
        headers, lines, notes + footnotes + score_notes(made.table, with_spread=False, ranked=False), len(names)
    )


def _compared(cell: ComparedCell) -> str:
    own = "-" if cell.own_mean is None else f"{cell.own_mean:.3f}"
    if cell.published is None:
        return own if own != "-" else ""
    difference = "" if cell.difference is None else f" ({cell.difference:+.3f})"
    return f"{own} / {cell.published.mean:.3f}{difference}"


def compared_lines(made: PublishedComparison) -> list[list[Any]]:
    """One line per cell, with full precision and its caveat, after a line of column names."""
    names = "ssl model variant dataset own n published published_std difference caveat own_rank published_rank"
    lines: list[list[Any]] = [[*names.split(), "recomputed_rank"]]
    for row in made.rows:
        own_rank, variant = (None, "") if row.own is None else (row.own.average_rank, row.own.variant)
        for name in made.datasets:
            cell, theirs = row.cells[name], row.cells[name].published
            published = [None, None] if theirs is None else [theirs.mean, theirs.std]
            caveat = "" if theirs is None else theirs.caveat
            lines.append([row.ssl, row.model, variant, name, cell.own_mean, cell.own["n"], *published, cell.difference,
                          caveat, own_rank, row.published_rank, row.recomputed_rank])  # fmt: skip
    return lines
