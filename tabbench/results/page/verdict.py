"""The verdict in sentences: the first thing on the page."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tabbench.experiment.controls import untrained
from tabbench.results.gains import GainRow, GainTable
from tabbench.results.page.views import is_control
from tabbench.results.selection import ALL_LABELS, FROZEN
from tabbench.results.statistics import Gain
from tabbench.results.tabulate import Row, ScoreTable

SHOWN = 3
"""Methods with a model whose sentence is seen at once."""


@dataclass(frozen=True)
class Verdict:
    """A headline, and sentences that support or limit it."""

    headline: str
    sentences: list[str]
    more: list[str]
    """On the other methods."""
    limits: list[str]
    """Limits to keep in mind."""


def make_verdict(table: ScoreTable, gains: GainTable) -> Verdict:
    """From the rank table with intervals and the gains of the same records."""
    if not table.rows:
        return Verdict("No results to show yet.", [], [], [])
    methods = [row for row in gains.rows if not row.is_control]
    sentences = [_leader(table)] if len(table.rows) > 1 else []
    told = [_method(row, gains) for row in methods]
    return Verdict(_headline(methods), sentences + told[:SHOWN], told[SHOWN:], _limits(table, methods))


def _headline(methods: list[GainRow]) -> str:
    found = [cell.to_none for row in methods for cell in row.cells.values() if cell.to_none is not None]
    verdicts = Counter(gain.verdict for gain in found)
    if not found:
        return "Nothing here was compared with raw features, so there is no verdict on self-supervision."
    total = len(found) - verdicts["not estimable"]
    if not total:
        better = sum(1 for gain in found if gain.mean is not None and gain.mean > 0)
        return (
            f"No verdict yet: with one split there is no interval. Self-supervision scored better than raw features in "
            f"{better} of {len(found)} comparisons."
        )
    helps, hurts = verdicts["helps"], verdicts["hurts"]
    tail = f"in {_comparisons(total)} with raw features it helps {_times(helps)}, hurts {_times(hurts)}"
    rest = f", and {total - helps - hurts} show no difference." if total > helps + hurts else "."
    if helps and helps >= 2 * hurts:
        how = "helps here" if helps > total / 2 else "helps in some places"
    elif hurts > max(helps, total / 4):
        how = "does more harm than good here"
    else:
        how = "is not shown to help here" if not helps else "helps in some places and hurts in others"
    return f"Self-supervision {how}: {tail}{rest}"


def _comparisons(count: int) -> str:
    return "1 comparison" if count == 1 else f"{count} comparisons"


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def name_of(row: Row) -> str:
    """``tjepa + mlp``, with what is unusual about it."""
    unusual = [row.protocol] if row.protocol not in (FROZEN, "raw") else []
    unusual += [f"{row.labels} labels"] if row.labels != ALL_LABELS else []
    unusual += [row.variant] if row.variant else []
    return f"{row.ssl} + {row.model}" + (f" ({', '.join(unusual)})" if unusual else "")


def _leader(table: ScoreTable) -> str:
    first = table.rows[0]
    if first.average_rank is None:
        return ""
    group = [row for row in table.rows if row.group == first.group]
    level = [row for row in group if row.average_rank == first.average_rank]
    who = name_of(first) if len(level) == 1 else f"{len(level)} rows share it, {name_of(first)} among them"
    text = f"Best average rank: {who}, {first.average_rank:.2f} of {len(group)} rows"
    if not first.rank_group:
        return f"{text}; too few results to tell rows apart."
    tied = sum(1 for row in group if row is not first and set(row.rank_group) & set(first.rank_group))
    if not tied:
        return f"{text}; no other row comes close."
    others = "one other row" if tied == 1 else f"{tied} other rows"
    return f"{text}; {others} cannot be told apart from it."


def _method(row: GainRow, gains: GainTable) -> str:
    found = [cell.to_none for cell in row.cells.values() if cell.to_none is not None]
    if not found:
        return f"{name_of(row.row)} has no raw row to compare with."
    summary, count = row.over_none, len(found)
    tables = f"{count} table{'s' * (count != 1)}"
    if summary.not_estimable == count:
        better = sum(1 for gain in found if gain.mean is not None and gain.mean > 0)
        text = f"{name_of(row.row)} scores better than raw features on {better} of {tables}"
    else:
        text = f"{name_of(row.row)} improves on raw features on {summary.helped} of {tables}"
        text += f", is worse on {summary.hurt}" if summary.hurt else ""
    return f"{text}{_size(row, gains, found)}{_explained(row, gains)}"


def _size(row: GainRow, gains: GainTable, found: list[Gain]) -> str:
    means = [gain.mean for gain in found if gain.mean is not None]
    units = {gains.units[name] for name in row.cells}
    percent = row.over_none.percent
    if len(units) == 1 and means:
        text = f"; on average {sum(means) / len(means):+.3g} in {units.pop()}"
        return text + (f" ({_error(percent)})" if percent is not None else "")
    return f"; on average {_error(percent)}" if percent is not None else ""


def _error(percent: float) -> str:
    return f"{abs(percent):.1f} % {'less' if percent > 0 else 'more'} error"


def _explained(row: GainRow, gains: GainTable) -> str:
    """How much of a gain the encoder has before it is trained."""
    start = next(
        (
            other
            for other in gains.rows
            if other.row.ssl == untrained(row.row.ssl)
            and (other.row.model, other.row.variant, other.row.group, other.row.budget)
            == (row.row.model, row.row.variant, row.row.group, row.row.budget)
        ),
        None,
    )
    percent = row.over_none.percent
    if start is None or percent is None or start.over_none.percent is None:
        return "."
    before = start.over_none.percent
    if percent <= 0:
        return "."
    if before <= 0:
        return "; its untrained encoder explains none of that."
    return f"; its untrained encoder explains {min(100 * before / percent, 999):.0f} % of that."


def _limits(table: ScoreTable, methods: list[GainRow]) -> list[str]:
    sentences = []
    if table.fidelity and table.fidelity.startswith("quick"):
        sentences.append("These are quick runs: they show that things work, not how good they can be.")
    compared = [cell.to_none for row in methods for cell in row.cells.values() if cell.to_none is not None]
    estimated = sum(1 for gain in compared if gain.verdict != "not estimable")
    if estimated >= 10:
        sentences.append(f"Of {estimated} comparisons at 95 %, about {estimated / 20:.0f} would differ by chance.")
    small = [name for name in table.datasets if table.has_few_test_rows(name)]
    if small:
        names = ", ".join(small[:3]) + (" and others" if len(small) > 3 else "")
        sentences.append(f"Fewer than 50 test rows on {names}: scores there are coarse.")
    if methods and not any(is_control(row.ssl) and row.protocol != "raw" for row in table.rows):
        sentences.append("Untrained encoders were not run, so it is unclear how much of a gain is due to training.")
    return sentences
