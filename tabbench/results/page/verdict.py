"""The verdict in sentences: the first thing on the page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from tabbench.experiment.controls import untrained
from tabbench.results.formats.grid import figure, unit_name
from tabbench.results.gains import GainRow, GainTable
from tabbench.results.page.views import group_title, is_control
from tabbench.results.record_lines import ALL_LABELS, FROZEN, RAW
from tabbench.results.row_settings import SharedSettings, listed, split_settings
from tabbench.results.score_table import FEW_TEST_ROWS, LOWER_IS_BETTER, Row, ScoreTable
from tabbench.results.statistics import Gain, summarise_gains

NO_INTERVAL = "No verdict yet: with one split there is no interval."
SHOWN = 3
"""How many methods' sentences are visible at once."""


@dataclass(frozen=True)
class Conclusion:
    """A headline, and sentences that support or limit it."""

    headline: str
    sentences: list[str]
    more: list[str]
    """Sentences on other methods, protocols and numbers of labels."""
    limits: list[str]
    """Limits to keep in mind."""


def make_verdict(table: ScoreTable, gains: GainTable) -> Conclusion:
    """Make the verdict from the rank table with intervals and the gains of the same records."""
    if not table.rows:
        lost = sum(int(item.get("records", 1)) for item in table.left_out if {"key", "records"} & item.keys())
        none = f"No result can be shown: {_all(lost)} left out." if lost else "No results to show yet."
        return Conclusion(none, [], [], [])
    methods = [row for row in gains.rows if not row.is_control]
    alike = SharedSettings(table.rows)
    sentences = [_leader(table, alike)] if len(table.rows) > 1 else []
    ordered = _bundles(methods)
    told = [_method(bundle, gains, alike) for bundle in ordered]
    seen = min(SHOWN, sum(1 for bundle in ordered if bundle[0].row.group == methods[0].row.group))
    return Conclusion(_headline(methods), sentences + told[:seen], told[seen:], _limits(table, methods))


def tell(gains: GainTable) -> list[str]:
    """The verdict as lines for a terminal: the headline and a sentence for each method; empty without a method."""
    methods = [row for row in gains.rows if not row.is_control]
    alike = SharedSettings([row.row for row in gains.rows])
    if not methods:
        return []
    told = [_method(rows, gains, alike) for rows in _bundles(methods)]
    headline = _headline(methods)
    # With a single method, its own sentence has the same count.
    return [NO_INTERVAL if len(told) == 1 and headline.startswith(NO_INTERVAL) else headline, *told]


def _bundles(methods: list[GainRow]) -> list[list[GainRow]]:
    """The rows of each method with all its models, group by group, the largest gain first."""
    bundles: dict[tuple[object, ...], list[GainRow]] = {}
    for row in methods:
        settings, _ = split_settings(row.row.variant, row.row.model)
        bundles.setdefault((row.row.group, row.row.ssl, settings, row.row.budget), []).append(row)
    groups = list(dict.fromkeys(row.row.group for row in methods))
    return sorted(bundles.values(), key=lambda rows: (groups.index(rows[0].row.group), -_mean_percent(rows)))


def _headline(methods: list[GainRow]) -> str:
    found = [cell.to_none for row in methods for cell in row.cells.values() if cell.to_none is not None]
    verdicts = Counter(gain.verdict for gain in found)
    if not found:
        return "Nothing here was compared with raw features, so there is no verdict on self-supervision."
    total = len(found) - verdicts["not estimable"]
    if not total:
        better = sum(1 for gain in found if gain.mean is not None and gain.mean > 0)
        return f"{NO_INTERVAL} Self-supervision " + (
            f"scored better than raw features in {better} of {len(found)} comparisons."
            if len(found) > 1
            else f"{'scored' if better else 'did not score'} better than raw features in the one comparison."
        )
    helps, hurts = verdicts["helps"], verdicts["hurts"]
    if not helps and not hurts:
        shown = "the one comparison with raw features shows no clear difference"
        if total > 1:
            shown = f"none of {total:,} comparisons with raw features shows a clear difference"
        return f"Self-supervision is not shown to help here: {shown}."
    tail = _counted(helps, hurts, total)
    if helps and helps >= 2 * hurts:
        how = "helps here" if helps > total / 2 else "helps in some places"
    elif hurts > max(helps, total / 4):
        how = "does more harm than good here"
    else:
        how = "is not shown to help here" if not helps else "helps in some places and hurts in others"
    return f"Self-supervision {how}: {tail}."


