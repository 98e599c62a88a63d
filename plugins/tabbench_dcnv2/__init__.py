"""DCNv2: deep and cross network (Wang et al., WWW 2021)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_models() -> list[Plugin]:
    return [
        Plugin(
            "dcnv2",
            "tabbench_dcnv2.model:DCNv2Model",
            config="tabbench_dcnv2.config:DCNv2Config",
            finetune=True,
            backbone=True,
            weights=True,
            revision=3,
            summary="deep & cross network: multiplies by the input, layer by layer",
            paper="Wang et al., WWW 2021",
            url="https://arxiv.org/abs/2008.13535",
            bibtex="tabbench_dcnv2:citation.bib",
        )
    ]
