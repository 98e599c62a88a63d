"""The shapes of what is read and printed: a record's line, what a table leaves out, tables as JSON.

``tabbench table --format json`` promises the shapes of tables; keys may be added to them.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

JsonText = str
"""An object or a list as its JSON text: most of them are never parsed."""


class RecordLine(TypedDict):
    """A record as tables and pages read it: one line of the parquet copy.

    ``score``, ``test`` and ``seconds`` are those of a finished result; trials and failures lack them. ``seed`` is None
    for trials, and for models without seeds.
    """

    key: str
    kind: str
    status: str
    time: float
    ssl: str
    model: str
    variant: str
    uses_labels: bool
    data: str
    data_key: str
    split: int
    seed: int | None
    fidelity: str
    trials: int
    ssl_trials: int
    metric: str
    score: float
    flags: JsonText | None
    error: str | None
    test: JsonText
    seconds: JsonText
    counts: JsonText | None
    notes: JsonText | None
    hashes: JsonText | None
    protocol: str
    labels: str
    validation_labels: str | None
    split_rule: str
    main_metric: str
    weights: str
    # What a page reads beyond what a table needs.
    preset: NotRequired[str | None]
    rows_limit: NotRequired[int | None]
    task: NotRequired[str | None]
    config: NotRequired[JsonText | None]
    plugins: NotRequired[JsonText | None]
    environment: NotRequired[JsonText | None]
    diagnostics: NotRequired[JsonText | None]
    tuning: NotRequired[JsonText | None]
    traceback: NotRequired[str | None]
    study: NotRequired[str | None]
    number: NotRequired[int | None]
    value: NotRequired[float | None]


class LeftOut(TypedDict, total=False):
    """What a table leaves out: one record by its ``key``, a number of ``records``, or a pair that was skipped."""

    reason: str
    key: str
    records: int
    ssl: str
    model: str
    data: str
    protocol: str
    labels: str
    split: int
    seed: int | None


class Convention(TypedDict):
    """How ranks were made."""

    ties: Literal["min", "average"]
    missing: Literal["last", "skip"]
    common: Literal["all", "none"]
    ranks: str
    mean: str
    std: str
    apart: str


class CellShape(TypedDict):
    """One row on one dataset."""

    mean: float | None
    std: float | None
    n: int
    rank: float | None
    found: NotRequired[int]
    expected: NotRequired[int]
    incomplete: NotRequired[int]
    label_equivalence: NotRequired[dict[str, object] | None]


class AboutRow(TypedDict):
    """What a row is about: what was run, and which rows it may be compared with."""

    ssl: str
    model: str
    variant: str
    protocol: str
    labels: str
    split_rule: str
    main_metric: str
    weights: str
    ssl_trials: int
    trials: int
    uses_labels: bool


class RowShape(AboutRow):
    """One row of a table."""

    ranked_with: str
    cells: dict[str, CellShape]
    average_rank: float | None
    average_rank_low: float | None
    average_rank_high: float | None
    rank_group: str


class Aside(TypedDict):
    """Results of a cell that do not count, because other rows lack them."""

    ssl: str
    model: str
    data: str
    results: int


class KeptUntrained(TypedDict):
    """How many of a method's encoders on a dataset are the untrained ones: no epoch was better on validation."""

    ssl: str
    data: str
    kept: int
    encoders: int


class TableShape(TypedDict):
    """A table of scores or ranks."""

    metric: str
    fidelity: str | None
    convention: Convention
    datasets: list[str]
    units: dict[str, str]
    rows: list[RowShape]
    left_out: list[LeftOut]
    left_aside: list[Aside]
    kept_untrained: list[KeptUntrained]
    notes: dict[str, list[str]]


class GainShape(TypedDict):
    """What a method adds to one control on one dataset."""

    mean: float | None
    low: float | None
    high: float | None
    n: int
    verdict: str


class GainCellShape(TypedDict):
    """One row of gains on one dataset; null for a control that was not run."""

    to_none: GainShape | None
    to_untrained: GainShape | None


class GainRowShape(AboutRow):
    """One row of a table of gains."""

    cells: dict[str, GainCellShape]
    over_none: dict[str, float | None]
    over_untrained: dict[str, float | None]


class GainTableShape(TypedDict):
    """A table of gains."""

    metric: str
    fidelity: str | None
    convention: dict[str, str]
    datasets: list[str]
    units: dict[str, str]
    rows: list[GainRowShape]
    kept_untrained: list[KeptUntrained]
    left_out: list[LeftOut]


class PublishedShape(TypedDict):
    """A published figure."""

    mean: float
    std: float | None
    caveat: str
    protocol: NotRequired[str]
    labels: NotRequired[str]


class ComparedCellShape(CellShape):
    """One row on one dataset, with our figure and the published one."""

    published: PublishedShape | None
    own_mean: float | None
    difference: float | None


class TargetShape(TypedDict):
    """The target of the rows on a map: classes by number, or numbers as shares of their range."""

    kind: Literal["class", "number"]
    name: str
    values: list[int] | list[float]
    names: NotRequired[list[str]]
    low: NotRequired[float | None]
    high: NotRequired[float | None]


class MapShape(TypedDict):
    """Where rows are on a map of an epoch."""

    epoch: int
    points: list[list[float | None]]


class TokensShape(TypedDict):
    """The tokens of one row, epoch by epoch."""

    names: list[str]
    frames: list[list[list[float | None]]]


class AgreementShape(TypedDict):
    """Kendall's tau between measures of features."""

    names: list[str]
    values: list[list[float | None]]


class FeaturesShape(TypedDict):
    """Scores of each feature by several measures."""

    names: list[str]
    scores: dict[str, list[float | None]]


class InspectionShape(TypedDict):
    """What ``tabbench inspect`` keeps and draws."""

    ssl: str
    data: str
    source: NotRequired[str]
    metrics: dict[str, list[float | None]]
    training: dict[str, list[float | None]]
    ablation: dict[str, dict[str, object]]
    maps: list[MapShape]
    target: TargetShape
    tokens: NotRequired[TokensShape]
    kendall: NotRequired[AgreementShape]
    features: NotRequired[FeaturesShape]
