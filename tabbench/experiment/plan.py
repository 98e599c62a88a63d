"""Spec x Registry x data -> a graph of content-addressed steps. Pure: it reads, writes and runs nothing.

A step's key is a hash of everything that determines its result, and of nothing else. So one pretraining serves every
model and seed that builds on it, and resuming is "planned minus done".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from tabbench.config import Settings
from tabbench.contracts.job import Identity, content_key
from tabbench.contracts.metrics import CLASSIFICATION_METRICS, REGRESSION_METRICS, is_metric_of, main_metric
from tabbench.contracts.weighting import Weighting
from tabbench.data.cache import Manifest
from tabbench.data.labels import LabelBudget
from tabbench.errors import UsageError, unknown
from tabbench.experiment.graph import Origin, Plan, Planned, Role, Step, StepKind, StudyPlan
from tabbench.experiment.payloads import (
    EncodePayload,
    FitPayload,
    LabelChoice,
    PretrainPayload,
    SplitChoice,
    TunePayload,
)
from tabbench.experiment.protocols import Skipped, UsedAs, ways_to_use, why_not
from tabbench.experiment.settings import (
    Arm,
    Configured,
    check_settings,
    choose_all,
    describe_overrides,
    refuse_idle,
)
from tabbench.experiment.spec import Spec
from tabbench.hookspecs import CONTRACT_VERSION
from tabbench.registry import Registry
from tabbench.values import Task


def check_spec(spec: Spec, registry: Registry) -> None:
    """Refuse unknown names and settings, and a run without any possible pair, before reading any data."""
    metrics = (*CLASSIFICATION_METRICS, *REGRESSION_METRICS)
    if spec.metric and spec.metric not in metrics:
        raise unknown("metric", spec.metric, metrics)
    if spec.metric == "ece":
        raise UsageError(
            "--metric ece cannot drive a run: predicting the class frequencies for every row would be perfect. "
            "Use log_loss; 'tabbench table --metric ece' shows it"
        )
    models, arms = choose_all(spec, registry)
    used = [*models, *(arm.method for arm in arms if arm.method)]
    check_settings(spec, registry, used)
    refuse_idle(spec, used)
    reasons = [
        why_not(arm, model, used_as, Weighting(spec.weights))  # classes are balanced only where there are some
        for arm in arms
        if arm.method is not None or spec.weights
        for used_as in ways_to_use(arm, spec.protocol)
        for model in models
    ]
    if reasons and all(reasons):
        raise UsageError(f"Nothing to run: {reasons[-1]}")


def make_plan(spec: Spec, registry: Registry, manifests: Sequence[Manifest]) -> Plan:
    """All steps of an experiment on the given datasets."""
    plan = Plan()
    kinds = {manifest.task == "regression" for manifest in manifests}
    if spec.metric and not any(is_metric_of(spec.metric, regression=kind) for kind in kinds):
        wanted = "a numeric target" if spec.metric in REGRESSION_METRICS else "a target with classes"
        raise UsageError(f"--metric {spec.metric} needs {wanted}, but no table in this run has one")
    if spec.class_weights and kinds == {True}:
        raise UsageError("--class-weights needs a target with classes, but no table in this run has one")
    for manifest in manifests:
        models, arms = choose_all(spec, registry, manifest.name)
        for split in range(spec.rule.count(spec.splits, manifest.n_folds)):
            for arm in arms:
                for used_as in ways_to_use(arm, spec.protocol):
                    for budget in spec.budgets:
                        place = _Place(spec, plan, manifest, split, arm, used_as, budget)
                        for model in models:
                            place.add_records(model)
    plan.skipped = list(dict.fromkeys(plan.skipped))
    if spec.weighting and not plan.records:
        raise UsageError(f"Nothing to run: {plan.skipped[-1].reason}")
    return plan


@dataclass
class _Place:
    """Adds the steps for one dataset, split and SSL arm, under one protocol and label budget."""

    spec: Spec
    plan: Plan
    manifest: Manifest
    split: int
    arm: Arm
    used_as: UsedAs
    budget: LabelBudget

    def __post_init__(self) -> None:
        self.rows_limit = rows_limit_of(self.spec, self.manifest)
        rows = SplitChoice(
            rule=self.spec.rule.to_json(), seed=self.split, rows=self.rows_limit, weights=self.spec.weights
        )
        data = {"key": self.manifest.key}
        if self.spec.rule.kind == "server" and self.manifest.folds is not None:
            data["folds"] = self.manifest.folds.key
        usual = set() if rows.weights else {"weights"}  # keys stay as they were before weights existed
        self.where: Identity = {"data": data, "split": rows.model_dump(exclude=usual)}
        self.common: dict[str, Any] = {"manifest": self.manifest, "split": rows, "threads": self.spec.threads}
        self.weighting = self.spec.weighting.on(self.manifest.task)
        self.metric = metric_of(self.spec, self.manifest)
        self.common["metric"] = self.metric
        self.labels: LabelChoice | None = None
        if not self.budget.is_all:
            self.labels = LabelChoice(budget=self.budget.text, validation=self.spec.validation_labels)
        self.finetunes = self.used_as == "finetune"

    @property
    def labels_identity(self) -> Identity:
        """The labels entry of a key; empty if all labels are used."""
        return {} if self.labels is None else {"labels": self.labels.model_dump()}

    def _key(self, kind: StepKind, identity: Mapping[str, Any]) -> str:
        how: Identity = {"threads": self.spec.threads} if self.spec.threads != 1 else {}
        how |= {"metric": self.metric} if self.metric else {}
        return content_key({"contract": CONTRACT_VERSION, "step": kind, **identity, **how})

    def _label(self, text: str) -> str:
        return f"{self.manifest.name}/{self.split} {text}"

    # Pairs.

    def add_records(self, model: Configured) -> None:
        """Add the steps for a model, or return the reason why there are none."""
        skipped = self._skipped(model)
        if skipped is not None:
            self.plan.skipped.append(skipped)
            return
        model = model if self.finetunes else model.without_finetuning()
        if self.finetunes:
            self._add_finetuned(model)
        else:
            self._add_fitted(model)

    def _skipped(self, model: Configured) -> Skipped | None:
        pair = (self.arm.label, model.name, self.used_as)
        reason = why_not(self.arm, model, self.used_as, self.weighting)
        if reason:
            return Skipped(reason, *pair)
        rows = self.rows_limit or self.manifest.rows
        reason = self.budget.problem(rows - 2 * round(0.1 * rows))
        return Skipped(reason, *pair, self.manifest.name, self.budget.text) if reason else None

    # Encoders.

    @cached_property
    def _encoder(self) -> tuple[str, dict[Role, str]]:
        """Pretrain or tune: the key of the pretraining or the study, and what a study decides. All models share it."""
        method = self.arm.method
        assert method is not None
        tuned = method.tuned(raw=True)
        if not (self.spec.ssl_trials and tuned):
            return self.plan.add(self._pretrain_step(method.config)), {}
        study = self._add_study(
            method, tuned, self.spec.ssl_trials, self._pretrain_step, f"tune {self.arm.label}", used_as="frozen"
        )
        return study, {"encoder": study}

    @cached_property
    def _features(self) -> str | None:
        """Pretrain (or tune) and encode; the key of the encoded features, or None for raw ones. All models share it."""
        method = self.arm.method
        if method is None or self.arm.trains_model:
            return None
        need, tuned = self._encoder
        payload = EncodePayload(**self.common, method=method.address(), seed=self.split, encoder="" if tuned else need)
        label = self._label(f"encode {self.arm.label}")
        return self.plan.add(Step(self._key("encode", {"of": need}), "encode", label, payload, (need,), tuned=tuned))

    def _pretrain_step(self, config: Settings, model: Configured | None = None, study: str | None = None) -> Step:
        assert self.arm.method is not None
        method, trained = self.arm.method.with_config(config), self.arm.trained
        seen = self._labels_of_pretraining()
        identity: Identity = {**self.where, "method": method.identity(), "trained": trained, "seed": self.split}
        if self.manifest.unlabelled is not None:
            identity["unlabelled"] = self.manifest.unlabelled.key
        if not self.spec.is_probed and trained and not self.arm.uses_labels:
            identity["probed"] = False
        if seen is not None:
            identity["labels"] = seen.model_dump()
        if model is not None:
            identity |= {"model": model.identity(), "study": study}
        payload = PretrainPayload(
            **self.common,
            method=method.address(),
            trained=trained,
            seed=self.split,
            model=model.address() if model is not None else None,
            labels=seen,
            probed=self.spec.is_probed,
        )
        label = f"pretrain {self.arm.label}" + (f" for {model.name}" if model is not None else "")
        decided: dict[Role, str] = {"model": study} if study is not None else {}
        needs = (study,) if study is not None else ()
        return Step(self._key("pretrain", identity), "pretrain", self._label(label), payload, needs, tuned=decided)

    def _labels_of_pretraining(self) -> LabelChoice | None:
        """The labels that a pretraining may use, to learn or to choose weights; empty if all of them."""
        looks = self.arm.uses_labels or (self.spec.is_probed and self.arm.trained)
        return self.labels if looks else None

    def _add_study(
        self,
        configured: Configured,
        tuned: frozenset[str],
        n_trials: int,
        make_step: Callable[[Settings], Step],
        label: str,
        needs: tuple[str, ...] = (),
        model: str = "",
        used_as: UsedAs | None = None,
        decided: Mapping[Role, str] | None = None,
    ) -> str:
        """The key of a study: its first trial, what the others change, and how many there are."""
        identity = {
            "first": make_step(configured.config).key,
            "tuned": sorted(tuned),
            "trials": n_trials,
            "sampler": self.spec.sampler,
        }
        if configured.searched:
            identity["ranges"] = {
                name: configured.searched[name] for name in sorted(tuned & configured.searched.keys())
            }
        planned = Planned(kind="trial", model=model, **{**self._here(), "protocol": used_as or self.used_as})
        study = StudyPlan(configured, n_trials, self.spec.sampler, make_step, planned, tuned)
        payload = TunePayload(**self.common, seed=0)
        key = self._key("tune", identity)
        return self.plan.add(Step(key, "tune", self._label(label), payload, needs, study=study, tuned=decided or {}))

    # Models.

    def _add_fitted(self, model: Configured) -> None:
        # If a joint method trains the model itself, it is what gets tuned; the model's own settings only say
        # what its backbone looks like.
        role: Role = "joint" if self.arm.trains_model else "model"
        learner = self.arm.method if self.arm.trains_model else model
        assert learner is not None
        features = self._features
        needs = (features,) if features else ()
        label = self._pair_label(model)

        def trial_step(config: Settings) -> Step:
            parts: dict[Role, Configured] = {"model": model, role: learner.with_config(config)}
            return self._fit_step("trial", parts, 0, f"tune {label}", features=features)

        tuned = learner.tuned(raw=features is None)
        study = None
        if self.spec.trials and tuned:
            study = self._add_study(learner, tuned, self.spec.trials, trial_step, f"tune {label}", needs, model.name)
            needs = (*needs, study)
        decided: dict[Role, str] = {role: study} if study is not None else {}
        parts: dict[Role, Configured] = {"model": model, role: learner}
        how: dict[str, Any] = {"features": features, "study": study, "needs": needs, "decided": decided}
        if not learner.entry.plugin.seeded:
            self.plan.add(self._fit_step("fit", parts, None, label, **how))
            return
        for seed in range(self.spec.seeds):
            self.plan.add(self._fit_step("fit", parts, seed, f"{label} seed {seed}", **how))

    def _add_finetuned(self, model: Configured) -> None:
        """Encoder and model are trained together, or a pretrained backbone is trained further.

        A trial that changes the backbone also pretrains it; the best one is then pretrained once for all seeds.
        """
        method = self.arm.method
        assert method is not None
        own = self.arm.pretrains_backbone
        ready, decided = ("", {}) if own else self._encoder
        label = self._pair_label(model)

        def trial_step(config: Settings) -> Step:
            parts: dict[Role, Configured] = {"model": model.with_config(config)}
            return self._fit_step("trial", parts, 0, f"tune {label}", encoder=ready)

        tuned = model.tuned(raw=own, finetune=True)
        needs: tuple[str, ...] = (ready,) if ready else ()
        study = None
        if self.spec.trials and tuned:
            study = self._add_study(
                model, tuned, self.spec.trials, trial_step, f"tune {label}", needs, model.name, decided=decided
            )
            decided = {**decided, "model": study}
        encoder = self.plan.add(self._pretrain_step(method.config, model, study)) if own else ready
        needs = (encoder,) if study is None else (encoder, study)
        how: dict[str, Any] = {"encoder": encoder, "study": study, "needs": needs, "decided": decided}
        for seed in range(self.spec.seeds):
            self.plan.add(self._fit_step("fit", {"model": model}, seed, f"{label} seed {seed}", **how))

    def _pair_label(self, model: Configured) -> str:
        how = ", fine-tuned" if self.finetunes else ""
        return f"{self.arm.label} + {model.name}{how}" + ("" if self.labels is None else f", {self.budget.text} labels")

    def _fit_step(
        self,
        kind: Literal["trial", "fit"],
        parts: Mapping[Role, Configured],
        seed: int | None,
        label: str,
        *,
        features: str | None = None,
        encoder: str | None = None,
        study: str | None = None,
        needs: tuple[str, ...] = (),
        decided: Mapping[Role, str] | None = None,
    ) -> Step:
        identity: Identity = {**self.where, "features": features, "seed": seed or 0, "study": study}
        identity |= {name: part.identity() for name, part in parts.items()} | self.labels_identity
        identity |= {"class_weights": "balanced"} if self.weighting.balanced else {}
        if (self.arm.trains_model or encoder == "") and self.manifest.unlabelled is not None:
            identity |= {"unlabelled": self.manifest.unlabelled.key}  # this job itself learns from these rows
        if kind == "fit":
            identity |= {"fidelity": self._fidelity()}
        more: dict[str, Any] = {name: part.address() for name, part in parts.items()}
        if encoder is not None:  # empty for a trial that pretrains the backbone itself
            assert self.arm.method is not None
            inside = {"method": self.arm.method.identity(), "trained": self.arm.trained, "probed": self.spec.is_probed}
            identity |= {"encoder": encoder or inside}
            more |= {"method": self.arm.method.address(), "trained": self.arm.trained, "probed": self.spec.is_probed}
            more |= {"encoder": "" if "encoder" in (decided or {}) else encoder}
        more["balanced"] = self.weighting.balanced
        payload = FitPayload(**self.common, features=features, seed=seed or 0, labels=self.labels, **more)
        planned = self._planned(parts["model"], seed) if kind == "fit" else None
        key = self._key(kind, identity)
        return Step(key, kind, self._label(label), payload, needs, planned, tuned=decided or {})

    def _fidelity(self) -> str:
        fidelity = self.spec.preset if self.rows_limit is None else f"{self.spec.preset}, {self.rows_limit} rows"
        keeps = self.labels is not None and self.labels.validation == "all"
        return f"{fidelity}, all validation labels" if keeps else fidelity

    def _here(self) -> dict[str, Any]:
        """Where a record comes from: the fields that trials and results share."""
        return {
            "ssl": self.arm.label,
            "data": self.manifest.name,
            "data_key": self.manifest.key[:12],
            "split": self.split,
            "fidelity": self._fidelity(),
            "split_rule": None if self.spec.rule.is_default else self.spec.rule.name,
            "protocol": self.used_as,
            "labels": self.budget.text,
            "threads": self.spec.threads if self.spec.threads != 1 else None,
            "main_metric": self.metric or None,
            "weights": self.weighting.name or None,
            "validation_labels": self.labels.validation if self.labels is not None else None,
            "probe": None if self.spec.is_probed or self.arm.method is None or self.arm.uses_labels else "never",
        }

    def _planned(self, model: Configured, seed: int | None) -> Planned:
        origins = {
            role: Origin(each.entry.distribution, each.entry.version, each.entry.revision)
            for role, each in (("ssl", self.arm.method), ("model", model))
            if each is not None
        }
        return Planned(
            kind="result",
            model=model.name,
            seed=seed,
            preset=self.spec.preset,
            rows_limit=self.rows_limit,
            trials=self.spec.trials,
            ssl_trials=self.spec.ssl_trials,
            variant=self._variant(model),
            uses_labels=self.arm.uses_labels,
            plugins=origins,
            **self._here(),
        )

    def _variant(self, model: Configured) -> str:
        words = describe_overrides(self.arm.method, model)
        if self.arm.method is None or self.arm.uses_labels or self.spec.is_probed:
            return words
        return f"{self.arm.method.name}.probe=never {words}".strip()


def metric_of(spec: Spec, manifest: Manifest) -> str:
    """The main metric on a table, if it is not the default."""
    regression = manifest.task == "regression"
    usual = main_metric(Task(manifest.task, manifest.n_classes))
    return spec.metric if is_metric_of(spec.metric, regression=regression) and spec.metric != usual else ""


def rows_limit_of(spec: Spec, manifest: Manifest) -> int | None:
    """How many rows of a table are used; None if all are, or if it has no more than requested."""
    return spec.rows if spec.rows is not None and spec.rows < manifest.rows else None
