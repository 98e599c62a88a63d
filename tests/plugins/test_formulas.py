"""The losses of the papers, restated as they are printed, in plain loops, beside ours.

T-JEPA    https://arxiv.org/abs/2410.05016, Eq. 1 to 5
VIME      https://papers.nips.cc/paper/2020/hash/7d97667a3e056acab9aaf653807b4a03-Abstract.html
SubTab    https://arxiv.org/abs/2110.04361 (contrastive and distance loss)
BinRecon  https://arxiv.org/abs/2405.07414 (BinRecon and BinXent)
PTaRL     https://arxiv.org/abs/2407.05364 (projection, diversifying, orthogonalization)
"""

import math
from itertools import combinations

import torch
from small_settings import TINY_TJEPA
from tabbench_binrecon.method import recon_loss, xent_loss
from tabbench_ptarl.method import diversity_loss, orthogonality_loss, projection_loss
from tabbench_subtab.method import nt_xent, pair_distance
from tabbench_tjepa.config import TJEPAConfig
from tabbench_tjepa.masks import draw_masks
from tabbench_tjepa.objective import TJEPANetworks
from tabbench_vime.method import vime_loss
from torch import Tensor

from tabbench import Schema
from tabbench.nn import TokenRows


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def test_tjepa() -> None:
    """Eq. 5: the mean over pairs of masks of ``|g(h_context^m, m_k) - h_target^(m_k)|^2``, here for each row."""
    d, n, n_contexts, n_targets, h = 6, 5, 2, 3, 8
    torch.manual_seed(0)
    networks = TJEPANetworks(TJEPAConfig(**TINY_TJEPA, mask_num_encs=2), Schema(tuple("abcdef")), missing=False).eval()
    with torch.no_grad():
        for parameter in networks.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    rows = TokenRows(draw(n, d), torch.zeros(n, 0), torch.zeros(n, 0, dtype=torch.int64))
    masks = draw_masks(n, d, (2, 3), n_contexts, n_targets, "cpu", torch.Generator().manual_seed(0))
    h_target = networks.target_encoder(rows)  # Eq. 3
    losses = []
    for i in range(n):
        row = rows.take(slice(i, i + 1))
        total = 0.0
        for m in range(n_contexts):
            context = masks.context[:, m : m + 1, i : i + 1]
            h_context = networks.context_encoder(row, context)  # Eq. 1 and 2
            for k in range(n_targets):
                target = masks.target[:, k : k + 1, i : i + 1]
                predicted = networks.predictor(h_context, type(masks)(context, target)).flatten(0, -2)
                of_target = torch.stack([h_target[j, i] for j in target.flatten().tolist()])  # Eq. 4
                total += float((predicted - of_target).square().sum())
        losses.append(total / (n_targets * n_contexts))
    # Ours is a mean over the entries of a target, of which there are n_tgt * h.
    assert math.isclose(float(networks(rows, masks)), sum(losses) / n / (3 * h), rel_tol=1e-4)


def test_vime() -> None:
    """``l_m + alpha * l_r``: cross-entropy of each mask entry, and the squared error of each value."""
    logits, restored, clean = draw(4, 3), draw(4, 3, seed=1), draw(4, 3, seed=2)
    mask = draw(4, 3, seed=3) > 0
    l_m = l_r = 0.0
    for i in range(4):
        for j in range(3):
            p = 1 / (1 + math.exp(-float(logits[i, j])))
            l_m -= math.log(p) if mask[i, j] else math.log(1 - p)
            l_r += float(clean[i, j] - restored[i, j]) ** 2
    found = vime_loss(logits, mask, restored, clean, alpha=1.7)
    assert math.isclose(float(found["loss"]), l_m / 12 + 1.7 * l_r / 12, rel_tol=1e-5)


def test_subtab() -> None:
    """For every pair of subsets: the contrastive loss of SimCLR over its 2N projections, and the distance loss."""
    n, n_subsets, tau = 4, 3, 0.2
    z = torch.nn.functional.normalize(draw(n, n_subsets, 5), dim=2)
    contrastive = distance = 0.0
    pairs = list(combinations(range(n_subsets), 2))
    for a, b in pairs:
        both = torch.cat([z[:, a], z[:, b]])
        similarity = (both @ both.t() / tau).exp()
        for i in range(2 * n):
            positive = (i + n) % (2 * n)
            others = sum(float(similarity[i, j]) for j in range(2 * n) if j != i)
            contrastive -= math.log(float(similarity[i, positive]) / others) / (2 * n)
        distance += float((z[:, a] - z[:, b]).square().sum()) / n
    assert math.isclose(float(nt_xent(z, tau)), contrastive / len(pairs), rel_tol=1e-5)
    assert math.isclose(float(pair_distance(z)), distance / len(pairs), rel_tol=1e-5)


def test_binrecon() -> None:
    """BinRecon is the squared error of standardised bin indices, BinXent the cross-entropy of bins as classes."""
    n, d, n_bins = 5, 3, torch.tensor([4, 2, 4])
    decoded, logits = draw(n, d), draw(n, d, 4, seed=1)
    indices = torch.tensor([[3, 0, 1], [0, 1, 2], [1, 1, 3], [2, 0, 0], [3, 1, 2]])
    target = (indices - indices.double().mean(0)) / indices.double().std(0)
    squared = entropy = 0.0
    for i in range(n):
        for j in range(d):
            squared += float(decoded[i, j] - target[i, j]) ** 2
            exponentials = [math.exp(float(logits[i, j, t])) for t in range(int(n_bins[j]))]
            entropy -= math.log(exponentials[int(indices[i, j])] / sum(exponentials))
    varies = torch.ones(d, dtype=torch.bool)
    assert math.isclose(float(recon_loss(decoded, target.float(), varies)), squared / (n * d), rel_tol=1e-5)
    assert math.isclose(float(xent_loss(logits, indices, n_bins, varies)), entropy / (n * d), rel_tol=1e-5)


def test_ptarl() -> None:
    """Transport to prototypes by cosine cost; distances within classes over all; sparsity of prototypes' cosines."""
    n, k, width = 6, 3, 4
    hidden, prototypes = draw(n, width), draw(k, width, seed=1)
    coordinates, classes = draw(n, k, seed=2).softmax(1), torch.tensor([0, 1, 0, 2, 1, 0])

    def cosine(a: Tensor, b: Tensor) -> float:
        return float(a @ b / (a.norm() * b.norm()))

    transport = sum(
        float(coordinates[i, j]) * (1 - cosine(hidden[i], prototypes[j])) for i in range(n) for j in range(k)
    )
    within = everywhere = 0.0
    for i in range(n):
        for j in range(n):
            distance = float((coordinates[i] - coordinates[j]).abs().sum())
            everywhere += distance
            within += distance if classes[i] == classes[j] else 0.0
    matrix = [[abs(cosine(a, b)) for b in prototypes] for a in prototypes]
    ones, squares = sum(map(sum, matrix)), sum(value**2 for row in matrix for value in row)
    assert math.isclose(float(projection_loss(hidden, coordinates, prototypes)), transport / n, rel_tol=1e-5)
    assert math.isclose(float(diversity_loss(coordinates, classes)[0]), within / everywhere, rel_tol=1e-5)
    assert math.isclose(float(orthogonality_loss(prototypes)), ones / squares + max(ones - k, 0), rel_tol=1e-5)
