"""The local executor: a process of its own for each running job on this machine."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_executors() -> list[Plugin]:
    return [
        Plugin(
            "local", "tabbench_local.executor:LocalExecutor", summary="processes on this machine, one per running job"
        )
    ]
