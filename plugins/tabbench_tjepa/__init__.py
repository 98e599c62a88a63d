"""T-JEPA: predict the representation of some features of a row from others (Thimonier et al., ICLR 2025)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_ssl_methods() -> list[Plugin]:
    return [
        Plugin(
            "tjepa",
            "tabbench_tjepa.method:TJEPA",
            config="tabbench_tjepa.config:TJEPAConfig",
            finetune=True,
            summary="predict the latent representation of some features of a row from others",
            revision=4,
            paper="Thimonier et al., ICLR 2025",
            url="https://arxiv.org/abs/2410.05016",
            code="https://github.com/jose-melo/t-jepa/tree/e07ea70750f2674940955debfd489d92a8301c25",
            bibtex="tabbench_tjepa:citation.bib",
        )
    ]
