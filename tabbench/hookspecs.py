"""The contract on one page: six hooks that return descriptors.

A descriptor names the class that does the work; the class is imported when a job needs it. So the module that
holds the hooks must be light: it imports ``tabbench`` and nothing heavier.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pluggy

CONTRACT_VERSION = 1
"""Increased when plugins written for an older tabbench would no longer work."""

hookspec = pluggy.HookspecMarker("tabbench")
hookimpl = pluggy.HookimplMarker("tabbench")


@dataclass(frozen=True)
class Plugin:
    """Describes one thing that a plugin offers, without importing anything heavy."""

    name: str
    """What users type: lower-case letters, digits, ``_`` and ``-``."""
    target: str
    """Where the class is: ``"package.module:Class"``."""
    config: str = ""
    """Where the Config class is, if its module has no heavy imports: planning then does not import torch."""
    summary: str = ""
    """One line for ``tabbench list``."""
    paper: str = ""
    """Authors, venue and year of the method; empty if there is none."""
    url: str = ""
    """Where the paper or the table is: arXiv, OpenReview, the proceedings."""
    code: str = ""
    """The authors' own code, with the commit if one was read; empty if they released none."""
    bibtex: str = ""
    """For ``tabbench cite``: the BibTeX entries themselves, or the file that ships with the plugin,
    ``"package:citation.bib"``."""
    aliases: tuple[str, ...] = ()
    """Other names for the same thing, such as the paper's abbreviation of a dataset. Case does not matter."""
    groups: tuple[str, ...] = ()
    """Names of groups of datasets, such as ``demo``."""
    shortcuts: Mapping[str, str] = field(default_factory=dict)
    """For data schemes: names that stand for a reference of the scheme, such as a suite's name for its number."""
    needs: tuple[str, ...] = ()
    """Import names of packages that the class needs beyond tabbench's own dependencies."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments for the class, so that one class can serve several names (datasets and references)."""
    uses_labels: bool = False
    """For SSL methods: the class is a ``JointMethod``. Tables show such rows apart from label-free ones."""
    gives: Literal["representation", "predictions", "backbone"] = "representation"
    """For joint methods: ``predictions`` if it trains the downstream model's own backbone to the end. For SSL methods:
    ``backbone`` if it pretrains that backbone (``BackboneMethod``)."""
    finetune: bool = False
    """For SSL methods: the encoder can be fine-tuned (``trainable_encoder``). For models: the class can train such an
    encoder together with itself (``finetune``)."""
    backbone: bool = False
    """For models: the class has a backbone that a method can train (``make_backbone``)."""
    weights: bool = False
    """For models: training heeds ``context.weights``. Others are left out of runs with weights."""
    seeded: bool = True
    """For models: results depend on the seed. Others are trained once per split, and their result counts for every
    seed of ``--seeds``. Stored results stay valid when this changes."""
    untrained: bool = True
    """For SSL methods: the class can build its encoder without training, for the ``untrained`` control."""
    revision: int = 1
    """Increase it when a code change changes results: stored results of older revisions are not reused."""
    contract: int = CONTRACT_VERSION
    """The contract version that the plugin was written for."""


@hookspec
def tabbench_datasets() -> list[Plugin]:  # type: ignore[empty-body]
    """Datasets: classes that implement ``tabbench.Dataset``.

    :return: one descriptor for each dataset; ``arguments`` go to its constructor.
    """


@hookspec
def tabbench_data_schemes() -> list[Plugin]:  # type: ignore[empty-body]
    """Prefixes for collections too large to list: classes that implement ``tabbench.DataScheme``.

    The descriptor's name is the prefix: ``openml`` for ``openml:61`` and ``openml/s/99``.

    :return: one descriptor for each scheme; ``arguments`` go to its constructor.
    """


@hookspec
def tabbench_ssl_methods() -> list[Plugin]:  # type: ignore[empty-body]
    """Self-supervised methods: classes that implement ``tabbench.SSLMethod`` or ``tabbench.JointMethod``.

    :return: one descriptor for each method; a ``JointMethod`` says ``uses_labels=True``.
    """


@hookspec
def tabbench_models() -> list[Plugin]:  # type: ignore[empty-body]
    """Downstream models: classes that implement ``tabbench.DownstreamModel``.

    :return: one descriptor for each model.
    """


@hookspec
def tabbench_executors() -> list[Plugin]:  # type: ignore[empty-body]
    """Ways to run jobs: classes that implement ``tabbench.Executor``.

    :return: one descriptor for each executor.
    """


@hookspec
def tabbench_references() -> list[Plugin]:  # type: ignore[empty-body]
    """Published results to compare with: classes that implement ``tabbench.Reference``.

    :return: one descriptor for each set of results.
    """


KINDS: Mapping[str, str] = {
    "ssl": "tabbench_ssl_methods",
    "model": "tabbench_models",
    "data": "tabbench_datasets",
    "scheme": "tabbench_data_schemes",
    "executor": "tabbench_executors",
    "reference": "tabbench_references",
}
"""Each kind, as in ``tabbench list --json``, and the hook that offers it."""

KIND_NAMES: Mapping[str, str] = {
    "ssl": "SSL method",
    "model": "model",
    "data": "dataset",
    "scheme": "data scheme",
    "executor": "executor",
    "reference": "reference",
}
