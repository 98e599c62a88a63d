"""Real tables that ship inside scikit-learn, so that a first run needs no download."""

from tabbench import Plugin, hookimpl

TABLES = {
    "breast_cancer": "breast tumours by their cell nuclei, benign or malignant",
    "diabetes": "progression of diabetes after one year",
    "digits": "handwritten digits, 8x8 pixels",
    "wine": "chemical analysis of wines from three cultivars",
}


@hookimpl
def tabbench_datasets() -> list[Plugin]:
    return [
        Plugin(name, "tabbench_demo.datasets:DemoDataset", summary=summary, groups=("demo",), arguments={"name": name})
        for name, summary in TABLES.items()
    ]
