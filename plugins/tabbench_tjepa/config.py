"""Settings of T-JEPA. No torch here: planning a run reads this module."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from tabbench import Choice, Config, Float, load_presets

PREFIXES = ("model_", "exp_")
"""Settings with these prefixes also work without them: ``dim_hidden`` is ``model_dim_hidden``."""


@cache
def cpu_has_bf16() -> bool:
    """Whether this machine's CPU has bfloat16 multiplication; False if the system does not say (only Linux does)."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").partition("\nflags")[2]
    except OSError:
        return False
    return bool({"avx512_bf16", "amx_bf16"} & set(flags.partition("\n")[0].split()))


class TJEPAConfig(Config):
    """Names and ranges are the paper's (appendix, "Hyperparameter search"); the values suit a CPU (preset ``mid``)."""

    model_config = ConfigDict(protected_namespaces=())

    # Encoders
    model_dim_hidden: Annotated[int, Choice(2, 4, 8, 16, 32, 64, 128)] = Field(default=64, ge=1)
    """Width h of a token, a multiple of model_num_heads."""
    model_num_layers: Annotated[int, Choice(1, 2, 3, 4, 5, 6, 7, 8, 16)] = Field(default=4, ge=1)
    """Transformer layers of the context and target encoders."""
    model_num_heads: Annotated[int, Choice(2, 4, 8)] = Field(default=4, ge=1)
    """Attention heads of the encoders."""
    model_dim_feedforward: Annotated[int, Choice(64, 128, 256, 512, 768, 1024)] = Field(default=256, ge=1)
    """Hidden units of the encoders' feed-forward blocks."""
    model_dropout_prob: Annotated[float, Float(0.0, 0.01)] = Field(default=0.0, ge=0, lt=1)
    """Dropout of the context encoder; 0 skips dropout altogether, which is faster on a CPU."""
    norm: Literal["post", "pre"] = "post"
    """Layer normalisation after (paper) or before the blocks of every transformer layer."""
    positions: Literal["learned", "sincos"] = "learned"
    """Index embeddings: learned (paper), or fixed sines and cosines (the authors' code)."""
    n_reg: int = Field(default=1, ge=0, le=4)
    """Regularising [REG] tokens: never masked, never a target, dropped after the encoder."""
    init: Literal["normal", "reference"] = "normal"
    """Linear weights: truncated normal of 0.02; the authors' code uses Xavier for the input of attention."""
    encoder: Literal["context", "target"] = "context"
    """Whose tokens are the representation: the context encoder's (paper) or its moving average's."""
    whiten: Literal["none", "pca"] = "none"
    """PCA whitening of the representation, fitted on training rows; it is then flat. It was worse on California and
    Jannis."""
    scaling: Literal["standard", "minmax", "quantile"] = "quantile"
    """Scaling of numbers: quantiles of a normal distribution, zero mean and unit variance (paper), or [0, 1] (the
    authors' code, which collapses more easily)."""

    # Masks
    mask_min_ctx_share: Annotated[float, Float(0.07, 0.15)] = Field(default=0.1363, gt=0, lt=1)
    """Lowest share of the features that a context KEEPS (the paper says masked; its code keeps this share)."""
    mask_max_ctx_share: Annotated[float, Float(0.2, 0.9)] = Field(default=0.3682, gt=0, lt=1)
    """Highest share of the features that a context keeps."""
    mask_min_trgt_share: Annotated[float, Float(0.05, 0.2)] = Field(default=0.1556, gt=0, lt=1)
    """Lowest share of the features in a target."""
    mask_max_trgt_share: Annotated[float, Float(0.2, 0.9)] = Field(default=0.6222, gt=0, lt=1)
    """Highest share of the features in a target."""
    mask_num_preds: int = Field(default=4, ge=1)
    """Target masks per row (K)."""
    mask_num_encs: int = Field(default=1, ge=1)
    """Context masks per row (M)."""
    masking: Literal["drop", "zero"] = "drop"
    """Leave masked features out (paper), or set them to zero with an indicator (its discarded alternative)."""

    # Predictor
    predictor: Literal["transformer", "mlp"] = "transformer"
    """A transformer (paper), or one MLP per feature on all tokens (its discarded alternative, with masking = zero)."""
    pred_embed_dim: Annotated[int, Choice(4, 8, 16, 32, 64, 128)] = Field(default=32, ge=1)
    """Width of the predictor, a multiple of pred_num_heads."""
    pred_num_layers: Annotated[int, Choice(2, 4, 8, 16, 24, 32)] = Field(default=4, ge=1)
    """Transformer layers of the predictor."""
    pred_num_heads: Annotated[int, Choice(2, 4, 8)] = Field(default=4, ge=1)
    """Attention heads of the predictor."""
    pred_dim_feedforward: int = Field(default=256, ge=1)
    """Hidden units of the predictor's feed-forward blocks, or of its MLPs."""
    pred_last_block: bool = False
    """LayerNorm, Linear and LayerNorm at the predictor's end, as at the encoder's; the authors' code has them."""
    pred_p_dropout: Annotated[float, Float(0.0, 0.01)] = Field(default=0.0, ge=0, lt=1)
    """Dropout of the predictor."""

    # Optimisation
    exp_lr: Annotated[float, Float(1e-5, 1e-3, log=True)] = Field(default=1e-3, gt=0)
    """Peak learning rate of AdamW: linear warm-up, then cosine to 0."""
    exp_weight_decay: float = Field(default=0.0, ge=0)
    """Weight decay of linear layers; biases, norms and embeddings have none."""
    exp_batch_size: int | None = Field(default=None, ge=1)
    """Rows per step; None: 512 (paper), or 1/16 of the rows of a small table, at least 32."""
    exp_epochs: int = Field(default=60, ge=1)
    """Passes over the training rows."""
    exp_warmup_share: float = Field(default=1 / 30, ge=0, lt=1)
    """Share of the steps for learning rate warm-up; the authors' code has 10 of 300 epochs."""
    model_ema_start: float = Field(default=0.996, ge=0, le=1)
    """Momentum of the target encoder at the first step."""
    model_ema_end: float = Field(default=1.0, ge=0, le=1)
    """Momentum of the target encoder at the last step; linear in between."""
    frozen_target: bool = False
    """A control: keep the target encoder at its initialisation."""
    ema_time_constants: float | None = Field(default=None, gt=0)
    """How far the target encoder moves over the whole run, whatever its length: ``1 - momentum`` is scaled so that it
    sums to this number over all steps. It still falls linearly, as model_ema_start and model_ema_end say. None (paper):
    not scaled, about 0.002 per step."""
    probe_every: int = Field(default=20, ge=1)
    """Epochs between linear probes on validation, which choose the best weights. Without labels, the last are kept."""

    # Machine
    micro_batch: int | None = Field(default=None, ge=1)
    """Rows per gradient computation; None: what suits the processor's caches and the available memory."""
    bf16: bool | Literal["auto"] = "auto"
    """Train in mixed bfloat16 precision; the representation stays float32. On a CPU only products with weights use
    bfloat16. ``auto``: whether the CPU that plans the run supports it (AVX-512 BF16 or AMX)."""
    compile: bool = False
    """Compile the loss and its gradients with torch.compile: for CUDA, slower on a CPU, which then computes in float32
    whatever bf16 says. Masks then have at most four different numbers of features in a context and in a target, and an
    incomplete last batch is dropped."""
    checkpoint_seconds: float = Field(default=60.0, ge=0)
    """Minimum time between checkpoints, for runs with a scratch folder."""

    @field_validator("bf16")
    @classmethod
    def _resolve_bf16(cls, value: bool | str) -> bool:
        """Resolve ``auto`` when planning: it is part of the key, so the machine that plans decides."""
        return cpu_has_bf16() if value == "auto" else bool(value)

    @model_validator(mode="after")
    def _check(self) -> Self:
        for dim, heads in (("model_dim_hidden", "model_num_heads"), ("pred_embed_dim", "pred_num_heads")):
            width, n = getattr(self, dim), getattr(self, heads)
            if width % n:
                raise ValueError(f"{heads}={n} must divide {dim}={width}")
        for kind in ("ctx", "trgt"):
            low, high = getattr(self, f"mask_min_{kind}_share"), getattr(self, f"mask_max_{kind}_share")
            if low > high:
                raise ValueError(f"mask_min_{kind}_share={low} is above mask_max_{kind}_share={high}")
        if self.ema_time_constants is not None and (
            self.frozen_target or self.model_ema_start == self.model_ema_end == 1
        ):
            raise ValueError(
                f"ema_time_constants={self.ema_time_constants:g} needs a target encoder that moves: "
                "leave out frozen_target, and give model_ema_start below 1"
            )
        if self.predictor == "mlp" and self.masking == "drop":
            raise ValueError("predictor=mlp reads the tokens of all features, so it needs masking=zero")
        return self

    def to_json(self) -> dict[str, Any]:
        """Leave out options that were added later and are not used, so that the keys of results do not change."""
        values = super().to_json()
        return {name: value for name, value in values.items() if name != "ema_time_constants" or value is not None}

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        return load_presets(__package__)

    @classmethod
    def full_name(cls, name: str) -> str:
        """Return the full name of a setting: ``model_dim_hidden`` for ``dim_hidden``, ``exp_lr`` for ``lr``."""
        return next((prefix + name for prefix in PREFIXES if prefix + name in cls.model_fields), name)
