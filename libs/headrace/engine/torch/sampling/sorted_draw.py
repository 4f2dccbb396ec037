"""Draws tokens with torch, on any device: sorts the rows whose distribution top-k or top-p cuts off."""

import math

import numpy as np
import torch
from torch import Tensor

from headrace.engine.batching.sequence import Sequence
from headrace.engine.contract.request import SamplingParams
from headrace.engine.step.uniform import uniform
from headrace.engine.torch.device.device_copy import to_device
from headrace.engine.torch.sampling.some_rows import numbers_like, replace_rows, take_rows


def draw_sorted(logits: Tensor, sequences: list[Sequence]) -> Tensor:
    """Draws one token id per row of `logits` [rows, vocabulary], none of them greedy: int64 [rows], on their device."""
    token_ids = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    for sorts in (False, True):
        rows = [row for row, sequence in enumerate(sequences) if _needs_order(sequence.request.sampling) is sorts]
        if rows:
            drawn = _draw(take_rows(logits, rows), [sequences[row] for row in rows], sorts=sorts)
            token_ids = replace_rows(token_ids, rows, drawn)
    return token_ids


def _needs_order(sampling: SamplingParams) -> bool:
    return sampling.top_k is not None or sampling.top_p < 1


def _draw(logits: Tensor, sequences: list[Sequence], *, sorts: bool) -> Tensor:
    """Draws by inverting the cumulative distribution at one uniform number per row."""
    samplings = [sequence.request.sampling for sequence in sequences]
    temperatures = _column([sampling.temperature for sampling in samplings], logits)
    scaled = logits / temperatures
    order: Tensor | None = None
    if sorts:
        scaled, order = scaled.sort(dim=-1, descending=True, stable=True)
    probabilities = torch.softmax(scaled, dim=-1)
    if order is not None:
        probabilities = _keep_head(probabilities, samplings)
    probabilities = _drop_unlikely(probabilities, samplings)
    cumulative = probabilities.double().cumsum(dim=-1)
    draws = [uniform(sequence.seed, sequence.output_count) for sequence in sequences]
    targets = _column(draws, cumulative) * cumulative[:, -1:]
    chosen = torch.searchsorted(cumulative, targets, right=True).clamp_(max=logits.shape[-1] - 1)
    return (chosen if order is None else order.gather(1, chosen))[:, 0]


def _keep_head(probabilities: Tensor, samplings: list[SamplingParams]) -> Tensor:
    """Keeps the top-k, then the top-p (Holtzman et al., 2020) of the rest. `probabilities` are in descending order."""
    vocabulary_size = probabilities.shape[-1]
    ranks = torch.arange(vocabulary_size, device=probabilities.device)
    sizes = np.array([[sampling.top_k or vocabulary_size] for sampling in samplings], np.int64)
    kept = probabilities.where(ranks < to_device(sizes, probabilities.device), 0.0)
    if all(sampling.top_p >= 1 for sampling in samplings):
        return kept
    cumulative = kept.double().cumsum(dim=-1)
    limits = _column([sampling.top_p if sampling.top_p < 1 else math.inf for sampling in samplings], cumulative)
    before = cumulative - kept
    return kept.where(before < limits * cumulative[:, -1:], 0.0)


def _drop_unlikely(probabilities: Tensor, samplings: list[SamplingParams]) -> Tensor:
    """Drops tokens by min-p (Nguyen et al., 2024)."""
    if all(sampling.min_p == 0 for sampling in samplings):
        return probabilities
    thresholds = probabilities.amax(dim=-1, keepdim=True) * _column(
        [sampling.min_p for sampling in samplings], probabilities
    )
    return probabilities.where(probabilities >= thresholds, 0.0)


def _column(values: list[float], like: Tensor) -> Tensor:
    return numbers_like(like, values)[:, None]
