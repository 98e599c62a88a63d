"""FT-Transformer: feature tokenizer and transformer (Gorishniy et al., NeurIPS 2021)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_models() -> list[Plugin]:
    return [
        Plugin(
            "ft_transformer",
            "tabbench_ft_transformer.model:FTTransformerModel",
            config="tabbench_ft_transformer.config:FTTransformerConfig",
            finetune=True,
            backbone=True,
            weights=True,
            revision=4,
            summary="a transformer over one token per column",
            paper="Gorishniy et al., NeurIPS 2021",
            url="https://arxiv.org/abs/2106.11959",
            code="https://github.com/yandex-research/rtdl-revisiting-models",
            bibtex="tabbench_ft_transformer:citation.bib",
            aliases=("ft-transformer", "ftt"),
        )
    ]
