"""Published figures that the presets of the models must have, column by column."""

from collections.abc import Mapping
from typing import Any

import pytest
from tabbench_autoint.config import AutoIntConfig
from tabbench_catboost.config import CatBoostConfig
from tabbench_dcnv2.config import DCNv2Config
from tabbench_ft_transformer.config import FTTransformerConfig
from tabbench_mlp.config import MLPConfig
from tabbench_resnet.config import ResNetConfig
from tabbench_xgboost.config import XGBoostConfig

from tabbench import Config

NETWORKS: list[type[Config]] = [MLPConfig, DCNv2Config, ResNetConfig, AutoIntConfig, FTTransformerConfig]
FLAT, EACH, MEAN = "linear_flatten", "linear_per_feature", "mean_pool"

TABLES: list[tuple[type[Config], str, dict[str, tuple[object, ...]]]] = [
    (
        MLPConfig,
        "n_layers width dropout projection lr weight_decay",
        {
            "tjepa-AD": (13, 162, 0.2311, EACH, 1e-3, 1e-2),
            "tjepa-HE": (4, 512, 0.5177, FLAT, 1e-3, 1e-2),
            "tjepa-JA": (13, 498, 0.4923, EACH, 1e-3, 1e-2),
            "tjepa-AL": (4, 313, 0.2331, FLAT, 1e-3, 1e-2),
            "tjepa-CA": (3, 246, 0.0310, FLAT, 1e-3, 1e-2),
            "tjepa-HI": (9, 320, 0.4203, EACH, 1e-4, 1e-5),
        },
    ),
    (
        DCNv2Config,
        "width n_deep n_cross form hidden_dropout cross_dropout d_embedding lr weight_decay projection",
        {
            "tjepa-AD": (524, 3, 9, "parallel", 0.0431, 0.1476, 25, 1.94e-5, 1.404e-6, EACH),
            "tjepa-HE": (768, 3, 3, "stacked", 0.2926, 0.0808, 128, 8.81e-5, 9.33e-4, FLAT),
            "tjepa-JA": (704, 1, 1, "stacked", 0.1111, 0.2578, 66, 4.91e-5, 1.11e-5, FLAT),
            "tjepa-AL": (386, 2, 7, "stacked", 0.0862, 0.0702, 70, 8.79e-5, 1.21e-7, FLAT),
            "tjepa-CA": (488, 5, 1, "stacked", 0.0879, 0.0346, 7, 5.53e-4, 3.64e-4, FLAT),
            "tjepa-HI": (428, 3, 1, "parallel", 0.2976, 0.1393, 45, 4.69e-5, 1.21e-4, FLAT),
        },
    ),
    (
        ResNetConfig,
        "n_blocks d_block hidden_factor hidden_dropout residual_dropout lr weight_decay projection",
        {
            "tjepa-AD": (5, 440, 4, 0.0417, 0.1367, 8.90e-4, 7.96e-5, EACH),
            "tjepa-HE": (10, 256, 0.5, 0.2687, 0.1091, 2.33e-4, 5.39e-4, FLAT),
            "tjepa-JA": (7, 355, 1, 0.1367, 0.00485, 4.60e-5, 2.96e-6, EACH),
            "tjepa-AL": (8, 476, 4, 0.0437, 0.0486, 1.32e-5, 1.32e-6, FLAT),
            "tjepa-CA": (4, 465, 3, 0.3134, 0.00182, 5.26e-5, 1.03e-5, FLAT),
            "tjepa-HI": (2, 506, 1, 0.2341, 0.0307, 2.24e-5, 2.95e-6, EACH),
        },
    ),
    (
        AutoIntConfig,
        "n_layers d_token n_heads attention_dropout residual_dropout lr weight_decay projection",
        {
            "tjepa-AD": (1, 200, 2, 0.0910, 0.0603, 1.717e-3, 1.782e-7, EACH),
            "tjepa-HE": (6, 128, 2, 0.0629, 0.0553, 5.193e-5, 7.59e-4, MEAN),
            "tjepa-JA": (6, 244, 2, 0.00111, 0.1089, 9.68e-4, 6.09e-5, EACH),
            "tjepa-AL": (3, 228, 2, 0.0702, 0.0115, 2.28e-3, 4.667e-4, MEAN),
            "tjepa-CA": (8, 238, 2, 0.0901, 0.0710, 2.141e-4, 1.892e-6, FLAT),
            "tjepa-HI": (7, 56, 2, 0.0729, 0.0431, 6.51e-4, 5.40e-5, EACH),
        },
    ),
    (
        FTTransformerConfig,
        "n_blocks d_token n_heads ffn_factor attention_dropout ffn_dropout residual_dropout lr weight_decay projection",
        {
            "tjepa-AD": (8, 128, 16, 0.25, 0.3426, 0.1027, 0.0847, 1.35e-4, 3.59e-5, FLAT),
            "tjepa-HE": (2, 32, 16, 4, 0.0184, 0.1682, 0.1168, 4.26e-3, 4.82e-4, EACH),
            "tjepa-JA": (2, 64, 16, 4, 0.0934, 0.0614, 0.0971, 1.33e-4, 1.11e-5, FLAT),
            "tjepa-AL": (10, 256, 8, 0.25, 0.3246, 0.3277, 0.1151, 8.27e-4, 1.06e-7, FLAT),
            "tjepa-CA": (16, 128, 8, 4, 0.0745, 0.1749, 0.0474, 1.17e-3, 1.40e-5, FLAT),
            "tjepa-HI": (12, 128, 4, 0.5, 0.3334, 0.4813, 0.1465, 2.25e-4, 6.94e-5, FLAT),
        },
    ),
    (
        MLPConfig,
        "widths dropout lr weight_decay batch_size scaling",
        {
            "rtdl-AD": ([42, 503, 503, 503, 111], 0, 3.2e-4, 7.2e-5, 256, "quantile"),
            "rtdl-HE": ([441, 209, 382], 0.27, 5.1e-4, 4.9e-4, 512, "standard"),
            "rtdl-JA": ([103, 249], 0.193, 4.5e-4, 1e-4, 512, "quantile"),
            "rtdl-AL": ([415, 499], 0.151, 2.2e-4, 0, 512, "standard"),
            "rtdl-CA": ([510, 263, 363], 0.197, 1.3e-3, 1.5e-4, 256, "quantile"),
            "rtdl-HI": ([231, 121], 0.49, 7.5e-4, 0, 512, "quantile"),
        },
    ),
    (
        DCNv2Config,
        "width n_deep n_cross hidden_dropout cross_dropout lr weight_decay batch_size form",
        {
            "rtdl-AD": (234, 5, 5, 0.22, 0.15, 2.4e-5, 0, 256, "parallel"),
            "rtdl-HE": (312, 3, 1, 0.329, 0.398, 2.5e-4, 0, 512, "parallel"),
            "rtdl-JA": (283, 2, 1, 0.348, 0, 1.9e-4, 9.5e-4, 512, "parallel"),
            "rtdl-AL": (329, 3, 1, 0.129, 0.399, 1.5e-4, 0, 512, "parallel"),
            "rtdl-CA": (248, 7, 3, 0.233, 0.435, 1e-4, 4.2e-4, 256, "parallel"),
            "rtdl-HI": (364, 2, 1, 0.217, 0, 1e-4, 0, 512, "parallel"),
        },
    ),
    (
        ResNetConfig,
        "n_blocks d_block hidden_factor hidden_dropout residual_dropout lr weight_decay batch_size",
        {
            "rtdl-AD": (8, 339, 3.83, 0.221, 0.306, 3.5e-3, 0, 256),
            "rtdl-HE": (7, 431, 3.78, 0.458, 0, 3.1e-5, 0, 512),
            "rtdl-JA": (7, 204, 1.18, 0.454, 0, 8.5e-3, 1.6e-6, 512),
            "rtdl-AL": (7, 466, 3.4, 0.152, 0, 2.1e-5, 0, 512),
            "rtdl-CA": (3, 168, 2.98, 0.446, 0, 1.8e-3, 9.5e-4, 256),
            "rtdl-HI": (3, 266, 1.33, 0.347, 0.148, 1.4e-3, 0, 512),
        },
    ),
    (
        AutoIntConfig,
        "n_layers d_token n_heads attention_dropout residual_dropout lr weight_decay batch_size",
        {
            "rtdl-AD": (1, 32, 2, 0.102, 0, 1.3e-4, 3.9e-6, 256),
            "rtdl-HE": (4, 60, 2, 0.329, 0, 1.2e-4, 1.3e-5, 512),
            "rtdl-JA": (6, 62, 2, 0.361, 0.048, 9.9e-4, 1.2e-5, 512),
            "rtdl-AL": (3, 62, 2, 0.183, 0, 1e-4, 2.2e-4, 512),
            "rtdl-CA": (4, 56, 2, 0.054, 0.124, 8.8e-4, 1.9e-4, 256),
            "rtdl-HI": (2, 56, 2, 0.176, 0.136, 7.2e-4, 4.9e-6, 512),
        },
    ),
    (
        FTTransformerConfig,
        "n_blocks d_token ffn_factor attention_dropout ffn_dropout lr weight_decay n_heads batch_size",
        {
            "rtdl-AD": (3, 352, 2.04, 0.29, 0.161, 2.7e-5, 1.9e-5, 8, 256),
            "rtdl-HE": (2, 512, 2.01, 0.021, 0.183, 1.4e-5, 5.2e-5, 8, 512),
            "rtdl-JA": (4, 288, 1.06, 0.42, 0.463, 1.1e-4, 2.9e-5, 8, 512),
            "rtdl-AL": (2, 288, 1.33, 0.098, 0.234, 4.4e-5, 4.7e-6, 8, 512),
            "rtdl-CA": (3, 272, 2.34, 0.452, 0.146, 9.2e-5, 2.2e-6, 8, 256),
            "rtdl-HI": (2, 264, 2.45, 0.229, 0.322, 2.5e-5, 1.9e-5, 8, 512),
        },
    ),
    (
        XGBoostConfig,
        "max_depth lr min_child_weight subsample colsample_bytree colsample_bylevel gamma reg_lambda reg_alpha",
        {
            "paper": (5, 0.1, None, 1, 1, None, None, None, None),
            "rtdl-AD": (10, 0.028, 4.06, 0.953, 0.541, 0.617, 0, 2.9e-8, 0),
            "rtdl-HE": (10, 0.0189, 10.9, 0.606, 0.991, 0.827, 0, 0, 1.1e-5),
            "rtdl-JA": (9, 0.0617, 0.0252, 1, 0.792, 0.72, 0, 0, 0.0246),
            "rtdl-CA": (7, 0.0169, 4.9e-7, 0.881, 0.698, 0.939, 4.1e-4, 0, 3.6e-8),
            "rtdl-HI": (10, 0.0394, 2.8e-5, 0.954, 0.618, 0.777, 0, 0, 8.95),
        },
    ),
    (
        CatBoostConfig,
        "max_depth lr bagging_temperature l2_leaf_reg leaf_estimation_iterations",
        {
            "rtdl-AD": (3, 0.49, 0.144, 2.84, 3),
            "rtdl-HE": (5, 0.0432, 0.679, 3.07, 10),
            "rtdl-JA": (10, 0.0482, 0.178, 8.33, 3),
            "rtdl-CA": (9, 0.102, 0.004, 8.16, 4),
            "rtdl-HI": (9, 0.0456, 0.276, 5.7, 8),
        },
    ),
]
FIGURES = [
    pytest.param(config, name, dict(zip(columns.split(), row, strict=True)), id=f"{config.__name__}-{name}")
    for config, columns, rows in TABLES
    for name, row in rows.items()
]


