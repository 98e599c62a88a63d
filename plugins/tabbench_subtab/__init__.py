"""SubTab: subsetting features of tabular data (Ucar et al., NeurIPS 2021)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_ssl_methods() -> list[Plugin]:
    return [
        Plugin(
            "subtab",
            "tabbench_subtab.method:SubTab",
            config="tabbench_subtab.config:SubTabConfig",
            finetune=True,
            summary="reconstruct the whole row from overlapping subsets of its columns, and make the subsets agree",
            paper="Ucar et al., NeurIPS 2021",
            url="https://arxiv.org/abs/2110.04361",
            code="https://github.com/AstraZeneca/SubTab/tree/d94f2adb40460a6bad567bf95a782662da57c338",
            bibtex="tabbench_subtab:citation.bib",
            revision=2,
        )
    ]
