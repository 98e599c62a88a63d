"""ResNet for tabular data (Gorishniy et al., NeurIPS 2021)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_models() -> list[Plugin]:
    return [
        Plugin(
            "resnet",
            "tabbench_resnet.model:ResNetModel",
            config="tabbench_resnet.config:ResNetConfig",
            finetune=True,
            backbone=True,
            weights=True,
            revision=3,
            summary="residual blocks with batch normalisation",
            paper="Gorishniy et al., NeurIPS 2021",
            url="https://arxiv.org/abs/2106.11959",
            code="https://github.com/yandex-research/rtdl-revisiting-models",
            bibtex="tabbench_resnet:citation.bib",
        )
    ]
