"""Public building blocks for methods and models. Importing this package imports torch."""

from tabbench.nn.backbone import Backbone
from tabbench.nn.blocks import products_in
from tabbench.nn.columns import FlatColumns, TokenColumns
from tabbench.nn.corruption import (
    OriginalColumns,
    count_corrupted,
    draw_from_columns,
    permute_columns,
    permute_columns_in_batch,
    redraw,
    replace_at_random,
)
from tabbench.nn.devices import seeded
from tabbench.nn.dropout import Dropout, attention, pair_bytes
from tabbench.nn.ema import EMA, ema_copy
from tabbench.nn.encoders import MLP, FeatureEncoder, NetworkEncoder, encode_in_batches, glorot_, output_activation
from tabbench.nn.finetuning import backbone_encoder
from tabbench.nn.inputs import MAX_FLAT_COLUMNS, Batch, Inputs, InputShape, flat_columns, max_flat_columns
from tabbench.nn.memory import backward_in_parts, device_memory, empty_array, parts
from tabbench.nn.parallel import n_processes, own_share, sum_over_processes
from tabbench.nn.pretext import Hooks, Pretext, Terms, train_pretext
from tabbench.nn.probe import LBFGS_VECTORS, LinearMap, logistic_path, probe_score, ridge_path, ridge_penalties
from tabbench.nn.representation_metrics import (
    embedding_variance,
    feature_embedding_variance,
    is_collapsed,
    mean_pairwise_distance,
    mean_pairwise_kl,
    rank_me,
    uniformity,
)
from tabbench.nn.schedules import linear, warmup_cosine
from tabbench.nn.states import load_module, module_state
from tabbench.nn.tokenizer import FeatureTokenizer, TokenRows, sincos_positions
from tabbench.nn.training import NetworkModel, Objective, choose_batch_size, forward_all, make_optimizer, rows_that_fit
from tabbench.nn.transformer import TransformerEncoder

__all__ = [
    "EMA",
    "LBFGS_VECTORS",
    "MAX_FLAT_COLUMNS",
    "MLP",
    "Backbone",
    "Batch",
    "Dropout",
    "FeatureEncoder",
    "FeatureTokenizer",
    "FlatColumns",
    "Hooks",
    "InputShape",
    "Inputs",
    "LinearMap",
    "NetworkEncoder",
    "NetworkModel",
    "Objective",
    "OriginalColumns",
    "Pretext",
    "Terms",
    "TokenColumns",
    "TokenRows",
    "TransformerEncoder",
    "attention",
    "backbone_encoder",
    "backward_in_parts",
    "choose_batch_size",
    "count_corrupted",
    "device_memory",
    "draw_from_columns",
    "ema_copy",
    "embedding_variance",
    "empty_array",
    "encode_in_batches",
    "feature_embedding_variance",
    "flat_columns",
    "forward_all",
    "glorot_",
    "is_collapsed",
    "linear",
    "load_module",
    "logistic_path",
    "make_optimizer",
    "max_flat_columns",
    "mean_pairwise_distance",
    "mean_pairwise_kl",
    "module_state",
    "n_processes",
    "output_activation",
    "own_share",
    "pair_bytes",
    "parts",
    "permute_columns",
    "permute_columns_in_batch",
    "probe_score",
    "products_in",
    "rank_me",
    "redraw",
    "replace_at_random",
    "ridge_path",
    "ridge_penalties",
    "rows_that_fit",
    "seeded",
    "sincos_positions",
    "sum_over_processes",
    "train_pretext",
    "uniformity",
    "warmup_cosine",
]
