"""SubTab: subsetting features of tabular data (Ucar et al., NeurIPS 2021)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_ssl_methods() -> list[Plugin]:
    return [
        Plugin(
            "subtab",
            "tabbench_subtab.method:SubTab",
            config="tabbench_subtab.config:SubTabConfig",
            summary="rebuild the whole row from overlapping subsets of its columns, and make the subsets agree",
            paper="Ucar et al., NeurIPS 2021",
        )
    ]
