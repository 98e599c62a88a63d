"""``tabbench results``: merge, check, question and clean up result folders."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tabbench.cli.options import DEFAULT_RESULTS, CommandGroup, PluginFiles, ResultsFolder
from tabbench.cli.text import printable
from tabbench.errors import TabbenchError, UsageError

if TYPE_CHECKING:
    from tabbench.results.predictors import Prediction
    from tabbench.results.record import Record

FINDINGS = 3
app = CommandGroup(help="Merge, check and clean up result folders.", no_args_is_help=True)
Folder = Annotated[Path, typer.Argument(metavar="[DIR]", help="A results folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON for programs.")]


@app.callback()
def results_commands() -> None:
    """Merge, check and clean up result folders."""


@app.command("merge")
def merge(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Result folders to take records from.")],
    results: ResultsFolder = DEFAULT_RESULTS,
    no_curves: Annotated[
        bool, typer.Option("--no-curves", help="Leave out curves over epochs, to publish small files.")
    ] = False,
) -> None:
    """Merge the records of other result folders, each job once. Untrustworthy records are refused and named.

    Records of the same job must have the same evidence: all scores, and the hashes of data, split, encoder and
    predictions. If they differ, neither is merged, and existing records stay. Exit codes: 0 all merged, 1 something was
    refused.
    """
    from tabbench.results.merge import merge_results
    from tabbench.results.store import Store

    merged = merge_results(list(dict.fromkeys(folders)), Store(results), curves=not no_curves)
    for folder, added in merged.added.items():
        print(f"{folder}: {added} new record(s)")
    notes = [f"{merged.same} already there"]
    notes += [f"{merged.failed} of jobs that failed"] if merged.failed else []
    notes += [f"{merged.flagged} flagged, which tables leave out"] if merged.flagged else []
    print(f"{results}: {sum(merged.added.values())} new record(s), {', '.join(notes)}")
    for reason in merged.refused:
        print(f"refused: {printable(reason, limit=1000)}", file=sys.stderr)
    sys.exit(1 if merged.refused else 0)


@app.command("verify")
def verify(
    folder: Folder = DEFAULT_RESULTS,
    replay: Annotated[int, typer.Option(min=0, metavar="K", help="Run K random results again and compare.")] = 0,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed that decides which results --replay draws.")] = 0,
    plugin: PluginFiles = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not use the network.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a results folder: digests of all lines, copies and artefacts, types, contradictions.

    Artefacts are optional, so that records can be published alone. A record removed as a whole line leaves no trace.
    Exit codes: 0 nothing found, 2 no results there, 3 something is wrong.
    """
    from tabbench.results.verify import choose_cells, verify_results

    found = verify_results(folder)
    again = choose_cells(folder, found, replay, seed)
    for record in again:
        difference = _replay(record, folder, plugin or [], offline)
        if difference:
            place = f"{record.data}/{record.split} {record.ssl} + {record.model}"
            place += "" if record.seed is None else f" seed {record.seed}"
            found.findings.append(f"{record.key[:10]} ({place}): {difference}")
    if as_json:
        print(json.dumps({**found.to_json(), "replayed": [record.key for record in again]}, indent=1))
    else:
        print(f"{folder}: {found.results} result(s), {found.trials} trial(s), {found.failures} failure(s)")
        print(f"{found.artefacts} artefact(s), {found.experiments} experiment(s), {len(again)} replayed")
        if found.without_digest:
            print(f"note: {found.without_digest} line(s) of version 0.1.0 have no digest")
        for finding in found.findings:
            print(f"finding: {printable(finding, limit=1000)}")
        print(f"{len(found.findings)} finding(s)" if found.findings else "no problems found")
    sys.exit(FINDINGS if found.findings else 0)


def _replay(record: "Record", folder: Path, plugins: list[Path], offline: bool) -> str:
    """What differs when a result is run again; empty if nothing does."""
    from tabbench.cli.replay import run_again
    from tabbench.results.replay import check_again, prepare_replay

    try:
        again = run_again(prepare_replay(record, folder, plugins), folder, "local", [], offline)
    except TabbenchError as error:
        return f"it cannot be run again: {error}"
    differing = [line for line in check_again(record, again) if not line.same]
    return "; ".join(f"{line.what} was {line.stored}, is {line.again}" for line in differing)


