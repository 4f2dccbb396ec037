"""Draws of tokens on the kernels for GPUs."""

import numpy as np
from torch import Tensor

from headrace.engine.batching.sequence import Sequence
from headrace.engine.step.uniform import uniform
from headrace.engine.torch.device.device_copy import to_device
from headrace.engine.triton.token_draw import TERMS, draw_tokens


def draw(logits: Tensor, sequences: list[Sequence]) -> Tensor:
    """Draws one token id per row, none of which is greedy, in one launch: int64 [rows] on the device of `logits` [rows,
    vocabulary]. The host does not wait."""
    terms = np.array([_terms(sequence) for sequence in sequences]).reshape(-1, TERMS)
    return draw_tokens(logits.contiguous(), to_device(np.ascontiguousarray(terms.T), logits.device))


def _terms(sequence: Sequence) -> tuple[float, ...]:
    """Returns what `draw_tokens` asks for of a row, in its order."""
    sampling = sequence.request.sampling
    number = uniform(sequence.seed, sequence.output_count)
    return sampling.temperature, float(sampling.top_k or 0), sampling.top_p, sampling.min_p, number
