"""AutoInt: feature interactions by self-attention (Song et al., CIKM 2019)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_models() -> list[Plugin]:
    return [
        Plugin(
            "autoint",
            "tabbench_autoint.model:AutoIntModel",
            config="tabbench_autoint.config:AutoIntConfig",
            finetune=True,
            backbone=True,
            weights=True,
            revision=3,
            summary="feature interactions by self-attention",
            paper="Song et al., CIKM 2019",
            url="https://arxiv.org/abs/1810.11921",
            bibtex="tabbench_autoint:citation.bib",
        )
    ]
