"""SwitchTab: switched auto-encoders are effective tabular learners (Wu et al., AAAI 2024).

Paper: https://arxiv.org/abs/2401.02013

Two rows are corrupted and encoded, and each code is split into a mutual part m and a salient part s. The decoder must
reconstruct a row from its own parts, and also from its salient part with the mutual part of the other row. So what is
special about a row must be in s. The salient part is the representation.

Written from the paper's description; its authors released no code.

Shapes: ``n`` rows, ``d`` features, ``w`` encoded columns (one-hot), ``h`` width of a code. Codes are ``(n, d, h)``
tokens or ``(n, h)``.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tabbench import Context, JointMethod, Labelled, Schema, SSLMethod, Table, Task
from tabbench.nn import (
    MLP,
    FeatureEncoder,
    FeatureTokenizer,
    Hooks,
    NetworkEncoder,
    Objective,
    Pretext,
    Terms,
    TokenRows,
    TransformerEncoder,
    count_corrupted,
    output_activation,
    redraw,
    seeded,
    train_pretext,
)
from tabbench_switchtab.config import SwitchTabConfig, SwitchTabSupervisedConfig

ENCODE_NUMBERS = 2**22
"""Numbers of codes that are held at a time while encoding: many tokens mean few rows."""
SAMPLE_ROWS = 2048
"""Training rows that the variances of the two parts are compared on."""
NEIGHBOURS = "codes depend on neighbouring rows"
"""Flag of ``batch_seq``: its records are kept for comparison with public implementations, and left out of tables."""
LabelLoss = Callable[["SwitchTask", torch.Tensor, torch.Tensor], torch.Tensor]
"""Loss of the labels of rows (given by their indices) from their codes."""


class SwitchedEncoder(NetworkEncoder):
    """What both variants share: the encoder, and training by pairs of rows."""

    network: "SaliencyEncoder"
    diagnostics: dict[str, Any]

    def initialise(self, table: Table, context: Context) -> None:
        """As for every encoder; one whose codes depend on neighbours is flagged, trained or not."""
        super().initialise(table, context)
        self.diagnostics = {"flags": [NEIGHBOURS]} if self.config.encoder == "batch_seq" else {}

    def make_inputs(self) -> FeatureEncoder:
        return FeatureEncoder(self.schema, self.config.scaling)

    def make_network(self) -> "SaliencyEncoder":
        network = SaliencyEncoder(make_encoder(self.config, self.schema, self.inputs), self.config)
        n_code = math.prod(network.code_shape)
        self.encode_batch = max(min(self.encode_batch, ENCODE_NUMBERS // n_code), 1)
        return network

    def embed(self, matrix: torch.Tensor) -> torch.Tensor:
        """The row as it is, encoded: what ``export`` names."""
        code = self.network(matrix)
        salient = self.network.pool(self.network.salient(code))
        if self.config.export == "s":
            return salient
        if self.config.export == "xs":
            return torch.cat([self.inputs.encode(matrix), salient.flatten(1)], dim=1)
        code = self.network.pool(code)
        return code if self.config.export == "z" else torch.cat([salient, code], dim=-1)

    def _train(
        self,
        table: Table,
        context: Context,
        n_outputs: int = 0,
        label_loss: LabelLoss | None = None,
        identity: tuple[Any, ...] = (),
    ) -> dict[str, Any]:
        self.initialise(table, context)
        config: SwitchTabConfig = self.config
        train = self.inputs.matrix(table, self.device)
        with seeded(context.seed("heads")):
            task = SwitchTask(self.network, self.inputs, config, n_outputs).to(self.device)
        generator = context.generator("corruption")
        originals = self.inputs.originals.to(self.device)
        count = count_corrupted(originals.count, config.corruption)
        partners = torch.arange(len(train), device=self.device)

        def draw_pairs() -> None:
            partners[:] = pair_rows(len(train), generator)

        def loss(rows: torch.Tensor) -> Terms:
            both = torch.cat([rows, partners[rows]])
            clean = train[both]
            code = self.network(redraw(clean, train, count, generator, originals))
            terms = task.reconstruction(code, self.inputs.encode(clean))
            if label_loss is not None:
                labels = label_loss(task, code, both)
                terms = {**terms, "labels": labels, "loss": terms["loss"] + labels}
            return terms

        diagnostics = train_pretext(
            task,
            torch.optim.RMSprop(task.parameters(), lr=config.lr, weight_decay=config.weight_decay),
            Pretext(len(train), loss),
            context,
            epochs=config.epochs,
            batch_size=config.batch_size,
            identity=(config, table, *identity),
            generators=(generator,),
            encode=self.encode,
            hooks=Hooks(before_epoch=draw_pairs),
            validation=self._validation(task, train, count, context),
            patience=config.patience,
        )
        sample = torch.linspace(0, len(train) - 1, min(len(train), SAMPLE_ROWS), device=train.device).long()
        diagnostics["mutual_to_salient_variance"] = task.variance_ratio(torch.split(train[sample], self.encode_batch))
        return {**self.diagnostics, **diagnostics}

    def _validation(self, task: "SwitchTask", train: torch.Tensor, count: int, context: Context) -> Pretext | None:
        """Validation rows with fixed partners and a fixed corruption, whose values are those of training rows."""
        if context.validation is None or len(context.validation) == 0:
            return None
        generator = context.generator("validation")
        rows = self.inputs.matrix(context.validation, self.device)
        partners = pair_rows(len(rows), generator)
        originals = self.inputs.originals.to(self.device)
        corrupted, others = (redraw(part, train, count, generator, originals) for part in (rows, rows[partners]))

        def loss(index: torch.Tensor) -> Terms:
            clean = torch.cat([rows[index], rows[partners[index]]])
            code = self.network(torch.cat([corrupted[index], others[index]]))
            return task.reconstruction(code, self.inputs.encode(clean))

        return Pretext(len(rows), loss)


class SwitchTab(SwitchedEncoder, SSLMethod):
    """Label-free SwitchTab. Its representation is the salient part, as tokens ``(n, d, h)`` or flat ``(n, h)``."""

    Config = SwitchTabConfig

    def pretrain(self, table: Table, context: Context) -> None:
        self.diagnostics = self._train(table, context)


class SwitchTabSupervised(SwitchedEncoder, JointMethod):
    """SwitchTab with the label loss of the paper: a linear layer on the codes of both rows."""

    Config = SwitchTabSupervisedConfig
    gives = "representation"

    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context, model: object = None) -> None:
        """Train on rows and labels of ``train``; early stopping looks at the rows of validation only."""
        assert isinstance(train.features, Table)
        context = with_validation(context, validation)
        if self.config.alpha == 0:
            self.diagnostics = self._train(train.features, context)
            return
        objective = Objective(task, train.y)
        targets = objective.targets(train.y, context.device)

        def label_loss(heads: SwitchTask, code: torch.Tensor, both: torch.Tensor) -> torch.Tensor:
            outputs = heads.predict(code).chunk(2)
            losses = [
                objective.loss(output, targets[rows]) for output, rows in zip(outputs, both.chunk(2), strict=True)
            ]
            return self.config.alpha * (losses[0] + losses[1])  # type: ignore[no-any-return]

        self.diagnostics = self._train(train.features, context, task.n_outputs, label_loss, (train.y,))


def with_validation(context: Context, validation: Labelled) -> Context:
    """The context with the validation rows in it, should it have none."""
    if context.validation is None and isinstance(validation.features, Table):
        return replace(context, validation=validation.features)
    return context


def pair_rows(n_rows: int, generator: torch.Generator) -> torch.Tensor:
    """A partner for every row, itself a random permutation; no row is its own partner (unless it is the only one)."""
    order = torch.randperm(n_rows, generator=generator, device=generator.device)
    partners = torch.empty_like(order)
    partners[order] = order.roll(1)
    return partners


class TokenEncoder(nn.Module):
    """A transformer over the features of each row: matrix ``(n, features)`` to tokens ``(n, d, h)``."""

    def __init__(self, config: SwitchTabConfig, schema: Schema, inputs: FeatureEncoder) -> None:
        super().__init__()
        self.n_scaled, self.n_numeric = len(schema.numeric), inputs.n_numeric
        incomplete = inputs.numeric_missing.nonzero()[0]
        self.tokenizer = FeatureTokenizer(self.n_scaled, schema.cardinalities, config.units, len(incomplete) > 0)
        self.incomplete: torch.Tensor
        self.register_buffer("incomplete", torch.from_numpy(incomplete), persistent=False)
        self.transformer = TransformerEncoder(config.units, config.layers, config.heads, 4 * config.units, norm="pre")
        self.norm = nn.LayerNorm(config.units)
        self.code_shape = (schema.n_features, config.units)

    def forward(self, matrix: torch.Tensor) -> torch.Tensor:
        if len(matrix) == 0:
            return matrix.new_zeros(0, *self.code_shape)
        numeric, missing, codes = matrix.tensor_split([self.n_scaled, self.n_numeric], dim=1)
        if len(self.incomplete):  # the matrix has indicators of incomplete columns only
            missing = torch.zeros_like(numeric).index_copy(1, self.incomplete, missing)
        tokens = self.transformer(self.tokenizer(TokenRows(numeric, missing, codes.long())))
        code: torch.Tensor = self.norm(tokens.transpose(0, 1))
        return code


class RowEncoder(nn.Module):
    """Linear layers with ReLU on the encoded row: matrix ``(n, features)`` to ``(n, h)``."""

    def __init__(self, config: SwitchTabConfig, inputs: FeatureEncoder) -> None:
        super().__init__()
        self.encode = inputs.encode
        self.layers = MLP(inputs.width, [config.units] * config.layers)
        self.code_shape = (config.units,)

    def forward(self, matrix: torch.Tensor) -> torch.Tensor:
        code: torch.Tensor = self.layers(self.encode(matrix))
        return code


class BatchSequenceEncoder(nn.Module):
    """The rows of a batch as one sequence, as in public implementations: attention runs across rows, so codes depend on
    neighbours.

    Only for comparison with those implementations.
    """

    def __init__(self, config: SwitchTabConfig, inputs: FeatureEncoder) -> None:
        super().__init__()
        self.encode = inputs.encode
        self.padding = -inputs.width % config.heads
        width = inputs.width + self.padding
        layer = nn.TransformerEncoderLayer(width, config.heads, 4 * width, dropout=0.0)
        self.transformer = nn.TransformerEncoder(layer, config.layers, enable_nested_tensor=False)
        self.code_shape = (width,)

    def forward(self, matrix: torch.Tensor) -> torch.Tensor:
        code: torch.Tensor = self.transformer(F.pad(self.encode(matrix), (0, self.padding)))
        return code


Encoder = TokenEncoder | RowEncoder | BatchSequenceEncoder


def make_encoder(config: SwitchTabConfig, schema: Schema, inputs: FeatureEncoder) -> Encoder:
    """The encoder f that ``config.encoder`` names."""
    if config.encoder == "tokens":
        return TokenEncoder(config, schema, inputs)
    return RowEncoder(config, inputs) if config.encoder == "mlp" else BatchSequenceEncoder(config, inputs)


def projector(width: int) -> nn.Module:
    """Linear and sigmoid, on each token by itself."""
    return nn.Sequential(nn.Linear(width, width), nn.Sigmoid())


class SaliencyEncoder(nn.Module):
    """What encoding needs: the encoder and the projector of the salient part."""

    def __init__(self, encoder: Encoder, config: SwitchTabConfig) -> None:
        super().__init__()
        self.encoder = encoder
        self.code_shape = encoder.code_shape
        self.salient = projector(self.code_shape[-1])
        self.takes_mean = config.pooling == "mean"

    def forward(self, matrix: torch.Tensor) -> torch.Tensor:
        """The code z: ``(n, d, h)`` or ``(n, h)``."""
        code: torch.Tensor = self.encoder(matrix)
        return code

    def pool(self, part: torch.Tensor) -> torch.Tensor:
        """The mean of tokens if that is wanted; else as it is."""
        return part.mean(dim=1) if self.takes_mean and part.ndim == 3 else part


class SwitchTask(nn.Module):
    """The encoder with what only training needs: mutual part, decoder, and a predictor if there are labels."""

    def __init__(
        self, network: SaliencyEncoder, inputs: FeatureEncoder, config: SwitchTabConfig, n_outputs: int = 0
    ) -> None:
        super().__init__()
        self.network = network
        width = network.code_shape[-1]
        self.mutual = projector(width)
        n_code = math.prod(network.code_shape)
        n_part = width if network.takes_mean else n_code
        hidden = [config.units] * (config.decoder_depth - 1)
        self.decoder = MLP(2 * n_part, hidden, inputs.width)
        self.activation = output_activation(config.scaling)
        self.predictor = nn.Linear(n_part, n_outputs) if n_outputs else nn.Identity()

    def predict(self, code: torch.Tensor) -> torch.Tensor:
        """Outputs for codes, which are pooled as the decoder and the representation have them."""
        outputs: torch.Tensor = self.predictor(self.network.pool(code).flatten(1))
        return outputs

    def decode(self, mutual: torch.Tensor, salient: torch.Tensor) -> torch.Tensor:
        rebuilt: torch.Tensor = self.activation(self.decoder(torch.cat([mutual, salient], dim=1)))
        return rebuilt

    def parts(self, code: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Mutual and salient part of codes, each flat."""
        pool = self.network.pool
        return pool(self.mutual(code)).flatten(1), pool(self.network.salient(code)).flatten(1)

    def reconstruction(self, code: torch.Tensor, clean: torch.Tensor) -> Terms:
        """The loss of pairs: the first half of the rows with the second."""
        (m1, m2), (s1, s2) = (part.chunk(2) for part in self.parts(code))
        x1, x2 = clean.chunk(2)
        return switch_loss(self.decode, (m1, s1, x1), (m2, s2, x2))

    @torch.no_grad()
    def variance_ratio(self, batches: Iterable[torch.Tensor]) -> float:
        """Variance of the mutual part over that of the salient part; near 0, switching is free and means nothing."""
        codes = zip(*(self.parts(self.network(batch)) for batch in batches), strict=True)
        mutual, salient = (torch.cat(parts).var(dim=0, correction=0).mean() for parts in codes)
        return float(mutual / salient.clamp_min(1e-12))


Row = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Mutual part, salient part and clean encoded row, each ``(n, ...)``."""


def switch_loss(decode: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], first: Row, second: Row) -> Terms:
    """Squared error of recovered and switched rows; the targets are the clean rows.

    The four means are taken together: all have the same number of rows and columns.
    """
    (m1, s1, x1), (m2, s2, x2) = first, second
    rebuilt = decode(torch.cat([m1, m2, m2, m1]), torch.cat([s1, s2, s1, s2]))
    errors = (rebuilt - torch.cat([x1, x2, x1, x2])).square().mean(dim=1)
    recovered, switched = (2 * half.mean() for half in errors.chunk(2))
    return {"loss": recovered + switched, "recovered": recovered, "switched": switched}
