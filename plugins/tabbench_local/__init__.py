"""The local executor: one process per running job on this machine."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_executors() -> list[Plugin]:
    return [
        Plugin(
            "local", "tabbench_local.executor:LocalExecutor", summary="processes on this machine, one per running job"
        )
    ]
