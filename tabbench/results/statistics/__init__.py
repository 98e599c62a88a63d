"""Statistics of test scores: pure functions on values, without I/O.

Start with :meth:`Scores.collect`. The package promises this about every comparison:

- Rows are compared on the (split, seed) places that they share. Seeds are averaged within a split first, so the split
  is the unit of repetition. With one split, an interval is not estimable and its ends are None.
- Each dataset has weight 1, however many splits it has.
- Better is positive in differences and 1 is the best rank, for metrics of either direction.
- A score that is not finite makes its cell missing: it is never averaged away.

scipy is imported when a function needs it.
"""

from tabbench.results.statistics.contests import Rating, Tally, WinMatrix, rate_rows, win_matrix
from tabbench.results.statistics.gains import (
    Gain,
    GainSummary,
    Interval,
    Verdict,
    gains,
    mean_interval,
    paired_gain,
    share_explained,
    summarise_gains,
)
from tabbench.results.statistics.ranking import AverageRank, Missing, Ranking, Ties, rank_rows, rank_values
from tabbench.results.statistics.scores import DatasetScores, Place, Scores
from tabbench.results.statistics.significance import CannotTest, Friedman, friedman, holm, wilcoxon
from tabbench.results.statistics.tradeoffs import (
    Improvability,
    LabelEquivalence,
    improvability,
    label_equivalence,
    pareto_front,
)

__all__ = [
    "AverageRank",
    "CannotTest",
    "DatasetScores",
    "Friedman",
    "Gain",
    "GainSummary",
    "Improvability",
    "Interval",
    "LabelEquivalence",
    "Missing",
    "Place",
    "Ranking",
    "Rating",
    "Scores",
    "Tally",
    "Ties",
    "Verdict",
    "WinMatrix",
    "friedman",
    "gains",
    "holm",
    "improvability",
    "label_equivalence",
    "mean_interval",
    "paired_gain",
    "pareto_front",
    "rank_rows",
    "rank_values",
    "rate_rows",
    "share_explained",
    "summarise_gains",
    "wilcoxon",
    "win_matrix",
]
