"""The two controls for every SSL method: raw features, and the method's encoder without training."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_ssl_methods() -> list[Plugin]:
    return [
        Plugin("none", "tabbench.experiment.controls:Control", summary="control: the raw features", untrained=False),
        Plugin(
            "untrained",
            "tabbench.experiment.controls:Control",
            summary="control: a method's encoder at initialisation (untrained:METHOD)",
            untrained=False,
        ),
    ]
