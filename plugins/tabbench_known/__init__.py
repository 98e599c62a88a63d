"""Tables with a known answer: calibration weights for methods, models and the harness itself."""

from tabbench import Plugin, hookimpl

TABLES = {
    "known-factors": (
        "gain",
        "generated: the target is linear in hidden factors; self-supervision must help with few labels",
    ),
    "known-independent": ("no gain", "generated: columns are independent; no encoder can help"),
    "known-noise": ("chance", "generated: labels are coin tosses; nothing can be learned"),
}
"""The answer, for ``tabbench plugins check --known``, and a line for people."""


@hookimpl
def tabbench_datasets() -> list[Plugin]:
    return [
        Plugin(
            name,
            "tabbench_known.datasets:KnownDataset",
            summary=summary,
            groups=("known",),
            arguments={"name": name, "answer": answer},
        )
        for name, (answer, summary) in TABLES.items()
    ]
