"""T-JEPA: augmentation-free self-supervised learning for tabular data (Thimonier et al., ICLR 2025).

Paper: https://arxiv.org/abs/2410.05016
Authors' code: https://github.com/jose-melo/t-jepa, commit e07ea70. Read, not copied.

From the representation of a random subset of a row's features (context), a predictor predicts the representation of
other, disjoint subsets (targets) of the same row. The context encoder and the predictor learn by gradients; the target
encoder is a moving average of the context encoder. There is no augmentation, no decoder to data space and no negative
pair.

Where the paper and the authors' code differ, this follows the paper: K different target masks, [REG] never masked and
never a target, training rows only. Read it in the paper's order: ``masks.py`` (masking strategy), ``networks.py``
(tokens, [REG], encoders, Eq. 1 to 4, predictor), ``objective.py`` (loss, Eq. 5, and moving average), ``training.py``
(a step), then this file (the method in the harness). ``alternatives.py`` has what the paper discarded.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabbench import Context, DataError, Representation, Scaler, SSLMethod, State, Table, TrainableEncoder
from tabbench.nn import TokenRows, empty_array, load_module, module_state, seeded
from tabbench_tjepa.config import TJEPAConfig
from tabbench_tjepa.finetuning import TokenNetwork
from tabbench_tjepa.masks import MaskSizes
from tabbench_tjepa.memory import encode_rows
from tabbench_tjepa.networks import Encoder
from tabbench_tjepa.objective import TJEPANetworks
from tabbench_tjepa.training import train
from tabbench_tjepa.whitening import FITTED_ROWS, Whitening, check_width

COMPILED_SIZES = 4
"""How many sizes contexts, and targets, have in compiled training: each pair of sizes is a shape to compile."""
SCALED_AT_ONCE = 8192
"""Rows to scale at a time; the scaler works in double precision."""


class TJEPA(SSLMethod):
    """Joint-embedding predictive architecture for tables; its representation is tokens ``(rows, d, h)``."""

    Config = TJEPAConfig
    config: TJEPAConfig
    memory: int | None = None
    scratch: Path | None = None
    whitening: Whitening | None = None

    def initialise(self, table: Table, context: Context) -> None:
        """Fit the scaler on ``table`` and build the networks: everything before the first step."""
        self._prepare(table, context)
        self._fit_whitening(table)

    def _prepare(self, table: Table, context: Context) -> None:
        if not len(table):
            raise DataError("T-JEPA cannot learn from a table without rows")
        self.schema = table.schema
        self.device, self.memory, self.scratch = context.device, context.memory, context.scratch
        self.sizes = self._mask_sizes()
        self.whitening = None  # the probe uses tokens that are not whitened
        if self.config.whiten == "pca":
            check_width(self.schema.n_features, self.config.model_dim_hidden)
        self.scaler = Scaler(self.config.scaling).fit(table.numeric)
        self.missing: NDArray[np.bool_] = np.any(np.isnan(table.numeric), axis=0)
        with seeded(context.seed("init")):
            self.networks = TJEPANetworks(self.config, self.schema, bool(self.missing.any())).to(self.device)
        self.networks.eval()

    def pretrain(self, table: Table, context: Context) -> None:
        self._prepare(table, context)
        self.diagnostics = train(self, table, context)
        self._fit_whitening(table)

    @property
    def representation_encoder(self) -> Encoder:
        """The context encoder, or the target encoder if the settings say so."""
        return self.networks.context_encoder if self.config.encoder == "context" else self.networks.target_encoder

    @torch.no_grad()
    def encode(self, table: Table) -> Representation:
        """Tokens ``(rows, d, h)`` of whole rows, with nothing masked and [REG] dropped; flat if whitened."""
        of_row: tuple[int, ...] = (self.schema.n_features, self.config.model_dim_hidden)
        if self.whitening is not None:
            of_row = (self.whitening.directions.shape[1],)
        array = empty_array((len(table), *of_row), self.memory, self.scratch)
        at_once = encode_rows(self.config, self.schema.n_features, self.device)
        for start in range(0, len(table), at_once):
            part = slice(start, start + at_once)
            tokens = self.embed(self.rows(table.take(part)).to(self.device))
            array[part] = (tokens if self.whitening is None else self.whitening(tokens)).cpu().numpy()
        return Representation(array)

    def embed(self, rows: TokenRows) -> Tensor:
        """``(rows, d, h)`` of rows on the method's device, in one piece."""
        tokens: Tensor = self.representation_encoder(rows)
        return tokens.transpose(0, 1)

    def trainable_encoder(self) -> TrainableEncoder:
        def prepare(table: Table) -> tuple[Tensor, ...]:
            rows = self.rows(table)
            return rows.numeric, rows.missing, rows.categorical

        return TrainableEncoder(TokenNetwork(self.representation_encoder, self.config, self.whitening), prepare)

    def rows(self, table: Table) -> TokenRows:
        """The table's rows, scaled, on the CPU."""
        numeric = np.empty(table.numeric.shape, dtype=np.float32)
        for start in range(0, len(table), SCALED_AT_ONCE):
            part = slice(start, start + SCALED_AT_ONCE)
            numeric[part] = self.scaler.transform(table.numeric[part])
        # The token of a column that is complete in training has learned nothing about missing numbers.
        missing = np.isnan(table.numeric) & self.missing if self.missing.any() else np.empty((len(table), 0))
        return TokenRows(
            torch.from_numpy(numeric), torch.from_numpy(missing.astype(np.float32)), torch.tensor(table.categorical)
        )

    def get_state(self) -> State:
        return {
            **self.scaler.get_state(),
            "missing": self.missing,
            **module_state(self.networks.context_encoder, "context_encoder"),
            **module_state(self.networks.target_encoder, "target_encoder"),
            **({} if self.whitening is None else module_state(self.whitening, "whitening")),
        }

    def set_state(self, state: State) -> None:
        self.sizes = self._mask_sizes()
        self.scaler = Scaler(self.config.scaling).set_state(state)
        self.missing = state["missing"]
        with seeded(0):
            self.networks = TJEPANetworks(self.config, self.schema, bool(self.missing.any()))
        load_module(self.networks.context_encoder, state, "context_encoder")
        load_module(self.networks.target_encoder, state, "target_encoder")
        self.networks.to(self.device).eval()
        self.whitening = None
        if self.config.whiten == "pca":
            mean, directions = (torch.from_numpy(state[f"whitening.{name}"]) for name in ("mean", "directions"))
            self.whitening = Whitening(mean, directions).to(self.device)

    def _fit_whitening(self, table: Table) -> None:
        """Fit the whitening of the current encoder on some of the training rows."""
        if self.config.whiten == "pca":
            rows = np.unique(np.linspace(0, len(table) - 1, FITTED_ROWS).astype(int))
            self.whitening = Whitening.fit(self.encode(table.take(rows)).array).to(self.device)

    def _mask_sizes(self) -> MaskSizes:
        config = self.config
        return MaskSizes(
            self.schema.n_features,
            (config.mask_min_ctx_share, config.mask_max_ctx_share),
            (config.mask_min_trgt_share, config.mask_max_trgt_share),
            COMPILED_SIZES if config.compile else None,
        )
