"""AutoInt: feature interactions by self-attention (Song et al., CIKM 2019)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_models() -> list[Plugin]:
    return [
        Plugin(
            "autoint",
            "tabbench_autoint.model:AutoIntModel",
            config="tabbench_autoint.config:AutoIntConfig",
            revision=3,
            summary="feature interactions by self-attention",
            paper="Song et al., CIKM 2019",
        )
    ]
