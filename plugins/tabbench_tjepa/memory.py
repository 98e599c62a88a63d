"""How many rows a network takes at a time: as many as fit in memory and, on a CPU, in its caches."""

from __future__ import annotations

from tabbench_tjepa.config import TJEPAConfig

CACHED_TOKENS = 8192
"""Tokens of the predictor at a time on a CPU.

Their activations stay in the caches, in memory blocks that the allocator reuses. A whole batch at once is up to twice
as slow, because it waits for memory and for the kernel to clear fresh pages.
"""
DEVICE_TOKENS = 1 << 20
"""Tokens that an accelerator encodes at a time."""
USABLE = 0.5
"""Share of the memory that activations may take; data, weights and libraries need the rest."""
RESIDENT = 0.25
"""Share of a GPU's free memory that a table may take; a larger table stays on the host, and only its batches move."""


def micro_batch_rows(
    config: TJEPAConfig, n_rows: int, d: int, sizes: tuple[int, int], device: str, memory: int | None
) -> int:
    """Rows of ``n_rows`` whose gradients are computed at a time."""
    rows = config.micro_batch or n_rows
    if config.micro_batch is None and device == "cpu":
        rows = max(CACHED_TOKENS // _predictor_tokens(config, d, sizes), 1)
    if config.micro_batch is None and memory is not None:
        rows = min(rows, max(int(USABLE * memory) // _bytes_per_row(config, d, sizes), 1))
    rows = max(min(rows, n_rows), 1)
    if config.compile:  # parts of the same size have the same shape
        rows = next(size for size in range(rows, 0, -1) if n_rows % size == 0)
    return rows


def encode_rows(config: TJEPAConfig, d: int, device: str) -> int:
    """Rows that are encoded at a time."""
    tokens = CACHED_TOKENS if device == "cpu" else DEVICE_TOKENS
    return max(tokens // (d + config.n_reg), 1)


def _predictor_tokens(config: TJEPAConfig, d: int, sizes: tuple[int, int]) -> int:
    """Tokens that the predictor reads for one row."""
    n_ctx = d if config.masking == "zero" else sizes[0]
    return config.mask_num_encs * config.mask_num_preds * (n_ctx + sizes[1])


def _bytes_per_row(config: TJEPAConfig, d: int, sizes: tuple[int, int]) -> int:
    """Upper estimate of the memory of a row's activations until its gradients are known."""
    n_ctx = d if config.masking == "zero" else sizes[0]
    of_predictor = _bytes_per_token(
        n_ctx + sizes[1], config.pred_embed_dim, config.pred_num_heads, config.pred_dim_feedforward
    )
    return (
        config.pred_num_layers * _predictor_tokens(config, d, sizes) * of_predictor
        + config.model_num_layers * config.mask_num_encs * encoder_layer_bytes(config, n_ctx)
        + encoder_layer_bytes(config, d)  # the target encoder has one layer's at a time
    )


def encoder_layer_bytes(config: TJEPAConfig, n_features: int) -> int:
    """Bytes that a layer of an encoder keeps of a row with so many features, and [REG]."""
    tokens = n_features + config.n_reg
    return tokens * _bytes_per_token(
        tokens, config.model_dim_hidden, config.model_num_heads, config.model_dim_feedforward
    )


def _bytes_per_token(tokens: int, dim: int, heads: int, dim_feedforward: int) -> int:
    """Bytes that a transformer layer keeps for the backward pass: twelve vectors, hidden units, attention weights."""
    return 4 * (12 * dim + 2 * dim_feedforward + 2 * heads * tokens)
