"""FT-Transformer: feature tokenizer and transformer (Gorishniy et al., NeurIPS 2021)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_models() -> list[Plugin]:
    return [
        Plugin(
            "ft_transformer",
            "tabbench_ft_transformer.model:FTTransformerModel",
            config="tabbench_ft_transformer.config:FTTransformerConfig",
            revision=4,
            summary="a transformer over one token per column",
            paper="Gorishniy et al., NeurIPS 2021",
            aliases=("ft-transformer", "ftt"),
        )
    ]
