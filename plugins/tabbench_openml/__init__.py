"""All of OpenML by number, its benchmark suites, and the seven datasets of the T-JEPA paper by name."""

from typing import Any

from tabbench import Plugin, hookimpl

CLASS = "tabbench_openml.datasets:OpenMLDataset"


def describe(name: str, alias: str, summary: str, target: str = CLASS, **arguments: Any) -> Plugin:
    """A dataset of the group ``paper``; ``arguments`` give its source and expected content."""
    return Plugin(
        name,
        target,
        summary=summary,
        aliases=(alias,),
        groups=("paper",),
        url=f"https://www.openml.org/d/{arguments['id']}",
        bibtex="tabbench_openml:citation.bib",
        arguments={"name": name, **arguments},
    )


@hookimpl
def tabbench_datasets() -> list[Plugin]:
    return [
        describe(
            "adult",
            "AD",
            "income above 50,000 dollars, US census (OpenML 1590)",
            id=1590,
            target_column="class",
            rows=48_842,
            numeric=6,
            categorical=8,
            classes=2,
            missing=6_465,
            shares=(0.2393, 0.7607),
        ),
        describe(
            "helena",
            "HE",
            "100 classes of the AutoML challenge (OpenML 41169)",
            id=41169,
            target_column="class",
            rows=65_196,
            numeric=27,
            categorical=0,
            classes=100,
        ),
        describe(
            "jannis",
            "JA",
            "4 classes of the AutoML challenge (OpenML 41168)",
            id=41168,
            target_column="class",
            rows=83_733,
            numeric=54,
            categorical=0,
            classes=4,
            shares=(0.020, 0.176, 0.344, 0.460),
        ),
        describe(
            "aloi",
            "AL",
            "1,000 objects by features of their images (OpenML 42396)",
            id=42396,
            target_column="target",
            rows=108_000,
            numeric=128,
            categorical=0,
            classes=1_000,
            shares=(0.001,) * 1_000,
        ),
        describe(
            "california",
            "CA",
            "median house values of districts in California (OpenML 44977)",
            target="tabbench_openml.california:CaliforniaHousing",
            id=44977,
            target_column="medianHouseValue",
            task="regression",
            rows=20_640,
            numeric=8,
            categorical=0,
        ),
        describe(
            "higgs",
            "HI",
            "Higgs bosons against background, small version (OpenML 23512)",
            id=23512,
            target_column="class",
            rows=98_050,
            numeric=28,
            categorical=0,
            classes=2,
            shares=(0.4714, 0.5286),
        ),
        describe(
            "mnist",
            "MNIST",
            "handwritten digits, 28x28 pixels (OpenML 554)",
            id=554,
            target_column="class",
            rows=70_000,
            numeric=784,
            categorical=0,
            classes=10,
        ),
    ]


SUITES = {
    "cc18": 99,
    "ctr23": 353,
    "grinsztajn-cat-clf": 334,
    "grinsztajn-cat-reg": 335,
    "grinsztajn-num-reg": 336,
    "grinsztajn-num-clf": 337,
    "amlb-clf": 271,
    "amlb-reg": 269,
    "tabzilla": 379,
    "tabarena": 457,
}
"""Benchmark suites by the names that papers use, and their numbers on OpenML."""


@hookimpl
def tabbench_data_schemes() -> list[Plugin]:
    return [
        Plugin(
            "openml",
            "tabbench_openml.scheme:OpenMLScheme",
            summary="openml:ID, openml:ID:TARGET, openml/t/ID (a task), openml/s/ID (a suite)",
            shortcuts={name: f"openml/s/{number}" for name, number in SUITES.items()},
        )
    ]
