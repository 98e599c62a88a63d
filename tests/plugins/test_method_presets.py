"""Every preset can be tuned, and those of the methods hold what was published (models: ``test_presets``)."""

from typing import Any

import pytest

from tabbench.config import preset_settings
from tabbench.registry import make_registry
from tabbench.running.tuning import Study

REGISTRY = make_registry()
BUILT_IN = [
    entry
    for kind in ("ssl", "model")
    for entry in REGISTRY.entries(kind)
    if entry.distribution == "tabbench-ssl" and entry.plugin.config  # controls have no settings
]
PRESETS = [(entry.kind, entry.name, preset) for entry in BUILT_IN for preset in REGISTRY.load_config(entry).presets()]


def settings_of(kind: str, name: str, preset: str) -> dict[str, Any]:
    """The settings of a run with a preset; one of a dataset comes on top of its family."""
    presets = REGISTRY.load_config(REGISTRY.find(kind, name)).presets()
    return preset_settings({**presets.get(preset.rpartition("-")[0], {}), **presets[preset]})


@pytest.mark.parametrize(("kind", "name", "preset"), PRESETS)
def test_every_preset_can_be_tuned(kind: str, name: str, preset: str) -> None:
    config = REGISTRY.load_config(REGISTRY.find(kind, name))
    base = config.resolve(settings_of(kind, name, preset), name).to_json()
    study = Study("key", config, base, frozenset(config.search_space()), n_trials=2)
    assert study.propose().config == base
    if study.space:
        assert study.propose().config.keys() == base.keys()


