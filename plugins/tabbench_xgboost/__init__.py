"""XGBoost: gradient boosted trees (Chen and Guestrin, KDD 2016)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_models() -> list[Plugin]:
    return [
        Plugin(
            "xgboost",
            "tabbench_xgboost.model:XGBoost",
            config="tabbench_xgboost.config:XGBoostConfig",
            summary="gradient-boosted trees",
            weights=True,
            revision=3,
            paper="Chen and Guestrin, KDD 2016",
            url="https://arxiv.org/abs/1603.02754",
            code="https://github.com/dmlc/xgboost",
            bibtex="tabbench_xgboost:citation.bib",
        )
    ]
