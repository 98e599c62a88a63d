"""The SLURM executor: warm workers as SLURM jobs."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_executors() -> list[Plugin]:
    return [
        Plugin(
            "slurm",
            "tabbench_slurm.executor:SlurmExecutor",
            config="tabbench_slurm.config:SlurmConfig",
            summary="warm workers as jobs of a SLURM cluster",
        )
    ]