PUBLISHED: dict[tuple[str, str], dict[str, Any]] = {
    ("tjepa", "paper-JA"): {
        "model_dim_hidden": 64, "model_num_layers": 16, "model_num_heads": 2, "model_dim_feedforward": 64,
        "model_dropout_prob": 0.0018542257314766695, "pred_embed_dim": 16, "pred_num_layers": 16, "pred_num_heads": 4,
        "pred_dim_feedforward": 256, "pred_p_dropout": 0.0019307456645321797, "exp_lr": 0.0003658682841082736,
        "mask_min_ctx_share": 0.13628349247854785, "mask_max_ctx_share": 0.36819012681604135,
        "mask_min_trgt_share": 0.1556321308543076, "mask_max_trgt_share": 0.6222278244105446, "mask_num_preds": 4,
        "exp_weight_decay": 0.0, "exp_batch_size": 512, "exp_epochs": 300, "model_ema_start": 0.996,
        "model_ema_end": 1.0, "n_reg": 1, "scaling": "standard", "bf16": False,
    },
    ("vime", "paper"): {"p_m": 0.3, "alpha": 2.0, "lr": 1e-3, "batch_size": 128, "epochs": 10, "width": None},
    ("vime", "official"): {"static_corruption": True, "corrupt_level": "encoded", "epochs": 10, "lr": 1e-3},
    ("vime", "paper-JA"): {"alpha": 3.1343, "p_m": 0.15536},
    ("vime", "paper-AL"): {"alpha": 1.3867, "p_m": 0.24229},
    ("vime", "paper-HE"): {"alpha": 4.7568, "p_m": 0.12751},
    ("vime", "paper-HI"): {"alpha": 4.7680, "p_m": 0.24642},
    ("vime", "paper-CA"): {"alpha": 2.5088, "p_m": 0.11916},
    ("subtab", "paper-MNIST"): {
        "shallow": True, "latent": 784, "n_subsets": 4, "overlap": 0.75, "noise": "swap", "p_m": 0.3, "normalize": True,
        "contrastive": True, "distance": True, "batch_size": 32, "epochs": 15, "tau": 0.1,
    },
    ("subtab", "paper-AD"): {
        "width": 1024, "latent": 1024, "depth": 2, "n_subsets": 5, "overlap": 0.25, "noise": "gaussian", "sigma": 0.15,
        "p_m": 0.3, "normalize": False, "contrastive": False, "distance": True, "batch_size": 256, "epochs": 20,
    },
    ("subtab", "paper-HE"): {"dropout": 0.1941, "width": 1024, "latent": 256, "lr": 1.0867e-3, "p_m": 0.2},
    ("subtab", "paper-JA"): {"dropout": 0.1383, "depth": 3, "latent": 128, "lr": 1.6595e-3, "p_m": 0.3},
    ("subtab", "paper-AL"): {"dropout": 0.1542, "latent": 512, "lr": 6.1929e-4, "p_m": 0.1, "n_subsets": 6},
    ("subtab", "paper-CA"): {"dropout": 0.0292, "width": 128, "lr": 5.8552e-4, "p_m": 0.1, "aggregation": "max"},
    ("subtab", "paper-HI"): {"dropout": 0.1310, "width": 512, "lr": 1.4141e-3, "p_m": 0.2, "aggregation": "sum"},
    ("subtab", "fork-AD"): {"dropout": 0.0, "width": 1024, "latent": 1024, "p_m": 0.2, "n_subsets": 5},
    ("subtab", "fork-MNIST"): {"dropout": 0.0, "width": 784, "latent": 784, "p_m": 0.3, "noise": "gaussian"},
    ("subtab", "small"): {"n_subsets": 2, "contrastive": False},
    ("binrecon", "paper"): {"depth": 1, "width": 128, "dropout": 0.1, "lr": 1e-4, "weight_decay": 1e-5, "epochs": 1000},
    ("binrecon", "xent"): {"loss": "xent", "depth": 1, "width": 128, "lr": 1e-4, "weight_decay": 1e-5, "epochs": 1000},
    ("binrecon", "official"): {
        "official_bins": True, "categories": "ordinal", "dropout": 0.1, "width": 128, "lr": 1e-4, "epochs": 1000,
    },
    ("switchtab", "paper"): {
        "layers": 3, "heads": 2, "corruption": 0.3, "lr": 3e-4, "batch_size": 128, "epochs": 1000, "patience": 20,
    },
    ("switchtab", "paper-AL"): {"encoder": "tokens", "epochs": 200, "lr": 3e-4},
    ("switchtab", "paper-MNIST"): {"encoder": "mlp", "layers": 3, "width": 256, "epochs": 200},
    ("ptarl", "paper"): {
        "lr": 1e-4, "weight_decay": 1e-5, "batch_size": 128, "patience": 20, "w_proj": 0.25, "w_div": 0.25,
        "w_orth": 0.25, "head_input": "pspace",
    },
    ("ptarl", "released"): {"head_input": "hidden", "released_losses": True, "lr": 1e-4, "batch_size": 128},
    ("ptarl", "paper-CA"): {"n_prototypes": 3, "lr": 1e-4, "batch_size": 128},
    ("ptarl", "paper-JA"): {"n_prototypes": 6, "lr": 1e-4, "batch_size": 128},
    ("ptarl", "paper-AL"): {"head_input": "hidden", "w_div": 0.0, "w_proj": 0.25, "lr": 1e-4},
}  # fmt: skip


@pytest.mark.parametrize(("name", "preset"), PUBLISHED)
def test_presets_have_the_published_values(name: str, preset: str) -> None:
    config = REGISTRY.load_config(REGISTRY.find("ssl", name))
    settings = config.resolve(settings_of("ssl", name, preset), name).to_json()
    published = PUBLISHED[name, preset]
    assert {key: settings[key] for key in published} == published


@pytest.mark.parametrize(("code", "beta"), [("JA", "1.5921"), ("AL", "1.0233"), ("HE", "0.81190"), ("HI", "1.4418")])
def test_presets_of_vime_name_the_beta_that_they_leave_out(code: str, beta: str) -> None:
    config = REGISTRY.load_config(REGISTRY.find("ssl", "vime"))
    assert f"beta {beta} " in config.presets()[f"paper-{code}"]["source"]
