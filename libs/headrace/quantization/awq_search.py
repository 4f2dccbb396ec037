"""The two searches of AWQ (Lin et al., 2023, section 3.2): for input scales of projections and for clipping limits of
weights.

Both minimize the error of the outputs on calibration data, |(Q(W) - W) X|^2. The second moments H = X X^T of the inputs
give it exactly for any W: the trace of (Q(W) - W) H (Q(W) - W)^T.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from headrace.engine.checkpoints.weights import round_to_nearest

BITS = 4
RATIO_COUNT = 20
"""Number of exponents to try: from 0, which changes nothing, to 0.95."""
LIMIT_COUNT = 10
LIMIT_STEP = 0.05
"""Step between the limits to try: 1 to 0.55 of a group's largest weight."""
MIN_SALIENCY = 1e-4
"""Lower bound on an input's saliency, as a share of the mean. Keeps scales of rare inputs from getting too small."""


def search_scales(
    weights: Sequence[Tensor],
    moments: Sequence[Tensor],
    group_size: int,
    share: Callable[[Tensor], Tensor] = lambda saliency: saliency,
) -> Tensor:
    """Returns the factor for each input of projections that share their inputs, fp32 [in], that minimizes the rounding
    error.

    `weights` are fp32 [out, in] and `moments` fp32 [in, in], one per projection. The saliency of an input is its root
    mean square; the paper uses the mean magnitude. `share` equalizes inputs that must have the same factor.
    """
    saliency = share(torch.stack([moment.diagonal() for moment in moments]).sum(dim=0).sqrt())
    saliency = (saliency / saliency.mean().clamp(min=torch.finfo(torch.float32).tiny)).clamp(min=MIN_SALIENCY)
    best, least = torch.ones_like(saliency), float("inf")
    for step in range(RATIO_COUNT):
        scales = saliency ** (step / RATIO_COUNT)
        scales = scales / (scales.max() * scales.min()).sqrt()
        error = sum(
            _scaled_error(weight, moment, scales, group_size) for weight, moment in zip(weights, moments, strict=True)
        )
        if error < least:
            best, least = scales, error
    return best


def limit(weight: Tensor, moments: Tensor, group_size: int) -> Tensor:
    """Returns `weight` [out, in], fp32, with each row's groups clipped at the limit with the least rounding error."""
    groups = weight.reshape(len(weight), -1, group_size)
    blocks = _diagonal_blocks(moments, group_size)
    low, high = groups.amin(dim=-1, keepdim=True), groups.amax(dim=-1, keepdim=True)
    best, least = groups, torch.full(groups.shape[:2], float("inf"))
    for step in range(LIMIT_COUNT):
        share = 1 - step * LIMIT_STEP
        cut = groups.clamp(low * share, high * share)
        difference = (_rounded(cut.flatten(1), group_size) - weight).view_as(groups).transpose(0, 1)
        errors = (torch.bmm(difference, blocks) * difference).sum(dim=-1).T
        is_better = errors < least
        best = torch.where(is_better[..., None], cut, best)
        least = torch.where(is_better, errors, least)
    return best.reshape(weight.shape)


def _scaled_error(weight: Tensor, moments: Tensor, scales: Tensor, group_size: int) -> float:
    difference = _rounded(weight * scales, group_size) / scales - weight
    return float(((difference @ moments) * difference).sum())


def _rounded(weight: Tensor, group_size: int) -> Tensor:
    return round_to_nearest.quantize(weight, BITS, group_size, symmetric=False).dequantize()


def _diagonal_blocks(moments: Tensor, size: int) -> Tensor:
    """Returns the moments among the inputs of each group: [groups, size, size]."""
    return torch.stack([moments[first : first + size, first : first + size] for first in range(0, len(moments), size)])