def _counted(helps: int, hurts: int, total: int) -> str:
    """``of 18 comparisons with raw features, 11 show a gain, 1 a loss and 6 no clear difference``."""
    outcomes = {"a gain": helps, "a loss": hurts, "no clear difference": total - helps - hurts}
    found = {name: count for name, count in outcomes.items() if count}
    if len(found) == 1:
        who = {1: "the one comparison", 2: "both comparisons"}.get(total, f"all {total:,} comparisons")
        return f"{who} with raw features {'shows' if total == 1 else 'show'} {next(iter(found))}"
    parts = [f"{count:,} {name}" for name, count in found.items()]
    parts[0] = parts[0].replace(" ", " shows " if next(iter(found.values())) == 1 else " show ", 1)
    if not helps:
        parts = ["none shows a gain", parts[0], *parts[1:]]
    return f"of {total:,} comparisons with raw features, {listed(parts)}"


def _all(records: int) -> str:
    return {1: "the one record was", 2: "both records were"}.get(records, f"all {records} records were")


def name_of(row: Row, settings: SharedSettings | None = None) -> str:
    """``tjepa + mlp``, with what is unusual about it, but without the shared ``settings``, if given."""
    unusual = [row.protocol] if row.protocol not in (FROZEN, "raw") else []
    unusual += [f"{row.labels} labels"] if row.labels != ALL_LABELS else []
    tag = row.variant if settings is None else settings.tag(row.variant, row.ssl)
    unusual += [tag] if tag else []
    return f"{row.ssl} + {row.model}" + (f" ({', '.join(unusual)})" if unusual else "")


def _leader(table: ScoreTable, alike: SharedSettings) -> str:
    first = table.rows[0]
    if first.average_rank is None:
        return ""
    group = [row for row in table.rows if row.group == first.group]
    level = [row for row in group if row.average_rank == first.average_rank]
    name = name_of(first, alike)
    who = f"{name}, {_value(first, table)} among {len(group)} rows"
    if len(level) > 1:
        who = f"{_value(first, table)}, shared by {len(level)} of {len(group)} rows, including {name}"
    where = f" ({group_title(first.group)})" if len(table.groups) > 1 else ""
    text = f"{_best(table)}{where}: {who}"
    tied = sum(1 for row in group if row not in level and set(row.rank_group) & set(first.rank_group))
    it = "it" if len(level) == 1 else "them"
    others = f"{'one other row' if tied == 1 else f'{tied} other rows'} cannot be told apart from {it}"
    if not first.rank_group:
        others = "there are too few results to tell rows apart"
    elif not tied:
        others = f"no other row comes close to {it}"
    elif tied == len(group) - len(level):
        others = "the rows cannot be told apart"
    raw = next((row for row in group if row.protocol == RAW and row.average_rank is not None), None)
    if raw is None or raw in level:
        return f"{text}; {others}."
    return f"{text}; {others}. Best without self-supervision: {name_of(raw, alike)}, {_value(raw, table)}."


def _best(table: ScoreTable) -> str:
    """What to call the best row's value: on one dataset a score says more than a rank."""
    if len(table.datasets) > 1:
        return "Best average rank"
    unit = table.units[table.datasets[0]]
    return f"{'Lowest' if unit in LOWER_IS_BETTER else 'Highest'} {unit_name(unit)}"


def _value(row: Row, table: ScoreTable) -> str:
    return f"{row.average_rank:.2f}" if len(table.datasets) > 1 else figure(row.cells[table.datasets[0]].mean)


