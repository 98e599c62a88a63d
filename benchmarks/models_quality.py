"""Downstream models on raw tables with the tuned settings of Gorishniy et al. 2021, beside their results.

    python benchmarks/models_quality.py AD=adult.parquet CA=california.parquet --models mlp,xgboost --seeds 3

Each table is given as CODE=FILE; CODE chooses the settings (preset ``rtdl-CODE``, the model's own defaults where there
is none) and the published figures. The last column is the target: floats are regression, all else is classification.
Split 80/10/10, stratified for classification, another one for every seed; scalers and models are fitted on training
rows, early stopping sees validation rows, the test rows are scored once. Accuracy, or RMSE in the target's own unit.
Runs found in ``--out`` are not repeated.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from tabbench import Context, DownstreamModel, Labelled, Table, Task
from tabbench.data.tables import fit_schema, to_table

MODELS = {
    "linear": "tabbench_linear.model:Linear",
    "mlp": "tabbench_mlp.model:MLPModel",
    "resnet": "tabbench_resnet.model:ResNetModel",
    "dcnv2": "tabbench_dcnv2.model:DCNv2Model",
    "autoint": "tabbench_autoint.model:AutoIntModel",
    "ft_transformer": "tabbench_ft_transformer.model:FTTransformerModel",
    "xgboost": "tabbench_xgboost.model:XGBoost",
    "catboost": "tabbench_catboost.model:CatBoost",
}
PUBLISHED: Mapping[str, Mapping[str, float]] = {
    "AD": {"mlp": 0.852, "resnet": 0.854, "dcnv2": 0.853, "autoint": 0.859, "ft_transformer": 0.859}
    | {"xgboost": 0.872, "catboost": 0.873},
    "CA": {"mlp": 0.499, "resnet": 0.486, "dcnv2": 0.484, "autoint": 0.474, "ft_transformer": 0.459}
    | {"xgboost": 0.433, "catboost": 0.431},
}
"""Tuned, test part, mean of 15 seeds; their split is 64/16/20."""


class Parts(NamedTuple):
    """A table after its split; regression labels are standardised with training statistics."""

    train: Labelled
    validation: Labelled
    test: Table
    test_y: NDArray[Any]
    """In the target's own unit."""
    task: Task
    mean: float
    std: float


def split(path: Path, seed: int) -> Parts:
    frame = pd.read_parquet(path)
    target = frame.pop(frame.columns[-1])
    is_regression = pd.api.types.is_float_dtype(target)
    y = target.to_numpy(np.float64) if is_regression else pd.factorize(target, sort=True)[0]
    train, rest = train_test_split(
        np.arange(len(y)), test_size=0.2, random_state=seed, stratify=None if is_regression else y
    )
    validation, test = train_test_split(
        rest, test_size=0.5, random_state=seed, stratify=None if is_regression else y[rest]
    )
    schema = fit_schema(frame.iloc[train])
    mean, std, labels = 0.0, 1.0, y
    n_classes = 0 if is_regression else int(y.max()) + 1
    task = Task("regression") if is_regression else Task("binary" if n_classes == 2 else "multiclass", n_classes)
    if is_regression:
        mean, std = float(y[train].mean()), float(y[train].std())
        labels = ((y - mean) / std).astype(np.float32)
    return Parts(
        Labelled(to_table(frame.iloc[train], schema), labels[train]),
        Labelled(to_table(frame.iloc[validation], schema), labels[validation]),
        to_table(frame.iloc[test], schema),
        y[test],
        task,
        mean,
        std,
    )


def run(code: str, path: Path, name: str, seed: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    parts = split(path, seed)
    module, _, class_name = MODELS[name].partition(":")
    model_class: type[DownstreamModel] = getattr(import_module(module), class_name)
    preset = dict(model_class.presets().get(f"rtdl-{code}", {}))
    preset.pop("source", None)
    model = model_class(**{**preset, **settings})
    start = time.process_time()
    model.fit(parts.train, parts.validation, parts.task, Context(root_seed=seed))
    seconds = time.process_time() - start
    predicted = model.predict(parts.test)
    if parts.task.is_regression:
        score = float(np.sqrt(np.mean((predicted * parts.std + parts.mean - parts.test_y) ** 2)))
    else:
        score = float((predicted.argmax(axis=1) == parts.test_y).mean())
    short = {key: value for key, value in model.diagnostics.items() if not isinstance(value, list)}
    return {"data": code, "model": name, "seed": seed, "score": score, "cpu_seconds": seconds, **short}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", metavar="CODE=FILE")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--set", default="{}", help="settings over the preset, as JSON")
    parser.add_argument("--out", type=Path, default=Path("models_quality.jsonl"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    done = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    for seed in range(options.seeds):
        for table in options.tables:
            code, _, path = table.partition("=")
            for name in options.models.split(","):
                if any((record["data"], record["model"], record["seed"]) == (code, name, seed) for record in done):
                    continue
                done.append(run(code, Path(path), name, seed, json.loads(options.set)))
                with options.out.open("a") as file:
                    file.write(json.dumps(done[-1]) + "\n")
                print(done[-1], flush=True)
    print("| data | model | ours (seeds) | published | difference |\n|---|---|---|---|---|")
    for code, name in dict.fromkeys((record["data"], record["model"]) for record in done):
        scores = [record["score"] for record in done if (record["data"], record["model"]) == (code, name)]
        mean = statistics.mean(scores)
        published = PUBLISHED.get(code, {}).get(name)
        beside = f"{published:.3f} | {mean - published:+.3f}" if published else "- | -"
        print(f"| {code} | {name} | {mean:.4f} ({len(scores)}) | {beside} |")


if __name__ == "__main__":
    main()
