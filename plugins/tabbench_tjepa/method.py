"""T-JEPA: augmentation-free self-supervised learning for tabular data (Thimonier et al., ICLR 2025).

From the representation of a random subset of a row's features (context), a predictor finds the representation of other,
disjoint subsets (targets) of the same row. The context encoder and the predictor learn by gradients; the target encoder
is a moving average of the context encoder. There is no augmentation, no decoder to data space and no negative pair.

Where the paper and the authors' code differ, this is the paper: K different target masks, [REG] never masked and never
a target, standardised inputs, training rows only. ``masks.py`` has the masking strategy, ``networks.py`` the encoders,
the predictor and the loss, ``training.py`` the optimisation, ``config.py`` the settings.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabbench import Context, DataError, Representation, Scaler, SSLMethod, State, Table
from tabbench.nn import TokenRows, load_module, module_state, seeded
from tabbench_tjepa.config import TJEPAConfig
from tabbench_tjepa.masks import MaskSizes
from tabbench_tjepa.memory import encode_rows
from tabbench_tjepa.networks import Encoder, TJEPANetworks
from tabbench_tjepa.training import Training

MAPPED_BYTES = 1 << 30
"""A larger representation is written to a temporary memory-mapped file; where the memory is known, a quarter of it."""
SCALED_AT_ONCE = 8192
"""Rows; the scaler works in double precision."""


class TJEPA(SSLMethod):
    """Joint-embedding predictive architecture for tables; its representation is tokens ``(rows, d, h)``."""

    Config = TJEPAConfig
    config: TJEPAConfig
    memory: int | None = None
    scratch: Path | None = None

    def initialise(self, table: Table, context: Context) -> None:
        """Fit the scaler on ``table`` and build the networks: all that comes before the first step."""
        if not len(table):
            raise DataError("T-JEPA cannot learn from a table without rows")
        self.schema = table.schema
        self.device, self.memory, self.scratch = context.device, context.memory, context.scratch
        self.sizes = self._mask_sizes()
        self.scaler = Scaler(self.config.scaling).fit(table.numeric)
        self.missing: NDArray[np.bool_] = np.any(np.isnan(table.numeric), axis=0)
        with seeded(context.seed("init")):
            self.networks = TJEPANetworks(self.config, self.schema, bool(self.missing.any())).to(self.device)
        self.networks.eval()

    def pretrain(self, table: Table, context: Context) -> None:
        self.initialise(table, context)
        with seeded(context.seed("dropout"), self.device):
            Training(self, table, context).run()
        self.networks.eval()

    @property
    def representation_encoder(self) -> Encoder:
        """The context encoder, or the target encoder if the settings say so."""
        return self.networks.context_encoder if self.config.encoder == "context" else self.networks.target_encoder

    @torch.no_grad()
    def encode(self, table: Table) -> Representation:
        """Tokens ``(rows, d, h)`` of the whole rows, nothing masked, [REG] dropped."""
        shape = (len(table), self.schema.n_features, self.config.model_dim_hidden)
        array = self._empty(shape)
        at_once = encode_rows(self.config, self.schema.n_features, self.device)
        for start in range(0, len(table), at_once):
            part = slice(start, start + at_once)
            tokens = self.embed(self.rows(table.take(part)).to(self.device))
            array[part] = tokens.cpu().numpy()
        return Representation(array)

    def embed(self, rows: TokenRows) -> Tensor:
        """``(rows, d, h)`` of rows on the method's device, in one piece."""
        tokens: Tensor = self.representation_encoder(rows)
        return tokens.transpose(0, 1)

    def rows(self, table: Table) -> TokenRows:
        """The table's rows, scaled, on the CPU."""
        numeric = np.empty(table.numeric.shape, dtype=np.float32)
        for start in range(0, len(table), SCALED_AT_ONCE):
            part = slice(start, start + SCALED_AT_ONCE)
            numeric[part] = self.scaler.transform(table.numeric[part])
        # A column that is complete in training rows has learned nothing about missing numbers.
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

    def _mask_sizes(self) -> MaskSizes:
        config = self.config
        return MaskSizes(
            self.schema.n_features,
            (config.mask_min_ctx_share, config.mask_max_ctx_share),
            (config.mask_min_trgt_share, config.mask_max_trgt_share),
        )

    def _empty(self, shape: tuple[int, int, int]) -> NDArray[np.float32]:
        """An array in memory, or in a temporary file that goes when the array does."""
        if np.prod(shape) * 4 <= (MAPPED_BYTES if self.memory is None else self.memory // 4):
            return np.empty(shape, dtype=np.float32)
        if self.scratch is not None:  # the system's folder for temporary files may be memory, too
            self.scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self.scratch) as file:
            return np.memmap(file, dtype=np.float32, mode="w+", shape=shape)
