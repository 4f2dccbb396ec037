"""The threads and buffers of the kernels."""

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.engine.kernels.library import Function, Instructions, available, load_kernels, pointer
from headrace.engine.kernels.packed_weight import PackedWeight
from headrace.engine.kernels.structures import (
    Convolution,
    Draw,
    Encoder,
    EncoderBatch,
    Layer,
    Matrix,
    Model,
    Norm,
    Ranking,
    Recurrence,
    Routing,
    Step,
)
from headrace.engine.memory.aligned import address

Floats = NDArray[np.float32]


class KernelContext:
    """Runs one kernel at a time on its threads: callers of several threads, such as a model that is loaded beside one
    that runs, wait for each other.

    All methods raise MemoryError if there is no memory for intermediate results. They raise IndexError, before
    computing anything, if a token id, block, position, row, slot or count is out of range for the model or the step.
    """

    def __init__(self, thread_count: int, instructions: Instructions | None = None) -> None:
        """`instructions` forces an instruction set; unset: the fastest. Raises RuntimeError if there is none."""
        library, usable = load_kernels(), available()
        chosen = max(usable, default=None) if instructions is None else instructions
        if library is None or chosen not in usable:
            raise RuntimeError(f"the kernels cannot run here: {chosen!r} is none of {usable!r}; choose one of those")
        # Last, because it starts threads, which only `__del__` ends.
        handle = library.headrace_open(thread_count)
        if handle is None:
            raise RuntimeError(f"the kernels cannot run here: {thread_count} threads do not start; take fewer")
        self._library: ctypes.CDLL = library
        self._turn = threading.Lock()
        self._handle = handle
        self.instructions = chosen
        self.thread_count = thread_count

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            self._library.headrace_close(self._handle)

    def step(self, model: Model, step: Step, instructions: Instructions) -> None:
        """Runs one decoder step: see `src/decoder.h`."""
        self._call(self._library.headrace_step, instructions, model, step)

    def encode(self, encoder: Encoder, batch: EncoderBatch) -> None:
        """Runs an encoder on a batch of inputs: see `src/encoder.h`."""
        self._call(self._library.headrace_encode, self.instructions, encoder, batch)

    def product(
        self,
        weight: PackedWeight,
        inputs: Floats,
        residual: Floats | None = None,
        *,
        exact: bool = False,
        instructions: Instructions | None = None,
    ) -> Floats:
        """Maps [rows, in] to [rows, out], plus `residual`. All arrays are contiguous. See `PackedWeight.matrix`.
        `instructions` overrides the default set."""
        outputs = np.empty((len(inputs), weight.out_size), np.float32)
        chosen = self.instructions if instructions is None else instructions
        arguments = (weight.matrix(exact=exact), pointer(inputs), pointer(residual), pointer(outputs), len(inputs))
        self._call(self._library.headrace_product, chosen, *arguments)
        return outputs

    def multiply(self, matrix: Matrix, inputs: int, residual: int | None, outputs: int, row_count: int) -> None:
        """Multiplies by `matrix`. Takes fp32 addresses: `inputs` [rows, in], `residual` and `outputs` [rows, out]."""
        arguments = (matrix, inputs, residual, outputs, row_count)
        self._call(self._library.headrace_product, self.instructions, *arguments)

    def attend(self, model: Model, layer: Layer, step: Step, projected: int, outputs: int) -> None:
        """Computes attention of one layer, fp32. Changes `projected` [rows, query, key and value heads, head] and
        stores its keys and values where `layer` says. `outputs` is [rows, query heads, head]. See
        `src/paged_attention.h`."""
        self._call(self._library.headrace_attend, self.instructions, model, layer, step, projected, outputs)

    def normalize(self, norm: Norm, inputs: int, outputs: int, row_count: int) -> None:
        """Normalizes [rows, size] numbers, fp32. Inputs and outputs may share memory."""
        self._call(self._library.headrace_normalize, self.instructions, norm, inputs, outputs, row_count)

    def activate(self, function: Function, inputs: int, outputs: int, shape: tuple[int, int], cap: float = 0.0) -> None:
        """Applies `function` to each of [rows, size] numbers, fp32. Inputs and outputs may share memory. `cap` is only
        for SOFT_CAP."""
        arguments = (function, cap, inputs, outputs, *shape)
        self._call(self._library.headrace_activate, self.instructions, *arguments)

    def gate(self, function: Function, inputs: int, outputs: int, shape: tuple[int, int]) -> None:
        """Computes `function`(gate) * up, fp32. `inputs` is [rows, 2 x size], gates before ups; `shape`, that of
        `outputs`, is [rows, size]."""
        self._call(self._library.headrace_gate, self.instructions, function, inputs, outputs, *shape)

    def route(self, routing: Routing, scores: int, shares: int, experts: int, row_count: int) -> None:
        """Finds the top experts of each row of fp32 `scores` [rows, experts], best first: int64 [rows, chosen]. Writes
        their weights to `shares`, fp32 of the same shape. A shared expert is the last of the chosen; the output of its
        gate is the last of a row."""
        arguments = (routing, scores, shares, experts, row_count)
        self._call(self._library.headrace_route, self.instructions, *arguments)

    def recur(self, recurrence: Recurrence) -> None:
        """Moves states behind the tokens of a step, and computes the tokens' outputs: see `src/recurrence.h`."""
        self._call(self._library.headrace_recur, self.instructions, recurrence)

    def convolve(self, convolution: Convolution) -> None:
        """Convolves each channel over the tokens of its sequence: see `src/convolution.h`."""
        self._call(self._library.headrace_convolve, self.instructions, convolution)

    def likeliest(self, logits: Floats) -> tuple[list[int], list[float]]:
        """Returns the argmax of each row of `logits` [rows, vocabulary], the first among equals, and its logit, which
        is NaN if any logit of the row is."""
        row_count, vocabulary = logits.shape
        token_ids, values = np.empty(row_count, np.int64), np.empty(row_count, np.float32)
        arguments = (address(logits), row_count, vocabulary, address(token_ids), address(values))
        self._call(self._library.headrace_likeliest, self.instructions, *arguments)
        return token_ids.tolist(), values.tolist()

    def draw(self, draws: Sequence[Draw], vocabulary: int) -> list[int]:
        """Draws a token for each of `draws`, or takes the argmax if the temperature is 0."""
        array = (Draw * len(draws))(*draws)
        self._call(self._library.headrace_draw, self.instructions, array, len(draws), vocabulary)
        return [draw.token_id for draw in array]

    def rank(self, logits: Floats, count: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns the ids of the `count` tokens with the largest logits in each row of `logits` [rows, vocabulary],
        largest first, and the natural logarithm of each row's sum of exponentials."""
        row_count, vocabulary = logits.shape
        token_ids = np.zeros((row_count, count), np.int64)
        rankings = (Ranking * row_count)(
            *(Ranking(address(row), address(ids), count) for row, ids in zip(logits, token_ids, strict=True))
        )
        self._call(self._library.headrace_rank, self.instructions, rankings, row_count, vocabulary)
        return token_ids, np.array([ranking.normalizer for ranking in rankings])

    def _call(self, function: Any, *arguments: Any) -> None:
        with self._turn:
            failure = function(self._handle, *arguments)
        _check(failure)


_BAD = {
    2: "a token id is not in the vocabulary of the model",
    3: "the spans of a step, the moves of its states or the inputs of a batch do not cover its rows one after the "
    "other, are too long, or lack block numbers",
    4: "a block number is not one of the KV cache",
    5: "a position is beyond those that the model was loaded for",
    6: "a wanted row is not one of the step",
    7: "a count is not between the least and the most that there can be",
    9: "an adapter is not one of the model",
    10: "a slot of a state is not one of the layer",
}
"""Error messages by `Failure` in `src/checked_ids.h`."""
UNKNOWN = 8


def _check(failure: int) -> None:
    if failure in _BAD:
        raise IndexError(f"the kernels refuse a call: {_BAD[failure]}")
    if failure == UNKNOWN:
        raise RuntimeError("the kernels failed for a reason that they do not know")
    if failure:
        raise MemoryError("the kernels have no memory for their intermediate results")