def _method(rows: Sequence[GainRow], gains: GainTable, alike: SharedSettings) -> str:
    """A sentence on a method with its models in a group: where it helps, by how much, and what training adds."""
    row = rows[0].row
    cells = [(each, name, gain) for each in rows for name, cell in each.cells.items() if (gain := cell.to_none)]
    unusual = [row.protocol] if row.protocol != FROZEN else []
    unusual += [f"{row.labels} labels"] if row.labels != ALL_LABELS else []
    unusual += [tag] if (tag := alike.tag(split_settings(row.variant, row.model)[0], row.ssl)) else []
    who = row.ssl + (f" ({', '.join(unusual)})" if unusual else "")
    if not cells:
        return f"{who} has no raw row to compare with."
    found = [gain for _, _, gain in cells]
    summary = summarise_gains(found)
    text = f"{who} {_deed(rows, sorted({name for _, name, _ in cells}), found)}"
    tables = {name for _, name, _ in cells}
    if len(tables) > 1:
        percent = _median_percent(found)
        text += _typical_size(percent)
    else:
        # Where raw features make no error, there is no percentage of it; one of the other models would mislead.
        percent = None if any(gain.percent is None for gain in found) else summary.percent
        plain = summary.helped > 0 and not summary.hurt
        text += _size(found, gains.units[tables.pop()], percent, plain)
    gained = (summary.helped or summary.not_estimable == len(cells)) and (percent or 0) > 0
    return f"{text}{_explained(cells, gains) if gained else ''}."


def _deed(rows: Sequence[GainRow], tables: Sequence[str], found: Sequence[Gain]) -> str:
    """``improves mlp on 2 of 4 tables``: a model on some tables, some models on a table, or comparisons of both."""
    models = sorted({each.row.model for each in rows})
    count, summary = len(found), summarise_gains(found)
    verb, what, among, again = "improve", "", f" of {count} models on {tables[0]}", ""
    if count == 1:
        what, among = f" {models[0]} on {tables[0]}", ""
    elif len(models) == 1:
        what, among, again = f" {models[0]} on", f" of {count} tables", " it on"
    elif len(tables) > 1:
        verb, what, again = "help", " in", " in"
        among = f" of {count} comparisons ({len(models)} models, {len(tables)} tables)"
    if summary.not_estimable == count:
        better = sum(1 for gain in found if gain.mean is not None and gain.mean > 0)
        beside = f"{' with' if verb == 'improve' else ''}{what}" + (f" {better}{among}" if among else "")
        return f"scores {'better' if among or better else 'no better'} than raw features{beside}"
    if not summary.helped and not summary.hurt:
        return f"is not shown to {verb}{what}" + (f" any{among}" if among else "")
    if not among:
        return f"{'improves' if summary.helped else 'hurts'}{what}"
    if summary.helped == count:
        every = "both" if count == 2 else f"all {count}"
        return f"{verb}s{what} {every}{among.removeprefix(f' of {count}')}"
    hurts = f" and hurts{again} {summary.hurt}" if summary.hurt else ""
    return f"{verb}s{what} {summary.helped or 'none'}{among}{hurts}"


def _mean_percent(rows: Sequence[GainRow]) -> float:
    """By how many percent the error falls, over all models and datasets."""
    return summarise_gains(cell.to_none for row in rows for cell in row.cells.values() if cell.to_none).percent or 0.0


def _median_percent(found: Sequence[Gain]) -> float | None:
    """Where raw features make no error, a method that makes some is worse by more than any percentage."""
    percents = [-math.inf if _is_beyond_percent(gain) else 0.0 if gain.mean == 0 else gain.percent for gain in found]
    known = [percent for percent in percents if percent is not None]
    return median(known) if known else None


def _is_beyond_percent(gain: Gain) -> bool:
    return gain.percent is None and gain.mean is not None and gain.mean < 0


