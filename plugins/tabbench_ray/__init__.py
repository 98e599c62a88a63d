"""The Ray executor: warm workers as actors."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_executors() -> list[Plugin]:
    return [
        Plugin(
            "ray",
            "tabbench_ray.executor:RayExecutor",
            config="tabbench_ray.config:RayConfig",
            summary="warm workers as actors of a Ray cluster (pip install tabbench-ssl[ray])",
            needs=("ray",),
        )
    ]
