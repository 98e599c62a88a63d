"""BinRecon and BinXent: binning as a pretext task (Lee et al., ICML 2024)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_ssl_methods() -> list[Plugin]:
    return [
        Plugin(
            "binrecon",
            "tabbench_binrecon.method:BinRecon",
            config="tabbench_binrecon.config:BinReconConfig",
            finetune=True,
            summary="predict the quantile bin of every column instead of its value",
            paper="Lee et al., ICML 2024",
            url="https://arxiv.org/abs/2405.07414",
            code="https://github.com/kyungeun-lee/tabularbinning/tree/2fae4143118689a4e35139bc74e12367635c00a9",
            bibtex="tabbench_binrecon:citation.bib",
            revision=4,
        )
    ]
