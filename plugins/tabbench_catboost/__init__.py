"""CatBoost: gradient boosting with ordered target statistics (Prokhorenkova et al., NeurIPS 2018)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_models() -> list[Plugin]:
    return [
        Plugin(
            "catboost",
            "tabbench_catboost.model:CatBoost",
            config="tabbench_catboost.config:CatBoostConfig",
            summary="gradient-boosted oblivious trees with target statistics for categories",
            weights=True,
            revision=3,
            paper="Prokhorenkova et al., NeurIPS 2018",
            url="https://arxiv.org/abs/1706.09516",
            code="https://github.com/catboost/catboost",
            bibtex="tabbench_catboost:citation.bib",
        )
    ]
