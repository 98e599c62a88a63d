"""What the caveats on one paper say of another's figures is what those figures say."""

import re

import pytest
from tabbench_references.published import PublishedTables

from tabbench import PublishedCell

NETWORKS = ("mlp", "resnet", "dcnv2", "autoint", "ft_transformer")
PAPER = [cell for cell in PublishedTables("tjepa_paper.csv", "tjepa_paper.toml").cells() if cell.ssl == "none"]
RTDL = {(cell.model, cell.dataset): cell.mean for cell in PublishedTables("rtdl.csv", "rtdl.toml").cells()}


def name(cell: PublishedCell) -> str:
    return f"{cell.table}-{cell.model}-{cell.dataset}"


@pytest.mark.parametrize("cell", [cell for cell in PAPER if cell.model in NETWORKS], ids=name)
def test_how_much_better_tuned_baselines_are_is_true_of_each_cell(cell: PublishedCell) -> None:
    assert "untuned" in cell.caveat
    tuned = RTDL.get((cell.model, cell.dataset))
    points = re.search(r"is (\d) to (\d) points better", cell.caveat)
    figures = re.search(r"has ([\d.]+) to ([\d.]+), in the data's unit", cell.caveat)
    if tuned is None:
        assert "RTDL has no figures" in cell.caveat
        assert points is figures is None
    elif cell.metric == "accuracy":
        assert points is not None
        assert int(points[1]) - 0.5 <= 100 * (tuned - cell.mean) < int(points[2]) + 0.5
    else:
        assert points is None
        assert figures is not None
        assert float(figures[1]) <= tuned <= float(figures[2])


@pytest.mark.parametrize("cell", [cell for cell in PAPER if cell.model not in NETWORKS], ids=name)
def test_where_trees_have_rtdls_figures_is_true_of_each_cell(cell: PublishedCell) -> None:
    tuned = RTDL.get((cell.model, cell.dataset))
    assert ("within 0.004 of RTDL's figures" in cell.caveat) == (tuned is not None)
    if tuned is not None:
        assert abs(tuned - cell.mean) < 0.0045


def test_fine_tuned_figures_say_their_protocol_and_labels() -> None:
    cells = PublishedTables("rubachev.csv", "rubachev.toml").cells()
    found = {(cell.ssl, cell.model, cell.dataset): cell for cell in cells}
    scratch, pretrained = found["none", "mlp", "CA"], found["reconstruct", "mlp", "CA"]
    assert (scratch.protocol, pretrained.protocol, pretrained.labels) == ("raw", "finetune", "100%")
    assert (round(scratch.mean, 3), round(pretrained.mean, 3)) == (0.506, 0.445)
    assert len({cell.dataset for cell in cells}) == 11
    assert all("64/16/20" in cell.caveat for cell in cells)
    assert all(("AUROC" in cell.caveat) == (cell.metric == "auroc") for cell in cells)


@pytest.mark.parametrize(
    "dataset, model, figures",
    [
        ("CA", "mlp", (0.506, 0.445, 0.454)),
        ("CA", "resnet", (0.493, 0.478, 0.464)),
        ("CA", "ft_transformer", (0.470, 0.438, 0.429)),
        ("HI", "mlp", (0.801, 0.805, 0.814)),
        ("HI", "resnet", (0.810, 0.815, 0.826)),
        ("HI", "ft_transformer", (0.809, 0.840, 0.845)),
        ("AD", "mlp", (0.9085, 0.9105, 0.9116)),
    ],
)
def test_objectives_have_their_published_figures(dataset: str, model: str, figures: tuple[float, ...]) -> None:
    cells = PublishedTables("rubachev.csv", "rubachev.toml").cells()
    found = {(cell.ssl, cell.model, cell.dataset): cell.mean for cell in cells}
    for ssl, figure in zip(("none", "reconstruct", "predict_mask"), figures, strict=True):
        assert found[ssl, model, dataset] == pytest.approx(figure, abs=5.1e-5 if dataset == "AD" else 5.1e-4)


def test_linear_probes_have_their_published_figures() -> None:
    cells = PublishedTables("subtab.csv", "subtab.toml").cells()
    assert {(cell.ssl, cell.model): cell.mean for cell in cells if cell.dataset == "MNIST"} == {
        ("subtab", "linear"): 0.9786, ("vime", "linear"): 0.9523, ("none", "linear"): 0.9260,
        ("none", "xgboost"): 0.9802,
    }  # fmt: skip
    assert {(cell.ssl, cell.model): cell.mean for cell in cells if cell.dataset == "AD"} == {
        ("subtab", "linear"): 0.8535, ("vime", "linear"): 0.8443, ("none", "linear"): 0.8468,
        ("none", "xgboost"): 0.8611,
    }  # fmt: skip


def test_a_published_figure_stands_beside_our_own_of_the_same_question_only() -> None:
    (cell,) = (
        cell
        for cell in PublishedTables("subtab.csv", "subtab.toml").cells()
        if (cell.ssl, cell.dataset) == ("subtab", "MNIST")
    )
    assert cell.mean == 0.9786
    assert cell.is_like("frozen", "100%")
    assert not cell.is_like("finetune", "100%")
    assert not cell.is_like("frozen", "10%")
    plain = PublishedCell("t", "a", "mlp", "CA", "rmse", 0.5)
    assert plain.is_like("finetune", "100%")
    assert not plain.is_like("frozen", "10%"), "who says nothing of labels had all of them"
