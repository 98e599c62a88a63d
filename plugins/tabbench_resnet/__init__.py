"""ResNet for tabular data (Gorishniy et al., NeurIPS 2021)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_models() -> list[Plugin]:
    return [
        Plugin(
            "resnet",
            "tabbench_resnet.model:ResNetModel",
            config="tabbench_resnet.config:ResNetConfig",
            revision=2,
            summary="residual blocks with batch normalisation",
            paper="Gorishniy et al., NeurIPS 2021",
        )
    ]
