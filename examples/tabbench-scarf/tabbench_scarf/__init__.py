"""SCARF: contrastive learning with random feature corruption (Bahri et al., ICLR 2022)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_ssl_methods() -> list[Plugin]:
    return [
        Plugin(
            "scarf",
            "tabbench_scarf.method:SCARF",
            config="tabbench_scarf.config:SCARFConfig",
            finetune=True,
            summary="tell a row with re-drawn entries from other rows",
            paper="Bahri et al., ICLR 2022",
            url="https://arxiv.org/abs/2106.15147",
            bibtex="tabbench_scarf:citation.bib",
        )
    ]
