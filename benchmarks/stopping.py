"""What boosters and networks should watch for early stopping: the main metric on validation, or the loss.

    python benchmarks/stopping.py FILE:TARGET ... [--model catboost,xgboost,mlp] [--rows 6000] [--splits 3]

Prints a Markdown table with the mean over the splits. Validation chooses when to stop, the test part judges.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

import tabbench

METRICS = ("accuracy", "log_loss", "auroc")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", nargs="+", metavar="FILE:TARGET")
    parser.add_argument("--model", default="catboost,xgboost,mlp")
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--results", type=Path, default=Path(tempfile.gettempdir()) / "tabbench-stopping")
    asked = parser.parse_args()
    models = asked.model.split(",")
    print(f"| data | model | stop on | {' | '.join(METRICS)} | seconds |")
    print("|---|---|---|" + "---:|" * (len(METRICS) + 1))
    for data in asked.data:
        for model in models:
            for watched in ("metric", "loss"):
                print(
                    f"| {Path(data).stem} | {model} | {watched} | {measure(data, model, watched, asked)} |", flush=True
                )


def measure(data: str, model: str, watched: str, asked: argparse.Namespace) -> str:
    """The cells of one row."""
    made = tabbench.run(
        ssl="none",
        model=model,
        data=data,
        results=asked.results,
        settings={model: {"stop_on": watched}},
        preset="standard",
        trials=0,
        seeds=1,
        rows=asked.rows,
        splits=asked.splits,
        progress=False,
    )
    records = [record for record in made.store.records() if record.key in (made.only or ())]
    scores = [[float(record.test[name] or "nan") for record in records if record.test] for name in METRICS]
    seconds = [record.seconds["fit"] for record in records if record.seconds]
    return " | ".join([*(f"{statistics.mean(each):.4f}" for each in scores), f"{statistics.mean(seconds):.1f}"])


if __name__ == "__main__":
    main()
