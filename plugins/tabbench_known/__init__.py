"""Tables with a known answer: calibration weights for methods, models and the harness itself."""

from tabbench import Plugin, hookimpl

TABLES = {
    "known-factors": "generated: the target is linear in hidden factors; self-supervision must help with few labels",
    "known-independent": "generated: columns are independent; no encoder can help",
    "known-noise": "generated: labels are coin tosses; nothing can be learned",
}


@hookimpl
def tabbench_datasets() -> list[Plugin]:
    return [
        Plugin(
            name, "tabbench_known.datasets:KnownDataset", summary=summary, groups=("known",), arguments={"name": name}
        )
        for name, summary in TABLES.items()
    ]
