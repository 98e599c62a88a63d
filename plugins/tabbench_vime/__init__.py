"""VIME: value imputation and mask estimation for tabular data (Yoon et al., NeurIPS 2020)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_ssl_methods() -> list[Plugin]:
    return [
        Plugin(
            "vime",
            "tabbench_vime.method:VIME",
            config="tabbench_vime.config:VIMEConfig",
            finetune=True,
            summary="detect which entries of a row were swapped, and restore them",
            paper="Yoon et al., NeurIPS 2020",
            url="https://proceedings.neurips.cc/paper/2020/hash/7d97667a3e056acab9aaf653807b4a03-Abstract.html",
            code="https://github.com/jsyoon0823/VIME/tree/9f08a977e47610f14b905ef7d8dd9d085af1f89e",
            bibtex="tabbench_vime:citation.bib",
            revision=3,
        ),
        Plugin(
            "vime_semi",
            "tabbench_vime.semi:VIMESemi",
            config="tabbench_vime.config:VIMESemiConfig",
            summary="VIME's second stage: a predictor consistent on corrupted copies of labelled and unlabelled rows",
            paper="Yoon et al., NeurIPS 2020",
            url="https://proceedings.neurips.cc/paper/2020/hash/7d97667a3e056acab9aaf653807b4a03-Abstract.html",
            code="https://github.com/jsyoon0823/VIME/tree/9f08a977e47610f14b905ef7d8dd9d085af1f89e",
            bibtex="tabbench_vime:citation.bib",
            uses_labels=True,
            gives="predictions",
            untrained=False,
        ),
    ]
