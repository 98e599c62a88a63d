"""k nearest neighbours: a read-out of a representation that learns nothing itself."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_models() -> list[Plugin]:
    return [
        Plugin(
            "knn",
            "tabbench_knn.model:KNN",
            config="tabbench_knn.config:KNNConfig",
            revision=2,  # at equal distance, the earlier row is the nearer one, also for the last neighbour
            summary="k nearest neighbours on standardised features, k chosen on validation",
            paper="Cover and Hart, IEEE Transactions on Information Theory 1967",
            url="https://doi.org/10.1109/TIT.1967.1053964",
            bibtex="tabbench_knn:citation.bib",
            seeded=False,
        )
    ]
