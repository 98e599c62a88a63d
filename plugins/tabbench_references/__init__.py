"""Published results to compare with: the two tables of the T-JEPA paper, and the tuned baselines of RTDL."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_references() -> list[Plugin]:
    return [
        Plugin(
            "tjepa-paper",
            "tabbench_references.published:PublishedTables",
            summary="both result tables of the T-JEPA paper, with a caveat on each doubtful cell",
            paper="Thimonier et al., ICLR 2025",
            arguments={"figures": "tjepa_paper.csv", "caveats": "tjepa_paper.toml"},
        ),
        Plugin(
            "rtdl",
            "tabbench_references.published:PublishedTables",
            summary="tuned models on raw data; 15 seeds, split 64/16/20",
            paper="Gorishniy et al., NeurIPS 2021",
            arguments={"figures": "rtdl.csv", "caveats": "rtdl.toml"},
        ),
    ]
