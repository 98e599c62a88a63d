"""What the kit says: verdicts, expected failures, skips, and the checks that need a registered plugin."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tabbench import Context, Plugin, PluginError, Representation, SSLMethod, State, Table, UsageError
from tabbench.registry import Entry
from tabbench.testing import (
    Check,
    CheckFailed,
    CheckSkipped,
    Subject,
    check_plugin,
    checks_for,
    make_labels,
    make_table,
)
from tabbench.testing.common import check_config_module_is_light, check_hook_module_is_light, check_it_trains
from tabbench.testing.subject import find_subject
from tabbench.values import FIRST_LEVEL


class Raw(SSLMethod):
    """Passes numbers on; it refuses what it cannot pass on."""

    def initialise(self, table: Table, context: Context) -> None:
        if table.schema.categorical:
            raise UsageError("raw passes numbers on: it takes no categories")
        self.schema, self.scale = table.schema, np.ones(1, dtype=np.float32)

    def pretrain(self, table: Table, context: Context) -> None:
        self.initialise(table, context)
        self.scale = self.scale * 2
        context.report(1, 1)

    def encode(self, table: Table) -> Representation:
        return Representation(self.scale * table.numeric)

    def get_state(self) -> State:
        return {"scale": self.scale}

    def set_state(self, state: State) -> None:
        self.scale = state["scale"]


MISSING = "check_missing_values", "check_missing_values_that_training_did_not_have"


def test_a_method_that_takes_numbers_only_is_checked_with_numbers() -> None:
    verdicts = {verdict.check: verdict for verdict in check_plugin(Raw)}
    assert [name for name, verdict in verdicts.items() if not verdict.ok] == list(MISSING)
    assert verdicts["check_mixed_table"].note == "refused: raw passes numbers on: it takes no categories"
    assert verdicts["check_unseen_categories"].status == "skipped"


def test_an_expected_failure_is_fine_and_an_unexpected_pass_is_not() -> None:
    reason = "it is for complete tables"
    verdicts = {v.check: v for v in check_plugin(Raw, expected_failures=dict.fromkeys(MISSING, reason))}
    assert all(verdict.ok for verdict in verdicts.values())
    assert verdicts[MISSING[0]].status == "expected"
    assert verdicts[MISSING[0]].note == f"{reason} (encode gave numbers that are not finite)"
    surprising = {v.check: v for v in check_plugin(Raw, expected_failures={"check_one_feature": "too narrow"})}
    assert surprising["check_one_feature"].status == "unexpected"
    assert not surprising["check_one_feature"].ok


def test_an_expected_failure_needs_a_known_check_and_a_reason() -> None:
    with pytest.raises(UsageError, match="Unknown check 'check_mising_values'. Did you mean: check_missing_values?"):
        check_plugin(Raw, expected_failures={"check_mising_values": "needs complete rows"})
    with pytest.raises(UsageError, match="needs a reason"):
        check_plugin(Raw, expected_failures={"check_missing_values": " "})


def test_every_check_is_a_promise_in_one_sentence() -> None:
    for kind in ("ssl", "joint_representation", "joint_predictions", "model", "data"):
        checks = checks_for(kind)
        assert len({check.name for check in checks}) == len(checks)
        for check in checks:
            assert check.promise.endswith("."), check.name
            assert len(check.promise) < 160, check.name


def test_what_cannot_be_checked_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="Unknown kind of plugin 'sll'. Did you mean: ssl?"):
        checks_for("sll")
    with pytest.raises(UsageError, match="dict is not a subclass of SSLMethod"):
        check_plugin(dict)
    with pytest.raises(UsageError, match="Did you mean: tjepa?"):
        check_plugin("tjpea")


def test_wrong_settings_are_told_once_and_are_no_refusal_of_a_table() -> None:
    with pytest.raises(UsageError, match="Unknown setting 'Raw.no_such'"):
        check_plugin(Raw, settings={"no_such": 1})
    mixed = next(check for check in checks_for("ssl") if check.name == "check_mixed_table")
    with pytest.raises(CheckFailed, match="Unknown setting 'Raw.no_such'"):
        mixed(Subject("ssl", lambda: Raw, "Raw", {"no_such": 1}))


def subject_of(module: str, config: str = "") -> Subject:
    plugin = Plugin("raw", f"{__name__}:Raw", config=config)
    return Subject("ssl", lambda: Raw, "raw", entry=Entry("ssl", plugin, "dist", "1", module=module))


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_heavy_hook_module_is_found(on_path: Path) -> None:
    (on_path / "light_hooks.py").write_text("import tabbench\n")
    (on_path / "heavy_hooks.py").write_text("import tabbench.nn\n")
    (on_path / "broken_hooks.py").write_text("import no_such_module\n")
    check = Check(check_hook_module_is_light)
    check(subject_of("light_hooks"))
    with pytest.raises(CheckFailed, match="importing heavy_hooks imports .*torch"):
        check(subject_of("heavy_hooks"))
    with pytest.raises(CheckFailed, match="importing broken_hooks alone fails"):
        check(subject_of("broken_hooks"))
    with pytest.raises(CheckSkipped):
        check(Raw)


def test_a_heavy_or_wrong_config_module_is_found(on_path: Path) -> None:
    (on_path / "heavy_config.py").write_text("import torch\nfrom tabbench import Config\n")
    (on_path / "other_config.py").write_text("import tabbench\nclass Other(tabbench.Config): ...\n")
    check = Check(check_config_module_is_light)
    check(subject_of("", "tabbench.config:Config"))
    with pytest.raises(CheckFailed, match="importing heavy_config imports"):
        check(subject_of("", "heavy_config:Config"))
    with pytest.raises(CheckFailed, match="other_config:Other is not the Config of Raw"):
        check(subject_of("", "other_config:Other"))


def test_parametrize_with_checks_serves_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_raw.py").write_text(
        f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_kit_verdicts import Raw
from tabbench.testing import parametrize_with_checks

NEEDS = "needs complete rows"

@parametrize_with_checks(Raw, expected_failures={{"check_missing_values": NEEDS, "check_one_feature": "too narrow"}})
def test_conforms(plugin, check):
    check(plugin)
"""
    )
    command = [sys.executable, "-m", "pytest", "-q", "-rfxs", "-p", "no:cacheprovider", "test_raw.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "test_conforms[Raw-check_missing_values] - needs complete rows" in done.stdout
    assert "[XPASS(strict)] too narrow" in done.stdout
    assert "test_conforms[Raw-check_missing_values_that_training_did_not_have]" in done.stdout
    assert "2 failed" in done.stdout
    assert "it takes no categories" in done.stdout, "skips say why"


def test_made_tables_share_schema_and_distribution() -> None:
    table, other = make_table(500, 3, 3, seed=0), make_table(50, 3, 3, seed=1)
    assert table.schema == other.schema
    assert not np.array_equal(table.numeric[:50], other.numeric)
    assert np.array_equal(make_table(50, 3, 3, seed=1).numeric, other.numeric)
    assert (table.categorical >= FIRST_LEVEL).all()
    assert (table.categorical < table.schema.cardinalities).all()
    holes = make_table(500, 3, 3, missing=0.2)
    assert 0.15 < np.isnan(holes.numeric).mean() < 0.25
    assert 0.15 < (holes.categorical == 0).mean() < 0.25


@pytest.mark.parametrize("columns", [(4, 0), (0, 3), (3, 2), (1, 0), (0, 1)])
def test_made_labels_have_every_class(columns: tuple[int, int]) -> None:
    table = make_table(300, *columns)
    for kind, n_classes in (("binary", 2), ("multiclass", 3)):
        y, task = make_labels(table, kind)  # type: ignore[arg-type]
        assert task.n_classes == n_classes
        assert set(y) <= set(range(n_classes))
        assert len(set(y)) >= 2
    numbers, task = make_labels(table, "regression")
    assert task.is_regression
    assert numbers.std() > 0.1


class Hangs(Raw):
    def pretrain(self, table: Table, context: Context) -> None:
        try:
            time.sleep(60)
        except Exception:
            time.sleep(60)


def test_a_check_that_takes_too_long_fails_with_the_remedy() -> None:
    verdicts = check_plugin(Hangs, time_limit=0.2)
    assert [verdict.check for verdict in verdicts if not verdict.ok] == ["check_it_trains"]
    assert verdicts[-1].note == "it took longer than 0.2 s: make it faster with settings, or allow more time"


def test_a_plugin_that_cannot_train_is_told_once_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "lost.py"
    file.write_text(
        "import tabbench\n"
        "class Lost(tabbench.SSLMethod):\n"
        "    def pretrain(self, table, context):\n"
        "        raise KeyError('width')\n"
        "    encode = get_state = set_state = None\n"
        "@tabbench.hookimpl\n"
        "def tabbench_ssl_methods():\n"
        "    return [tabbench.Plugin('lost', f'{__name__}:Lost')]\n"
    )
    verdicts = check_plugin("lost", files=[file])
    assert verdicts[-1].check == "check_it_trains"
    assert verdicts[-1].note == "KeyError: 'width' (lost.py:4)"
    assert all(verdict.ok for verdict in verdicts[:-1])
    subject = find_subject("lost", files=[file])
    with pytest.raises(CheckFailed):
        Check(check_it_trains)(subject)
    with pytest.raises(CheckSkipped, match="it cannot train: see check_it_trains"):
        checks_for("ssl")[-1](subject)


def test_a_class_of_another_kind_is_named(tmp_path: Path) -> None:
    file = tmp_path / "stranger.py"
    file.write_text(
        "import tabbench\n"
        "class Stranger: pass\n"
        "@tabbench.hookimpl\n"
        "def tabbench_ssl_methods():\n"
        "    return [tabbench.Plugin('stranger', f'{__name__}:Stranger')]\n"
    )
    with pytest.raises(PluginError, match=r":Stranger is not a subclass of tabbench.SSLMethod$"):
        find_subject("stranger", files=[file]).load()