def _typical_size(percent: float | None) -> str:
    """How large gains over several tables are.

    The median, because a table with few errors can make the mean whatever it likes (from 1 to 3 errors is 200 % more),
    even against the count of comparisons that the sentence begins with. Units of several tables have no common mean.
    """
    if percent is None:
        return ""
    if math.isinf(percent):
        return "; in the median comparison, the error is higher"
    if abs(percent) < 0.05:
        return "; in the median comparison, the error is the same"
    return f"; in the median comparison, the error is {abs(percent):.1f} % {'lower' if percent > 0 else 'higher'}"


def _size(found: Sequence[Gain], unit: str, percent: float | None, helped: bool) -> str:
    """How large gains on one table are on average: in its unit, and in percent of the raw error."""
    means = [gain.mean for gain in found if gain.mean is not None]
    if not means:
        return ""
    mean = sum(means) / len(means)
    small = abs(percent) < 0.05 if percent is not None else abs(mean) < 1e-9
    error = "" if percent is None else f"{abs(percent):.1f} % {'less' if percent > 0 else 'more'} error"
    if small:
        return "; no difference on average" if len(means) > 1 else ""
    unit = unit_name(unit)
    average = " on average" if len(means) > 1 else ""
    size = f", by {mean:.3g} in {unit}{average}"
    if not helped or mean < 0:
        size = f";{average} {abs(mean):.3g} {'better' if mean > 0 else 'worse'} in {unit}"
    return size + (f" ({error})" if error else "")


def _explained(cells: Sequence[tuple[GainRow, str, Gain]], gains: GainTable) -> str:
    """How much of a gain the untrained encoder already has, where both were run."""
    places = {(other.row.ssl, other.row.model, other.row.variant, other.row.group, other.row.budget): other
              for other in gains.rows if other.is_control}  # fmt: skip
    trained, before = [], []
    tables = {name for _, name, _ in cells}
    for each, name, gain in cells:
        row = each.row
        start = places.get((untrained(row.ssl), row.model, row.variant, row.group, row.budget))
        cell = None if start is None else start.cells.get(name)
        if cell and cell.to_none and cell.to_none.percent is not None and gain.percent is not None:
            trained.append(gain.percent)
            before.append(cell.to_none.percent)
    # Over several tables the median on both sides, as for the gain itself: one table with few errors decides the mean.
    typical = median if len(tables) > 1 else fmean
    if not trained or typical(trained) <= 0:
        return ""
    share = typical(before) / typical(trained)
    if share <= 0:
        return "; its untrained encoder explains none of the gain"
    if share >= 1:
        # Over several models or tables this hides where training did help.
        where = "" if len(trained) == 1 else "at the median, " if len(tables) > 1 else "on average, "
        return f"; {where}its untrained encoder does at least as well"
    return f"; its untrained encoder explains {100 * share:.0f} % of the gain"


def _limits(table: ScoreTable, methods: list[GainRow]) -> list[str]:
    sentences = []
    if table.fidelity and table.fidelity.startswith("quick"):
        sentences.append("These are quick runs: they show that things work, not how good they can be.")
    compared = [cell.to_none for row in methods for cell in row.cells.values() if cell.to_none is not None]
    estimated = sum(1 for gain in compared if gain.verdict != "not estimable")
    if estimated >= 10:
        chance = f"about {estimated / 20:.0f} of {estimated:,} comparisons at 95 % would still show one"
        sentences.append(f"If no method made a difference, {chance}.")
    small = [name for name in table.datasets if table.has_few_test_rows(name)]
    if small:
        names = ", ".join(small[:3]) + (" and others" if len(small) > 3 else "")
        sentences.append(f"Fewer than {FEW_TEST_ROWS} test rows on {names}: a single row changes those scores a lot.")
    if methods and not any(is_control(row.ssl) and row.protocol != "raw" for row in table.rows):
        sentences.append("Untrained encoders were not run, so it is unclear how much of a gain is due to training.")
    return sentences
