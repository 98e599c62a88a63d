"""What T-JEPA's representation is worth to a linear probe, beside the raw table and the untrained encoder.

    python benchmarks/tjepa_quality.py california.parquet --reg 0 1 --curves curves.json
    python benchmarks/tjepa_quality.py adult.parquet --rows 10000 --set exp_epochs=30

The table's last column (or ``--target``) is the target: floats are regression, all else is classification. The split is
80/10/10; scalers, encoders and probes are fitted on training rows, the probe's penalty is chosen on validation, and the
test rows are scored once. Regression: RMSE in standard deviations of the training target. Classification: accuracy
of a logistic regression and of a ridge classifier, and log loss and AUC of the former, which small differences show in.
Pretraining never sees a label: the last weights are taken.
"""

from __future__ import annotations

import argparse
import json
import time
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from tabbench_tjepa.method import TJEPA

from tabbench import Context, Scaler, Table
from tabbench.frames import fit_schema, to_table

SMALL = {
    "model_dim_hidden": 32,
    "model_num_layers": 2,
    "model_num_heads": 4,
    "model_dim_feedforward": 64,
    "pred_embed_dim": 16,
    "pred_num_layers": 2,
    "pred_num_heads": 4,
    "pred_dim_feedforward": 64,
    "exp_lr": 1e-3,
    "exp_epochs": 100,
}
PENALTIES = (1e-1, 1.0, 1e1, 1e2, 1e3)


class Data(NamedTuple):
    """Three parts of a table and their targets: train, validation, test."""

    tables: list[Table]
    y: list[NDArray[Any]]
    is_regression: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="parquet file")
    parser.add_argument("--target", help="target column, instead of the last")
    parser.add_argument("--rows", type=int, help="a random sample of so many rows")
    parser.add_argument("--reg", type=int, nargs="+", default=[1], help="numbers of [REG] tokens to try")
    parser.add_argument("--seeds", type=int, default=1, help="initialisations of each")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting, as in TOML")
    parser.add_argument("--curves", type=Path, help="write diagnostics of every run to this JSON file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    settings = {**SMALL, **tomllib.loads("\n".join(options.set))}
    data = load(options.path, options.target, options.rows)
    n, d = len(data.tables[0]), data.tables[0].n_features
    print(
        f"{options.path.name}: {n:,} training rows, {d} features; {'RMSE / std' if data.is_regression else 'accuracy'}"
    )
    print(f"raw: {probe(data, [raw(data, table) for table in data.tables])}", flush=True)
    curves = {}
    for seed in range(options.seeds):
        for n_reg in options.reg:
            context = Context(root_seed=seed)
            method = TJEPA(**settings, n_reg=n_reg)
            method.initialise(data.tables[0], context)
            name = f"seed {seed}, REG {n_reg}"
            print(f"{name}: untrained {probe(data, flat(method, data))}", flush=True)
            start = time.process_time()
            method.pretrain(data.tables[0], context)
            seconds = time.process_time() - start
            print(f"{name}: T-JEPA    {probe(data, flat(method, data))}; {seconds:.0f} CPU-seconds", flush=True)
            curves[name] = method.diagnostics
            for curve in ("loss", "uniformity"):
                values = method.diagnostics[curve]
                shown = values[:: max(len(values) // 12, 1)]
                print(f"  {curve:10} min {min(values):.3f}: " + " ".join(f"{value:.3f}" for value in shown))
            start_value = method.diagnostics["start"]["uniformity"]
            print(
                f"  uniformity untrained {start_value:.3f}, collapsed at the end: {method.diagnostics['collapsed'][-1]}"
            )
    if options.curves:
        options.curves.write_text(json.dumps(curves), encoding="utf-8")


def load(path: Path, target: str | None, rows: int | None) -> Data:
    frame = pd.read_parquet(path)
    if rows is not None:
        frame = frame.sample(min(rows, len(frame)), random_state=0)
    labels = frame.pop(target or frame.columns[-1])
    is_regression = pd.api.types.is_float_dtype(labels.dtype)
    y = labels.to_numpy(np.float64) if is_regression else pd.factorize(labels, sort=True)[0]
    train, rest = train_test_split(
        np.arange(len(y)), test_size=0.2, random_state=0, stratify=None if is_regression else y
    )
    validation, test = train_test_split(
        rest, test_size=0.5, random_state=0, stratify=None if is_regression else y[rest]
    )
    if is_regression:
        y = (y - y[train].mean()) / y[train].std()
    schema = fit_schema(frame.iloc[train])
    parts = (train, validation, test)
    return Data([to_table(frame.iloc[part], schema) for part in parts], [y[part] for part in parts], is_regression)


def raw(data: Data, table: Table) -> NDArray[np.float32]:
    """Standardised numbers and one-hot categories."""
    numeric = Scaler("standard").fit(data.tables[0].numeric).transform(table.numeric)
    hot = [np.eye(size, dtype=np.float32)[table.categorical[:, j]] for j, size in enumerate(table.schema.cardinalities)]
    return np.concatenate([numeric, *hot], axis=1)


def flat(method: TJEPA, data: Data) -> list[NDArray[np.float32]]:
    return [method.encode(table).array.reshape(len(table), -1) for table in data.tables]


def probe(data: Data, features: list[NDArray[np.float32]]) -> str:
    """Test scores of a ridge or logistic regression whose penalty is the best on validation."""
    scaler = StandardScaler().fit(features[0])
    train, validation, test = (scaler.transform(part) for part in features)
    linear = [
        Ridge(penalty) if data.is_regression else LogisticRegression(C=1 / penalty, max_iter=300)
        for penalty in PENALTIES
    ]
    models = [model.fit(train, data.y[0]) for model in linear]
    if data.is_regression:
        best = min(models, key=lambda model: rmse(model.predict(validation), data.y[1]))
        return f"{rmse(best.predict(test), data.y[2]):.4f}"
    best = min(models, key=lambda model: log_loss(data.y[1], model.predict_proba(validation)))
    probabilities = best.predict_proba(test)
    ridges = [RidgeClassifier(penalty).fit(train, data.y[0]) for penalty in PENALTIES]
    ridge = max(ridges, key=lambda model: model.score(validation, data.y[1]))
    text = f"{best.score(test, data.y[2]):.4f} (ridge {ridge.score(test, data.y[2]):.4f})"
    text += f", log loss {log_loss(data.y[2], probabilities):.4f}"
    if probabilities.shape[1] == 2:
        text += f", AUC {roc_auc_score(data.y[2], probabilities[:, 1]):.4f}"
    return text


def rmse(predicted: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean((predicted - y) ** 2)))


if __name__ == "__main__":
    main()
