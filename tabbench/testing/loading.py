"""Promises of datasets."""

from __future__ import annotations

from pathlib import Path

from tabbench.contracts import LoadedData
from tabbench.errors import DataError
from tabbench.testing.common import require, unchanged_generators
from tabbench.testing.subject import CheckSkipped, Subject, temporary_folder


def load(subject: Subject) -> LoadedData:
    """The table, from a fresh folder and without the network."""
    with temporary_folder() as folder:
        try:
            loaded = subject.make().load(Path(folder), offline=True)
        except DataError as refusal:
            raise CheckSkipped(f"not available without the network: {refusal}") from None
    require(isinstance(loaded, LoadedData), f"load gave a {type(loaded).__name__}, not LoadedData")
    found: LoadedData = loaded
    return found


def check_loads_the_same_twice(subject: Subject) -> None:
    """Loading twice gives the same table: same columns, types, rows and order."""
    first, second = load(subject), load(subject)
    require(list(first.frame.columns) == list(second.frame.columns), "the columns differ")
    require(first.frame.equals(second.frame), "the rows differ")
    described = [(each.target, each.task, each.categorical) for each in (first, second)]
    require(described[0] == described[1], f"the description differs: {described[0]} and {described[1]}")


def check_table_is_sound(subject: Subject) -> None:
    """The table passes the harness's checks: the target is there, columns are numbers unless named as categories."""
    from tabbench.data.cleaning import clean

    try:
        cleaned = clean(load(subject), as_published=True)
    except DataError as error:
        require(False, str(error))
    else:
        subject.note = f"{len(cleaned.frame)} rows, {cleaned.frame.shape[1] - 1} features, {cleaned.task}"


def check_global_generators_are_untouched(subject: Subject) -> None:
    """Loading neither uses nor seeds the global generators of random, numpy and torch."""
    with unchanged_generators():
        load(subject)


DATASET_CHECKS = (check_loads_the_same_twice, check_table_is_sound, check_global_generators_are_untouched)
