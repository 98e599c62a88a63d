"""VIME: value imputation and mask estimation for tabular data (Yoon et al., NeurIPS 2020)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_ssl_methods() -> list[Plugin]:
    return [
        Plugin(
            "vime",
            "tabbench_vime.method:VIME",
            config="tabbench_vime.config:VIMEConfig",
            summary="tell which entries of a row were swapped, and restore them",
            paper="Yoon et al., NeurIPS 2020",
            revision=2,
        )
    ]
