"""What authors of references (published results) subclass."""

from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedCell:
    """One figure of a published table."""

    table: str
    ssl: str
    model: str
    dataset: str
    metric: str
    mean: float
    std: float | None = None
    caveat: str = ""
    compares_with: str = ""
    """Our metric in the unit of this figure, if it is not ``metric``."""
    protocol: str = ""
    """How the encoder was used: frozen, finetune or raw. Empty: comparable with every protocol."""
    labels: str = ""
    """Number of labels, as in ``--labels``. Empty: all of them."""

    def is_like(self, protocol: str, labels: str) -> bool:
        """Whether our results under a protocol, with a number of labels, answer the same question."""
        return self.protocol in ("", protocol) and (self.labels or "100%") == labels


class Reference(ABC):
    """Published results to compare with."""

    @abstractmethod
    def cells(self) -> list[PublishedCell]:
        """Every figure, with a caveat where it is doubtful."""

    def printed_ranks(self) -> dict[tuple[str, str, str], float]:
        """Average ranks as printed, by (table, ssl, model)."""
        return {}
