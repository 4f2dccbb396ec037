"""Chooses tokens with the CPU kernels, from logits in numpy arrays. See the Protocol in `sampler.py`."""

import math

import numpy as np

from headrace.engine.batching.sequence import Sequence
from headrace.engine.contract.request import TokenLogprob
from headrace.engine.kernels.context import Floats, KernelContext
from headrace.engine.kernels.structures import Draw
from headrace.engine.memory.aligned import address
from headrace.engine.step.adjustment import banned_ids, is_adjusted, penalties, repeated_ids
from headrace.engine.step.token_mask import find_forbidden
from headrace.engine.step.uniform import uniform


class CpuSampler:
    """Samples all rows of a step in one call. Finds the head of each distribution without sorting the rest."""

    def __init__(self, context: KernelContext) -> None:
        self._context = context

    def likeliest(self, logits: Floats) -> tuple[list[int], list[float]]:
        return self._context.likeliest(logits)

    def sample(self, logits: Floats, sequences: list[Sequence], best: list[int] | None = None) -> list[int]:
        token_ids = self.likeliest(logits)[0] if best is None else list(best)
        rows = [row for row, sequence in enumerate(sequences) if not sequence.takes_likeliest]
        if rows:
            adjusted = _adjust(logits, sequences, rows)
            draws = [_draw(adjusted.get(row, logits[row]), sequences[row]) for row in rows]
            for row, token_id in zip(rows, self._context.draw(draws, logits.shape[1]), strict=True):
                token_ids[row] = token_id
        return token_ids

    def logprobs(self, logits: Floats, token_ids: list[int], top_counts: list[int]) -> list[TokenLogprob]:
        count = min(max(top_counts), logits.shape[1])
        ids, normalizers = self._context.rank(logits, count)
        chosen = np.take_along_axis(logits, np.array(token_ids)[:, None], axis=1)[:, 0] - normalizers
        values = np.take_along_axis(logits, ids, axis=1) - normalizers[:, None]
        return [
            TokenLogprob(token_id, logprob, tuple(zip(row_ids[:count], row_values[:count], strict=True)))
            for token_id, logprob, row_ids, row_values, count in zip(
                token_ids, chosen.tolist(), ids.tolist(), values.tolist(), top_counts, strict=True
            )
        ]

    def in_host_memory(self, logits: Floats) -> Floats:
        return logits

    def fit(self, logits: Floats, vocabulary_size: int) -> Floats:
        missing = vocabulary_size - logits.shape[1]
        if missing <= 0:
            return np.ascontiguousarray(logits[:, :vocabulary_size])
        return np.pad(logits, ((0, 0), (0, missing)), constant_values=-math.inf)


def _draw(logits: Floats, sequence: Sequence) -> Draw:
    """Describes a draw to the kernels. `logits` [vocabulary] must stay alive until the draw."""
    sampling = sequence.request.sampling
    if sampling.is_greedy:
        return Draw(address(logits))
    return Draw(
        address(logits),
        uniform(sequence.seed, sequence.output_count),
        sampling.top_k or 0,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        min_p=sampling.min_p,
    )


def _adjust(logits: Floats, sequences: list[Sequence], rows: list[int]) -> dict[int, Floats]:
    """Copies the logits of those `rows` that the grammar or the text so far changes, and adjusts the copies."""
    adjusted = {}
    constrained, forbidden = find_forbidden([sequences[row] for row in rows], logits.shape[1])
    for index, mask in zip(constrained, forbidden, strict=True):
        row = rows[index]
        adjusted[row] = np.where(mask, np.float32(-math.inf), logits[row])
    for row in rows:
        if is_adjusted(sequences[row]):
            adjusted[row] = _adjust_row(adjusted.get(row, logits[row]).copy(), sequences[row])
    return adjusted


def _adjust_row(logits: Floats, sequence: Sequence) -> Floats:
    """Adjusts `logits` [vocabulary] in place and returns them."""
    sampling = sequence.request.sampling
    if seen := repeated_ids(sequence):
        values, penalty = logits[seen], np.float32(sampling.repetition_penalty)
        logits[seen] = np.where(values > 0, values / penalty, values * penalty)
    if amounts := penalties(sequence):
        logits[list(amounts)] -= np.array(list(amounts.values()), np.float32)
    if bias := sampling.logit_bias:
        logits[list(bias)] += np.array(list(bias.values()), np.float32)
    if banned := banned_ids(sequence):
        others = logits.copy()
        others[banned] = -math.inf
        return others if (others > -math.inf).any() else logits
    return logits