def without_source(preset: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in preset.items() if key != "source"}


@pytest.mark.parametrize("config, name, figures", FIGURES)
def test_a_preset_has_the_published_figures(config: type[Config], name: str, figures: dict[str, object]) -> None:
    preset = config.presets()[name]
    for setting, figure in figures.items():
        if isinstance(figure, int | float):
            assert preset[setting] == pytest.approx(figure, rel=0.006), setting
        else:
            assert preset.get(setting) == figure, setting


@pytest.mark.parametrize("config", NETWORKS, ids=lambda config: config.__name__)
def test_networks_are_trained_as_their_papers_say(config: type[Config]) -> None:
    for name, preset in config.presets().items():
        if name == "paper" or name.startswith("tjepa-"):
            trained = [preset[key] for key in ("schedule", "stop_on", "max_epochs", "patience", "batch_size")]
            assert trained == ["cosine", "loss", 200, 16, 512], name
        if name.startswith("rtdl-"):
            resolved = config.resolve(without_source(preset), name)
            trained = [getattr(resolved, key) for key in ("schedule", "stop_on", "max_epochs", "patience")]
            assert trained == ["constant", "metric", 2000, 16], name
    assert config.presets()["paper"]["lr"] == 1e-4


def test_the_papers_forms_are_in_its_preset() -> None:
    assert MLPConfig.presets()["paper"]["form"] == "tjepa"
    assert AutoIntConfig(**without_source(AutoIntConfig.presets()["paper"])).n_heads == 2, "as in its search"
    assert FTTransformerConfig.presets()["paper"]["attention_dropout"] == 0.1


