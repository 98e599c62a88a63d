"""MLP in the forms of the T-JEPA paper and of Gorishniy et al. (NeurIPS 2021)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_models() -> list[Plugin]:
    return [
        Plugin(
            "mlp",
            "tabbench_mlp.model:MLPModel",
            config="tabbench_mlp.config:MLPConfig",
            finetune=True,
            backbone=True,
            weights=True,
            revision=3,
            summary="multi-layer perceptron",
            paper="Gorishniy et al., NeurIPS 2021; Thimonier et al., ICLR 2025",
            url="https://arxiv.org/abs/2106.11959",
            code="https://github.com/yandex-research/rtdl-revisiting-models",
            bibtex="tabbench_mlp:citation.bib",
        )
    ]
