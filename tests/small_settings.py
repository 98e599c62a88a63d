"""Settings with which every built-in method and model trains in a moment: promises do not depend on size."""

from typing import Any

TINY_TJEPA: dict[str, Any] = {
    "model_dim_hidden": 8,
    "model_num_layers": 1,
    "model_num_heads": 2,
    "model_dim_feedforward": 16,
    "pred_embed_dim": 4,
    "pred_num_layers": 1,
    "pred_num_heads": 2,
    "pred_dim_feedforward": 8,
}
NETWORK = {"max_epochs": 6, "lr": 0.01, "batch_size": 32}
SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("ssl", "tjepa"): {"exp_epochs": 2, "exp_batch_size": 32},
    ("ssl", "vime"): {"epochs": 2},
    ("ssl", "vime_semi"): {"epochs": 2, "semi_epochs": 10},
    ("ssl", "subtab"): {"epochs": 2, "width": 32, "latent": 16},
    ("ssl", "binrecon"): {"epochs": 2},
    ("ssl", "switchtab"): {"epochs": 2, "width": 16, "layers": 1},
    ("ssl", "switchtab_sup"): {"epochs": 2, "width": 16, "layers": 1},
    ("ssl", "reconstruct"): {"epochs": 2, "head_width": 16},
    ("ssl", "predict_mask"): {"epochs": 2, "head_width": 16},
    ("ssl", "ptarl"): {"epochs": 10, "batch_size": 32, "lr": 0.01},
    ("ssl", "ptarl_repr"): {"epochs": 2, "width": 32, "layers": 1},
    ("model", "linear"): {},
    ("model", "linear_head"): {**NETWORK},
    ("model", "knn"): {},
    ("model", "mlp"): {**NETWORK, "n_layers": 2, "width": 32, "d_embedding": 8},
    ("model", "resnet"): {**NETWORK},
    ("model", "dcnv2"): {**NETWORK},
    ("model", "autoint"): {**NETWORK},
    ("model", "ft_transformer"): {**NETWORK},
    ("model", "xgboost"): {"n_rounds": 20, "lr": 0.3},
    ("model", "catboost"): {"n_rounds": 20, "lr": 0.3},
}