def test_embeddings_norms_and_scalings_of_gorishniy_et_al() -> None:
    widths = [config.presets()["rtdl-AD"]["d_embedding"] for config in (MLPConfig, ResNetConfig, DCNv2Config)]
    assert widths == [421, 348, 319]
    norms = {name: preset.get("norm", "pre") for name, preset in FTTransformerConfig.presets().items()}
    assert {name for name, norm in norms.items() if norm == "post"} == {"rtdl-JA", "rtdl-CA"}
    for config in NETWORKS:
        scalings = {name: config.presets()[f"rtdl-{name}"]["scaling"] for name in ("AD", "JA", "CA", "HI", "HE", "AL")}
        assert {name for name, scaling in scalings.items() if scaling == "standard"} == {"HE", "AL"}
        assert set(scalings.values()) == {"standard", "quantile"}


@pytest.mark.parametrize(
    "config, figures",
    [
        (MLPConfig, {"n_layers": 5, "dropout": 0.3527, "projection": FLAT}),
        (DCNv2Config, {"width": 755, "hidden_dropout": 0.0875, "cross_dropout": 0.2836, "d_embedding": 93}),
        (ResNetConfig, {"n_blocks": 4, "d_block": 497, "hidden_dropout": 0.265, "residual_dropout": 0.05}),
        (AutoIntConfig, {"n_layers": 2, "d_token": 252, "lr": 5.831e-4, "residual_dropout": 0.091, "n_heads": 2}),
        (FTTransformerConfig, {"d_token": 32, "n_heads": 8, "ffn_factor": 8.0, "attention_dropout": 0.4259}),
    ],
)
def test_what_the_paper_prints_for_mnist(config: type[Config], figures: dict[str, object]) -> None:
    assert {name: config.presets()["tjepa-MNIST"][name] for name in figures} == figures


def test_inputs_of_the_t_jepa_papers_networks() -> None:
    for config in NETWORKS:
        papers = {name: preset for name, preset in config.presets().items() if name.startswith(("paper", "tjepa-"))}
        assert len(papers) == 8
        assert {preset["scaling"] for preset in papers.values()} == {"standard"}
        if config in (MLPConfig, ResNetConfig):
            assert {preset["categories"] for preset in papers.values()} == {"one_hot"}
    decayed = [name for name, preset in FTTransformerConfig.presets().items() if preset.get("decay_all")]
    assert set(decayed) == {"paper"} | {name for name in FTTransformerConfig.presets() if name.startswith("tjepa-")}
