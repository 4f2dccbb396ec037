"""Chooses tokens with torch, on any device. See the Protocol in `sampler.py`."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from headrace.engine.batching.sequence import Sequence
from headrace.engine.contract.request import SamplingParams, TokenLogprob
from headrace.engine.step.adjustment import banned_ids, is_adjusted, penalties, repeated_ids
from headrace.engine.step.token_mask import find_forbidden
from headrace.engine.step.uniform import uniform


class TorchSampler:
    """Sampler of logits in torch tensors."""

    @torch.inference_mode()
    def likeliest(self, logits: Tensor) -> tuple[list[int], list[float]]:
        return _likeliest(logits)

    @torch.inference_mode()
    def sample(self, logits: Tensor, sequences: list[Sequence], best: list[int] | None = None) -> list[int]:
        token_ids = _likeliest(logits)[0] if best is None else list(best)
        rows = [row for row, sequence in enumerate(sequences) if not sequence.takes_likeliest]
        if rows:
            chosen = _choose(logits[rows], [sequences[row] for row in rows])
            for row, token_id in zip(rows, chosen, strict=True):
                token_ids[row] = token_id
        return token_ids

    @torch.inference_mode()
    def logprobs(self, logits: Tensor, token_ids: list[int], top_counts: list[int]) -> list[TokenLogprob]:
        distribution = torch.log_softmax(logits, dim=-1)
        chosen = distribution.gather(1, torch.tensor(token_ids, device=logits.device)[:, None])[:, 0].tolist()
        values, ids = distribution.topk(min(max(top_counts), logits.shape[-1]), dim=-1)
        return [
            TokenLogprob(token_id, logprob, tuple(zip(row_ids[:count], row_values[:count], strict=True)))
            for token_id, logprob, row_ids, row_values, count in zip(
                token_ids, chosen, ids.tolist(), values.tolist(), top_counts, strict=True
            )
        ]

    def in_host_memory(self, logits: Tensor) -> NDArray[np.float32]:
        return logits.cpu().numpy()

    @torch.inference_mode()
    def fit(self, logits: Tensor, vocabulary_size: int) -> Tensor:
        missing = vocabulary_size - logits.shape[1]
        return functional.pad(logits, (0, missing), value=-math.inf) if missing else logits


def _likeliest(logits: Tensor) -> tuple[list[int], list[float]]:
    if logits.device.type != "cpu":
        values, ids = logits.max(dim=-1)
        return _to_ints(ids), values.tolist()
    # Ten times as fast as torch's own argmax on a single thread.
    numbers = logits.numpy()
    found = numbers.argmax(axis=-1)
    return found.tolist(), numbers[np.arange(len(found)), found].tolist()


def _choose(logits: Tensor, sequences: list[Sequence]) -> list[int]:
    """Chooses one token id per row, for rows that may need more than the argmax."""
    adjusted = _adjust(_constrain(logits, sequences), sequences)
    token_ids = _likeliest(adjusted)[0]
    for sorts in (False, True):
        rows = [
            row
            for row, sequence in enumerate(sequences)
            if not sequence.request.sampling.is_greedy and _needs_order(sequence.request.sampling) is sorts
        ]
        if rows:
            drawn = _draw(adjusted[rows], [sequences[row] for row in rows], sorts=sorts)
            for row, token_id in zip(rows, drawn, strict=True):
                token_ids[row] = token_id
    return token_ids


def _constrain(logits: Tensor, sequences: list[Sequence]) -> Tensor:
    """Masks the tokens that grammars forbid. Leaves `logits` unchanged."""
    rows, forbidden = find_forbidden(sequences, logits.shape[-1])
    if not rows:
        return logits
    constrained = logits.clone()
    constrained[rows] = logits[rows].masked_fill(torch.from_numpy(forbidden).to(logits.device), -math.inf)
    return constrained


def _adjust(logits: Tensor, sequences: list[Sequence]) -> Tensor:
    """Applies the adjustments that depend on the text so far. Leaves `logits` unchanged."""
    changed = [row for row, sequence in enumerate(sequences) if is_adjusted(sequence)]
    if not changed:
        return logits
    logits = logits.clone()
    for row in changed:
        _adjust_row(logits[row], sequences[row])
    return logits


def _adjust_row(logits: Tensor, sequence: Sequence) -> None:
    """Adjusts `logits` [vocabulary] in place."""
    sampling = sequence.request.sampling
    if seen := repeated_ids(sequence):
        values = logits[seen]
        logits[seen] = torch.where(
            values > 0, values / sampling.repetition_penalty, values * sampling.repetition_penalty
        )
    if amounts := penalties(sequence):
        logits[list(amounts)] -= torch.tensor(list(amounts.values()), device=logits.device, dtype=logits.dtype)
    if bias := sampling.logit_bias:
        logits[list(bias)] += torch.tensor(list(bias.values()), device=logits.device, dtype=logits.dtype)
    if banned := banned_ids(sequence):
        others = logits.clone()
        others[banned] = -math.inf
        if bool((others > -math.inf).any()):
            logits[banned] = -math.inf


def _needs_order(sampling: SamplingParams) -> bool:
    return sampling.top_k is not None or sampling.top_p < 1


def _draw(logits: Tensor, sequences: list[Sequence], *, sorts: bool) -> list[int]:
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
    targets = torch.tensor(draws, dtype=torch.float64, device=logits.device)[:, None] * cumulative[:, -1:]
    chosen = torch.searchsorted(cumulative, targets, right=True).clamp_(max=logits.shape[-1] - 1)
    return _to_ints((chosen if order is None else order.gather(1, chosen))[:, 0])


def _keep_head(probabilities: Tensor, samplings: list[SamplingParams]) -> Tensor:
    """Keeps the top-k, then the top-p (Holtzman et al., 2020) of the rest. `probabilities` are in descending order."""
    vocabulary_size = probabilities.shape[-1]
    ranks = torch.arange(vocabulary_size, device=probabilities.device)
    top_k = torch.tensor([sampling.top_k or vocabulary_size for sampling in samplings], device=probabilities.device)
    kept = probabilities.where(ranks < top_k[:, None], 0.0)
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
    return torch.tensor(values, dtype=like.dtype, device=like.device)[:, None]


def _to_ints(values: Tensor) -> list[int]:
    integers: list[int] = values.tolist()
    return integers
