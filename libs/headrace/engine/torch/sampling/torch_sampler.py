"""Chooses tokens with torch, on any device. See the Protocol in `sampler.py`.

The host waits for a device once for each call: when the tokens are chosen and come back, in one copy.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from headrace.engine.batching.sequence import Sequence
from headrace.engine.contract.request import TokenLogprob
from headrace.engine.torch.sampling.adjusted_logits import adjust
from headrace.engine.torch.sampling.some_rows import places_on, replace_rows, take_rows
from headrace.engine.torch.sampling.sorted_draw import draw_sorted

Draw = Callable[[Tensor, list[Sequence]], Tensor]
"""Draws one token id per row of logits, none of which is greedy, and leaves them on the device: int64 [rows]."""


class TorchSampler:
    """Sampler of logits in torch tensors."""

    def __init__(self, draw: Draw = draw_sorted) -> None:
        self._draw = draw

    @torch.inference_mode()
    def likeliest(self, logits: Tensor) -> tuple[list[int], list[float]]:
        return _likeliest(logits)

    @torch.inference_mode()
    def choose(self, logits: Tensor, sequences: list[Sequence]) -> tuple[Tensor, Tensor]:
        """Chooses one token id per row, as `sample` does, and leaves them on the device: int64 [rows], and the highest
        logit of each row, fp32 [rows]. The host does not wait, unless a sequence reads its text."""
        peaks, ids = logits.max(dim=-1)
        rows = [row for row, sequence in enumerate(sequences) if not sequence.takes_likeliest]
        if not rows:
            return ids, peaks
        chosen = self._choose(take_rows(logits, rows), [sequences[row] for row in rows])
        return replace_rows(ids, rows, chosen), peaks

    @torch.inference_mode()
    def sample(self, logits: Tensor, sequences: list[Sequence], best: list[int] | None = None) -> list[int]:
        rows = [row for row, sequence in enumerate(sequences) if not sequence.takes_likeliest]
        if not rows:
            return _to_ints(_argmax(logits)) if best is None else list(best)
        chosen = self._choose(take_rows(logits, rows), [sequences[row] for row in rows])
        if best is None:
            return _to_ints(replace_rows(_argmax(logits), rows, chosen))
        token_ids = list(best)
        for row, token_id in zip(rows, _to_ints(chosen), strict=True):
            token_ids[row] = token_id
        return token_ids

    @torch.inference_mode()
    def logprobs(self, logits: Tensor, token_ids: list[int], top_counts: list[int]) -> list[TokenLogprob]:
        distribution = torch.log_softmax(logits, dim=-1)
        chosen = distribution.gather(1, places_on(logits, token_ids)[:, None])[:, 0].tolist()
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

    def _choose(self, logits: Tensor, sequences: list[Sequence]) -> Tensor:
        """Chooses one token id per row, for rows that may need more than the argmax: int64 [rows] on their device."""
        adjusted = adjust(logits, sequences)
        rows = [row for row, sequence in enumerate(sequences) if not sequence.request.sampling.is_greedy]
        if not rows:
            return _argmax(adjusted)
        drawn = self._draw(take_rows(adjusted, rows), [sequences[row] for row in rows])
        return drawn if len(rows) == len(logits) else replace_rows(_argmax(adjusted), rows, drawn)


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


def _to_ints(values: Tensor) -> list[int]:
    integers: list[int] = values.tolist()
    return integers
