"""Chooses tokens with torch, on any device. See the Protocol in `sampler.py`.

The host waits for a device once for each call: when the tokens are chosen and come back, in one copy.
"""

import math
from collections.abc import Mapping

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
from headrace.engine.torch.device.device_copy import to_device


class TorchSampler:
    """Sampler of logits in torch tensors."""

    @torch.inference_mode()
    def likeliest(self, logits: Tensor) -> tuple[list[int], list[float]]:
        return _likeliest(logits)

    @torch.inference_mode()
    def sample(self, logits: Tensor, sequences: list[Sequence], best: list[int] | None = None) -> list[int]:
        rows = [row for row, sequence in enumerate(sequences) if not sequence.takes_likeliest]
        if not rows:
            return _to_ints(_argmax(logits)) if best is None else list(best)
        chosen = _choose(_select(logits, rows), [sequences[row] for row in rows])
        if best is None:
            return _to_ints(_argmax(logits).index_copy(0, _index(rows, logits), chosen))
        token_ids = list(best)
        for row, token_id in zip(rows, _to_ints(chosen), strict=True):
            token_ids[row] = token_id
        return token_ids

    @torch.inference_mode()
    def logprobs(self, logits: Tensor, token_ids: list[int], top_counts: list[int]) -> list[TokenLogprob]:
        distribution = torch.log_softmax(logits, dim=-1)
        chosen = distribution.gather(1, _index(token_ids, logits)[:, None])[:, 0].tolist()
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


@torch.inference_mode()
def choose_tokens(logits: Tensor, sequences: list[Sequence]) -> tuple[Tensor, Tensor]:
    """Chooses one token id per row, as `TorchSampler.sample` does, and leaves them on the device: int64 [rows], and the
    highest logit of each row, fp32 [rows]. The host does not wait, unless a sequence reads its text."""
    peaks, ids = logits.max(dim=-1)
    rows = [row for row, sequence in enumerate(sequences) if not sequence.takes_likeliest]
    if not rows:
        return ids, peaks
    chosen = _choose(_select(logits, rows), [sequences[row] for row in rows])
    return ids.index_copy(0, _index(rows, logits), chosen), peaks


def _likeliest(logits: Tensor) -> tuple[list[int], list[float]]:
    if _is_on_host(logits):
        # Ten times as fast as torch's own argmax on a single thread.
        numbers = logits.numpy()
        found = numbers.argmax(axis=-1)
        return found.tolist(), numbers[np.arange(len(found)), found].tolist()
    values, ids = logits.max(dim=-1)
    # Both in one copy: fp64 holds either exactly.
    found_ids, found_values = torch.stack([ids.double(), values.double()]).tolist()
    return [int(token_id) for token_id in found_ids], found_values


def _argmax(logits: Tensor) -> Tensor:
    return torch.from_numpy(logits.numpy().argmax(axis=-1)) if _is_on_host(logits) else logits.argmax(dim=-1)


def _is_on_host(logits: Tensor) -> bool:
    return logits.device.type == "cpu"


def _choose(logits: Tensor, sequences: list[Sequence]) -> Tensor:
    """Chooses one token id per row, for rows that may need more than the argmax: int64 [rows] on their device."""
    adjusted = _adjust(_constrain(logits, sequences), sequences)
    token_ids = _argmax(adjusted)
    for sorts in (False, True):
        rows = [
            row
            for row, sequence in enumerate(sequences)
            if not sequence.request.sampling.is_greedy and _needs_order(sequence.request.sampling) is sorts
        ]
        if rows:
            drawn = _draw(_select(adjusted, rows), [sequences[row] for row in rows], sorts=sorts)
            token_ids = token_ids.index_copy(0, _index(rows, logits), drawn)
    return token_ids


def _select(logits: Tensor, rows: list[int]) -> Tensor:
    """Returns some rows, or `logits` themselves where all are wanted."""
    return logits if len(rows) == len(logits) else logits.index_select(0, _index(rows, logits))


def _index(places: list[int], like: Tensor) -> Tensor:
    return to_device(np.array(places, np.int64), like.device)


def _constrain(logits: Tensor, sequences: list[Sequence]) -> Tensor:
    """Masks the tokens that grammars forbid. Leaves `logits` unchanged."""
    rows, forbidden = find_forbidden(sequences, logits.shape[-1])
    if not rows:
        return logits
    index = _index(rows, logits)
    constrained = logits.index_select(0, index).masked_fill_(to_device(forbidden, logits.device), -math.inf)
    return logits.index_copy(0, index, constrained)


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
        index = _index(seen, logits)
        values = logits.index_select(0, index)
        penalized = torch.where(values > 0, values / sampling.repetition_penalty, values * sampling.repetition_penalty)
        logits.index_copy_(0, index, penalized)
    if amounts := penalties(sequence):
        _add(logits, {token_id: -amount for token_id, amount in amounts.items()})
    if bias := sampling.logit_bias:
        _add(logits, bias)
    if banned := banned_ids(sequence):
        others = logits.index_fill(0, _index(banned, logits), -math.inf)
        logits.copy_(torch.where((others > -math.inf).any(), others, logits))


def _add(logits: Tensor, amounts: Mapping[int, float]) -> None:
    """Adds an amount to each of some tokens of `logits` [vocabulary], in place."""
    index = _index(list(amounts), logits)
    changed = logits.index_select(0, index) + _vector(list(amounts.values()), logits)
    logits.index_copy_(0, index, changed)


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
    top_k = _index([sampling.top_k or vocabulary_size for sampling in samplings], probabilities)
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
    return _vector(values, like)[:, None]


def _vector(values: list[float], like: Tensor) -> Tensor:
    return to_device(np.array(values, np.float64 if like.dtype == torch.float64 else np.float32), like.device)


def _to_ints(values: Tensor) -> list[int]:
    integers: list[int] = values.tolist()
    return integers