@app.command("predictors")
def predictors(
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="DIR...", help="Result folders; by default, results.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Which label-free score predicts downstream performance?

    Encoders are put in order by each label-free score, and by the scores of a model that reads them. Kendall's tau says
    how far the two orders agree: per table, on average, and with the scores shuffled among encoders. A tau within the
    shuffled range says nothing.
    """
    from tabbench.results.files import check_results
    from tabbench.results.predictors import predict_quality
    from tabbench.results.store import Store

    chosen = folders or [DEFAULT_RESULTS]
    for folder in chosen:
        check_results(folder)
    found = predict_quality(record for folder in chosen for record in Store(folder).records())
    if as_json:
        print(json.dumps(found.to_json(), indent=1))
    else:
        print("\n".join(_describe(found)))


def _describe(found: "Prediction") -> list[str]:
    """A table of scores, and one of tables held out."""
    from tabulate import tabulate

    if not found.predictors:
        return [
            f"{found.results} result(s) with label-free scores. No answer yet: it takes three encoders on one split, "
            "read by the same model"
        ]
    datasets = list(dict.fromkeys(name for each in found.predictors for name in each.by_dataset))
    rows = [
        [each.score, f"{each.tau:+.2f}", f"{each.low:+.2f} to {each.high:+.2f}", f"{each.p_value:.3f}", each.encoders]
        + [f"{each.by_dataset[name]:+.2f}" if name in each.by_dataset else "-" for name in datasets]
        for each in found.predictors
    ]
    heads = ["score", "tau", "shuffled", "p", "encoders", *datasets]
    align = ["left", *["right"] * (len(heads) - 1)]
    lines = tabulate(rows, heads, tablefmt="plain", colalign=align, disable_numparse=True).splitlines()
    lines += ["", "Chosen on the other tables, tried on this one:"]
    held = [
        [each.dataset, each.score, "more" if each.sign > 0 else "less", f"{each.elsewhere:+.2f}", f"{each.here:+.2f}"]
        for each in found.held_out
    ]
    if held:
        heads = ["table", "score", "better", "tau elsewhere", "tau here"]
        align = ["left", "left", "left", "right", "right"]
        lines += tabulate(held, heads, tablefmt="plain", colalign=align, disable_numparse=True).splitlines()
    else:
        lines[-1:] = ["One table only: no table can be held out."]
    return [
        *lines,
        "",
        f"{found.results} results and trials. tau: Kendall's, averaged over models and splits of a table, then over "
        "tables.",
        "shuffled: the middle 95 % with the scores shuffled among the encoders of a split. pretext_loss compares "
        "encoders of one method.",
    ]


@app.command("clean")
def clean(
    folder: Folder = DEFAULT_RESULTS,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be removed.")] = False,
) -> None:
    """Remove what no record needs: encoders and representations, checkpoints of unfinished jobs, drafts.

    Records, experiments and studies are kept. A later run recomputes what it needs.
    """
    from tabbench.results.cleaning import at_work, find_waste, remove_waste
    from tabbench.results.files import check_results
    from tabbench.results.store import Store

    check_results(folder)
    drivers = at_work(folder)
    if drivers and not dry_run:
        raise UsageError(f"{folder}: a driver works here ({drivers[0].id}): wait for it, or stop it, then clean")
    found = find_waste(Store(folder))
    for kind in ("artefact", "scratch", "draft"):
        sizes = [waste.size for waste in found if waste.kind == kind]
        print(f"{kind}: {len(sizes)}, {_megabytes(sum(sizes))}")
    freed = sum(waste.size for waste in found) if dry_run else remove_waste(found)
    print(f"{'would free' if dry_run else 'freed'} {_megabytes(freed)} in {folder}")


def _megabytes(size: int) -> str:
    return f"{size / 2**20:.1f} MB"
