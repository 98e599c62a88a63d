"""Public building blocks for methods and models. Importing this package imports torch."""

from tabbench.nn.batches import count_batches, shuffled_batches
from tabbench.nn.columns import CategoryEmbedding, FlatColumns, OneHot, TokenColumns
from tabbench.nn.corruption import (
    OriginalColumns,
    bernoulli_mask,
    count_corrupted,
    draw_from_columns,
    exact_mask,
    permute_columns,
    permute_columns_in_batch,
    redraw,
    replace_at_random,
)
from tabbench.nn.devices import generator_states, in_double, seeded, set_generator_states
from tabbench.nn.dropout import Dropout, attention, dropout, pair_bytes
from tabbench.nn.ema import EMA, ema_copy
from tabbench.nn.encoders import (
    MLP,
    FeatureEncoder,
    NetworkEncoder,
    encode_in_batches,
    glorot_,
    output_activation,
)
from tabbench.nn.inputs import MAX_FLAT_COLUMNS, Batch, Inputs, InputShape, Rows, flat_columns, max_flat_columns
from tabbench.nn.pretext import Pretext, Terms, train_pretext
from tabbench.nn.probe import LBFGS_VECTORS, LinearMap, logistic_path, probe_score, ridge_path
from tabbench.nn.projections import make_projection
from tabbench.nn.representation_metrics import (
    collapse_ratio,
    embedding_variance,
    feature_embedding_variance,
    is_collapsed,
    mean_pairwise_distance,
    mean_pairwise_kl,
    uniformity,
)
from tabbench.nn.schedules import linear, warmup_cosine
from tabbench.nn.states import load_module, module_state
from tabbench.nn.tokenizer import FeatureTokenizer, TokenRows, sincos_positions
from tabbench.nn.training import (
    Backbone,
    History,
    Network,
    NetworkModel,
    Objective,
    choose_batch_size,
    forward_all,
    make_optimizer,
    train_network,
    train_step,
)
from tabbench.nn.transformer import SelfAttention, TransformerEncoder, TransformerLayer

__all__ = [
    "EMA",
    "LBFGS_VECTORS",
    "MAX_FLAT_COLUMNS",
    "MLP",
    "Backbone",
    "Batch",
    "CategoryEmbedding",
    "Dropout",
    "FeatureEncoder",
    "FeatureTokenizer",
    "FlatColumns",
    "History",
    "InputShape",
    "Inputs",
    "LinearMap",
    "Network",
    "NetworkEncoder",
    "NetworkModel",
    "Objective",
    "OneHot",
    "OriginalColumns",
    "Pretext",
    "Rows",
    "SelfAttention",
    "Terms",
    "TokenColumns",
    "TokenRows",
    "TransformerEncoder",
    "TransformerLayer",
    "attention",
    "bernoulli_mask",
    "choose_batch_size",
    "collapse_ratio",
    "count_batches",
    "count_corrupted",
    "draw_from_columns",
    "dropout",
    "ema_copy",
    "embedding_variance",
    "encode_in_batches",
    "exact_mask",
    "feature_embedding_variance",
    "flat_columns",
    "forward_all",
    "generator_states",
    "glorot_",
    "in_double",
    "is_collapsed",
    "linear",
    "load_module",
    "logistic_path",
    "make_optimizer",
    "make_projection",
    "max_flat_columns",
    "mean_pairwise_distance",
    "mean_pairwise_kl",
    "module_state",
    "output_activation",
    "pair_bytes",
    "permute_columns",
    "permute_columns_in_batch",
    "probe_score",
    "redraw",
    "replace_at_random",
    "ridge_path",
    "seeded",
    "set_generator_states",
    "shuffled_batches",
    "sincos_positions",
    "train_network",
    "train_pretext",
    "train_step",
    "uniformity",
    "warmup_cosine",
]
