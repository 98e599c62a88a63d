"""``tabbench run``: spec -> plan -> jobs -> executor -> store -> table."""

import sys
from typing import TYPE_CHECKING

from tabbench.cli.dry_run import print_plan
from tabbench.cli.options import takes
from tabbench.cli.run_options import RunOptions
from tabbench.errors import UsageError

if TYPE_CHECKING:
    from tabbench.results.store import Store
    from tabbench.running.launch import Launcher

FAILED, INTERRUPTED = 3, 130


@takes(RunOptions)
def run(options: RunOptions) -> None:
    """Run all combinations of SSL methods, models and datasets. Stored results are not run again.

    Exit codes: 0 all done, 1 the disk is full or not writable, 2 usage error, 3 some jobs failed or did not start,
    130 interrupted.
    """
    from tabbench.cli.table import show
    from tabbench.experiment.spec import read_experiment
    from tabbench.registry import make_registry
    from tabbench.results.gains import tabulate_gains
    from tabbench.results.page.verdict import tell
    from tabbench.results.store import Store
    from tabbench.results.tabulate import tabulate
    from tabbench.running.display import make_display
    from tabbench.running.request import plan_request, read_request, run_request

    if options.calibrate and not options.dry_run:
        raise UsageError("--calibrate times trainings for the estimate of --dry-run: add --dry-run, or leave it out")
    registry = make_registry(options.plugin or [])
    for problem in registry.problems:
        print(f"tabbench: {problem}", file=sys.stderr)
    terms = options.terms()
    experiment = read_experiment(options.experiment) if options.experiment else {}
    spec, launcher = read_request(options.entries(), registry, terms, experiment)
    store = Store(options.results, locks=options.locks)
    if options.dry_run:
        return print_plan(spec, registry, store, launcher, offline=terms.offline, calibrate=options.calibrate)
    if options.detach:
        return print_detached(launcher, store)

    display = make_display(quiet=options.quiet, verbose=options.verbose)
    plan = plan_request(spec, registry, store, display.say, offline=terms.offline)
    try:
        summary = run_request(plan, store, launcher, display, terms)
    except OSError as error:
        error.filename = error.filename or str(options.results)  # a full disk does not say where
        raise
    display.summary(summary, options.results)
    made = tabulate(store, only=[step.key for step in plan.records], names=plan.names)
    made.left_out.extend(summary.places_left_out())
    show(made, "terminal")
    for sentence in tell(tabulate_gains(store, only=[step.key for step in plan.records], names=plan.names)):
        display.say(sentence)
    sys.exit(INTERRUPTED if summary.interrupted else FAILED if summary.is_incomplete else 0)


def print_detached(launcher: "Launcher", store: "Store") -> None:
    """Start this command elsewhere, without --detach, and print how to follow it."""
    command = [sys.executable, "-m", "tabbench", *(word for word in sys.argv[1:] if word != "--detach")]
    print(f"driver: {launcher.detach(command, store)}")
    print(f"follow it with: tabbench status --results {store.root} --watch")
