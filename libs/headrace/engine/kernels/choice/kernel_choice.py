"""Chooses the fastest kernels for a model among those that passed the self test, by measuring its own weights.

All instruction sets give the same bits, so any may be chosen. A processor may support a set and still be slower with
it, because it lowers its clock or splits wide vectors, and that may depend on the number of rows.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.engine.kernels.choice.candidates import candidates
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Instructions
from headrace.engine.kernels.packed_weight import PackedWeight

ROW_COUNTS = (1, 2, 4, 6, 8, 12, 16, 32, 128)
"""Row counts to measure. A step uses the set that is best at the nearest of these that is not smaller, or at the
largest."""
REPEATS = 3

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class KernelChoice:
    """Instruction sets by the number of rows in a step."""

    by_rows: tuple[tuple[int, Instructions], ...]
    """Pairs of the largest row count and the instruction set that runs it, ascending."""

    def for_rows(self, row_count: int) -> Instructions:
        """Returns the instruction set that a step of `row_count` tokens runs on."""
        for most, instructions in self.by_rows:
            if row_count <= most:
                return instructions
        return self.by_rows[-1][1]


def choose_kernels(
    context: KernelContext, weights: Sequence[PackedWeight], *, exact: bool, clock: Clock = time.perf_counter
) -> KernelChoice:
    """Chooses instruction sets for a model. `weights` are the matrices of one of its layers; `exact` says how they are
    multiplied. Takes up to a second for each billion of parameters, and no time where there is no choice."""
    vectors = contenders()
    if len(vectors) == 1:
        return KernelChoice(((1, vectors[0]),))
    return KernelChoice(
        tuple((rows, _fastest(context, weights, rows, vectors, exact=exact, clock=clock)) for rows in ROW_COUNTS)
    )


def contenders() -> list[Instructions]:
    """Returns the instruction sets to choose from, fastest first by their kind: portable code only where there is no
    other."""
    right = [each.instructions for each in candidates() if not each.reason]
    return [each for each in right if each > Instructions.PORTABLE] or right


def _fastest(
    context: KernelContext,
    weights: Sequence[PackedWeight],
    rows: int,
    vectors: Sequence[Instructions],
    *,
    exact: bool,
    clock: Clock,
) -> Instructions:
    """Returns the set with the least time of all products of a layer together."""
    times = time_products(context, weights, rows, vectors, exact=exact, clock=clock)
    return min(vectors, key=times.__getitem__)


def time_products(
    context: KernelContext,
    weights: Sequence[PackedWeight],
    rows: int,
    chosen: Sequence[Instructions],
    *,
    exact: bool = False,
    clock: Clock = time.perf_counter,
) -> dict[Instructions, float]:
    """Returns the time in seconds of the products of `rows` rows with all weights: the best of several runs, taken in
    turn. Weights follow each other as in a step, so that few rows wait for memory as they do there."""
    inputs = [np.ones((rows, weight.in_size), np.float32) for weight in weights]
    best = dict.fromkeys(chosen, float("inf"))
    for _ in range(REPEATS):
        for instructions in chosen:
            started = clock()
            for weight, numbers in zip(weights, inputs, strict=True):
                context.product(weight, numbers, exact=exact, instructions=instructions)
            best[instructions] = min(best[instructions], clock() - started)
    return best
