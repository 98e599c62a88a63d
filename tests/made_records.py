"""Records written by hand, for tests of what is made of them."""

import json
from pathlib import Path
from typing import Any

from tabbench.results.store import Store


def made_record(number: int, **fields: Any) -> dict[str, Any]:
    """A record as a line of a results folder has it; later numbers were written later."""
    score = fields.get("score", 0.5)
    metric = fields.get("metric", "accuracy")
    base = {
        "schema": 1, "key": f"{number:024x}", "status": "ok", "kind": "result", "ssl": "none", "model": "mlp",
        "data": "wine", "data_key": fields.get("data", "w"), "split": 0, "seed": 0, "fidelity": "quick",
        "preset": "quick", "variant": "", "uses_labels": False, "trials": 0, "ssl_trials": 0, "task": "multiclass",
        "metric": metric, "score": score, "test": {metric: score}, "validation": {metric: score}, "flags": [],
        "counts": {"train": 1000, "validation": 100, "test": 100, "features": 4, "classes": 3, "representation": None},
        "hashes": {"data": "d" * 64, "split": "s" * 24, "predictions": "p" * 64},
        "seconds": {"fit": 1.0}, "plugins": {}, "time": 1000.0 + number,
    }  # fmt: skip
    return {**base, **fields}


def write_records(folder: Path, records: list[dict[str, Any]]) -> Store:
    """A results folder with these records; each gives only what differs from the usual."""
    (folder / "records").mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(made_record(number, **fields)) for number, fields in enumerate(records)]
    (folder / "records" / f"{len(lines)}.jsonl").write_text("".join(line + "\n" for line in lines))
    return Store(folder)


def scores(ssl: str, values: list[float], **fields: Any) -> list[dict[str, Any]]:
    """One record for each split."""
    return [{"ssl": ssl, "split": split, "score": value, **fields} for split, value in enumerate(values)]
