"""VIME's second stage: a predictor that gives the same answer for corrupted copies of a row (section 4.2 of the paper).

The encoder of the first stage stays frozen. A predictor on top of it learns from labelled rows. From all rows, labelled
or not, it learns that its outputs must not depend on the replaced entries. Here the predictor is the network of the
downstream model; the paper's has two hidden layers of 100 units.

Shapes: ``n`` rows, ``K`` corrupted copies of each, ``c`` outputs.
"""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tabbench import (
    Context,
    DownstreamModel,
    Features,
    JointMethod,
    Labelled,
    PluginError,
    Representation,
    Table,
    Task,
    UsageError,
)
from tabbench.nn import (
    Batch,
    Inputs,
    Objective,
    Pretext,
    Terms,
    choose_batch_size,
    make_optimizer,
    permute_columns,
    replace_at_random,
    seeded,
    train_pretext,
)
from tabbench_vime.config import VIMEConfig, VIMESemiConfig
from tabbench_vime.method import VIME

PREDICT_ROWS = 1024


class VIMESemi(JointMethod):
    """Both stages of VIME; it uses labels, and all rows that have none (``context.unlabelled``)."""

    Config = VIMESemiConfig
    gives = "predictions"
    encoder: VIME
    inputs: Inputs
    objective: Objective
    predictor: "Predictor"

    def fit(
        self, train: Labelled, validation: Labelled, task: Task, context: Context, model: DownstreamModel | None = None
    ) -> None:
        if model is None:
            raise PluginError("vime_semi trains the backbone of a downstream model, so it needs one")
        if not isinstance(train.features, Table) or not isinstance(validation.features, Table):
            raise UsageError("vime_semi has an encoder of its own: it needs the raw table, not a representation")
        rows = train.features if context.unlabelled is None else context.unlabelled
        self.encoder = self._first_stage(rows, validation.features, context)
        work = _Work(self, rows, train, task, model, context)
        self.inputs, self.objective, self.predictor = work.inputs, work.objective, work.predictor
        config = self.config
        diagnostics = train_pretext(
            self.predictor,
            make_optimizer(self.predictor, model.config),
            Pretext(len(rows), work.loss),
            context,
            epochs=config.semi_epochs,
            batch_size=choose_batch_size(model.config.batch_size, len(rows)),
            min_rows=2,
            identity=(config, model.config, type(model).__name__, rows, train.features, train.y, validation.y),
            generators=(work.generator,),
            validation=work.validation(validation),
            patience=config.semi_patience,
            select_untrained=False,
            stage="predictor",
        )
        self.diagnostics = {**diagnostics, "encoder": self.encoder.diagnostics, "unlabelled": len(rows)}

    def predict(self, features: Features) -> NDArray[np.float32]:
        assert isinstance(features, Table)
        self.predictor.eval()
        with torch.inference_mode():
            outputs = [
                self.predictor(self.represent(self.encoder.inputs.matrix(some, self.device)))
                for some in (features.take(slice(i, i + PREDICT_ROWS)) for i in range(0, len(features), PREDICT_ROWS))
            ]
        return self.objective.predictions(torch.cat(outputs))

    def represent(self, matrix: torch.Tensor) -> Batch:
        """What the predictor sees of rows: the frozen encoder's output, standardised."""
        with torch.no_grad():
            encoded = self.encoder.embed(matrix)
        return self.inputs.transform(Representation(encoded.cpu().numpy()), self.device)

    def _first_stage(self, rows: Table, validation: Table, context: Context) -> VIME:
        names = VIMEConfig.model_fields
        encoder = VIME(VIMEConfig(**{name: value for name, value in self.config if name in names}))
        encoder.device = self.device = context.device
        # The tuner must not mistake reports of the first stage for those of a predictor.
        encoder.pretrain(rows, replace(context, validation=validation, probe=None, on_report=None))
        encoder.network.eval()
        return encoder


class Predictor(nn.Module):
    """The model's backbone and a linear layer."""

    def __init__(self, backbone: nn.Module, n_outputs: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(int(backbone.out_features), n_outputs)  # type: ignore[arg-type]

    def forward(self, batch: Batch) -> torch.Tensor:
        outputs: torch.Tensor = self.head(self.backbone(batch))
        return outputs


class _Work:
    """What the second stage works with: all rows, those with a label, and the predictor."""

    def __init__(
        self, method: VIMESemi, rows: Table, train: Labelled, task: Task, model: DownstreamModel, context: Context
    ) -> None:
        self.method, self.config = method, method.config
        encoder: VIME = method.encoder
        device = context.device
        self.rows = encoder.inputs.matrix(rows, device)
        self.originals = encoder.inputs.originals.to(device)
        assert isinstance(train.features, Table)
        self.labelled = encoder.inputs.matrix(train.features, device)
        representation = encoder.encode(rows)
        self.inputs = method.inputs = Inputs().fit(representation)
        self.objective = Objective(task, train.y)
        self.targets = self.objective.targets(train.y, device)
        self.generator: torch.Generator = context.generator("semi")
        backbone = model.make_backbone(representation, context)
        with seeded(context.seed("head"), device):
            self.predictor = Predictor(backbone, task.n_outputs).to(device)

    def loss(self, rows: torch.Tensor) -> Terms:
        """Labelled rows, drawn anew, and the consistency of as many rows without regard to labels."""
        chosen = torch.randint(len(self.labelled), (len(rows),), generator=self.generator, device=rows.device)
        outputs = self.predictor(self.method.represent(self.labelled[chosen]))
        supervised = self.objective.loss(outputs, self.targets[chosen])
        clean = self.rows[rows]
        copies = [self._corrupt(clean) for _ in range(self.config.copies)]
        answers = self.predictor(self.method.represent(torch.cat(copies))).view(self.config.copies, len(rows), -1)
        consistency = consistency_loss(answers)
        return {
            "loss": supervised + self.config.beta * consistency,
            "supervised": supervised,
            "consistency": consistency,
        }

    def validation(self, part: Labelled) -> Pretext:
        """The supervised loss of labelled validation rows, which decides when to stop."""
        assert isinstance(part.features, Table)
        matrix = self.method.encoder.inputs.matrix(part.features, self.rows.device.type)
        targets = self.objective.targets(part.y, self.rows.device)

        def loss(rows: torch.Tensor) -> Terms:
            outputs = self.predictor(self.method.represent(matrix[rows]))
            return {"loss": self.objective.loss(outputs, targets[rows])}

        return Pretext(len(matrix), loss)

    def _corrupt(self, clean: torch.Tensor) -> torch.Tensor:
        order = torch.randint(len(self.rows), (len(clean),), generator=self.generator, device=clean.device)
        swapped = permute_columns(self.rows[order], self.generator, self.originals)
        return replace_at_random(clean, swapped, self.config.p_m, self.generator, self.originals)


def consistency_loss(answers: torch.Tensor) -> torch.Tensor:
    """Variance over the K copies of a row, averaged over rows and outputs, from answers ``(K, n, c)``."""
    return answers.var(dim=0, correction=0).mean()
