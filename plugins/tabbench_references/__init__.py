"""Published results to compare with: the T-JEPA paper, RTDL's baselines, fine-tuned networks, linear probes."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_references() -> list[Plugin]:
    return [
        Plugin(
            "tjepa-paper",
            "tabbench_references.published:PublishedTables",
            summary="both result tables of the T-JEPA paper, with a caveat on each doubtful cell",
            paper="Thimonier et al., ICLR 2025",
            url="https://arxiv.org/abs/2410.05016",
            code="https://github.com/jose-melo/t-jepa/tree/e07ea70750f2674940955debfd489d92a8301c25",
            bibtex="tabbench_references:tjepa_paper.bib",
            arguments={"figures": "tjepa_paper.csv", "caveats": "tjepa_paper.toml"},
        ),
        Plugin(
            "rtdl",
            "tabbench_references.published:PublishedTables",
            summary="tuned models on raw data; 15 seeds, split 64/16/20",
            paper="Gorishniy et al., NeurIPS 2021",
            url="https://arxiv.org/abs/2106.11959",
            code="https://github.com/yandex-research/rtdl-revisiting-models",
            bibtex="tabbench_references:rtdl.bib",
            arguments={"figures": "rtdl.csv", "caveats": "rtdl.toml"},
        ),
        Plugin(
            "rubachev",
            "tabbench_references.published:PublishedTables",
            summary="networks from scratch and fine-tuned, and trees; 11 tables, 15 seeds, split 64/16/20",
            paper="Rubachev et al., 2022",
            url="https://arxiv.org/abs/2207.03208",
            code="https://github.com/puhsu/tabular-dl-pretrain-objectives/tree/a30f8b1f2f9dba198149862b0b499d5edbe7e7cd",
            bibtex="tabbench_references:rubachev.bib",
            arguments={"figures": "rubachev.csv", "caveats": "rubachev.toml"},
        ),
        Plugin(
            "subtab",
            "tabbench_references.published:PublishedTables",
            summary="linear probes on frozen encoders: MNIST and Adult",
            paper="Ucar et al., NeurIPS 2021",
            url="https://arxiv.org/abs/2110.04361",
            code="https://github.com/AstraZeneca/SubTab/tree/d94f2adb40460a6bad567bf95a782662da57c338",
            bibtex="tabbench_references:subtab.bib",
            arguments={"figures": "subtab.csv", "caveats": "subtab.toml"},
        ),
    ]
