"""Pretrain a model's own backbone by reconstruction or mask prediction (Rubachev et al., 2022)."""

from tabbench import Plugin, hookimpl

PAPER = "Rubachev et al., 2022"


@hookimpl
def tabbench_ssl_methods() -> list[Plugin]:
    return [
        Plugin(
            "reconstruct",
            "tabbench_backbone.method:Reconstruct",
            config="tabbench_backbone.config:BackboneConfig",
            summary="pretrain the model's own backbone to reconstruct rows with swapped entries",
            paper=PAPER,
            url="https://arxiv.org/abs/2207.03208",
            code="https://github.com/puhsu/tabular-dl-pretrain-objectives/tree/a30f8b1f2f9dba198149862b0b499d5edbe7e7cd",
            bibtex="tabbench_backbone:citation.bib",
            gives="backbone",
            finetune=True,
        ),
        Plugin(
            "predict_mask",
            "tabbench_backbone.method:PredictMask",
            config="tabbench_backbone.config:BackboneConfig",
            summary="pretrain the model's own backbone to detect swapped entries",
            paper=PAPER,
            url="https://arxiv.org/abs/2207.03208",
            code="https://github.com/puhsu/tabular-dl-pretrain-objectives/tree/a30f8b1f2f9dba198149862b0b499d5edbe7e7cd",
            bibtex="tabbench_backbone:citation.bib",
            gives="backbone",
            finetune=True,
        ),
    ]
