"""BinRecon and BinXent: binning as a pretext task (Lee et al., ICML 2024)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_ssl_methods() -> list[Plugin]:
    return [
        Plugin(
            "binrecon",
            "tabbench_binrecon.method:BinRecon",
            config="tabbench_binrecon.config:BinReconConfig",
            summary="predict the quantile bin of every column instead of its value",
            paper="Lee et al., ICML 2024",
            revision=3,
        )
    ]
