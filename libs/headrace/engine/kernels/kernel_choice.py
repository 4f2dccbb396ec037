"""Choice of the fastest of the right kernels for a model, measured on its own weights.

All instruction sets give the same bits, so the choice is free: a processor may have a set and yet be slower with it,
because it lowers its clock or halves its width, and that may depend on how many rows there are.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Instructions
from headrace.engine.kernels.packed_weight import PackedWeight
from headrace.engine.kernels.self_test import candidates

ROW_COUNTS = (1, 4, 16, 64)
"""Numbers of rows that are measured. A step takes what is best for the nearest of these that is not smaller, or for the
largest."""
REPEATS = 3

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class KernelChoice:
    """Instruction sets by the number of rows in a step."""

    by_rows: tuple[tuple[int, Instructions], ...]
    """Pairs of the most rows and the set that runs them, ascending."""

    def for_rows(self, row_count: int) -> Instructions:
        """Returns the instruction set that a step of `row_count` tokens runs on."""
        for most, instructions in self.by_rows:
            if row_count <= most:
                return instructions
        return self.by_rows[-1][1]


def choose_kernels(
    context: KernelContext, weight: PackedWeight, *, exact: bool, clock: Clock = time.perf_counter
) -> KernelChoice:
    """Chooses instruction sets for a model. `weight` is its largest matrix but its head, `exact` how it is multiplied.
    Takes some 50 ms where there is a choice, else nothing."""
    right = [each.instructions for each in candidates() if not each.reason]
    vectors = [each for each in right if each > Instructions.PORTABLE] or right
    if len(vectors) == 1:
        return KernelChoice(((1, vectors[0]),))
    times = {rows: time_products(context, weight, rows, vectors, exact=exact, clock=clock) for rows in ROW_COUNTS}
    return KernelChoice(tuple((rows, min(vectors, key=found.__getitem__)) for rows, found in times.items()))


def time_products(
    context: KernelContext,
    weight: PackedWeight,
    rows: int,
    contenders: Sequence[Instructions],
    *,
    exact: bool = False,
    clock: Clock = time.perf_counter,
) -> dict[Instructions, float]:
    """Seconds of one product with `rows` rows, the best of several in turn."""
    inputs = np.ones((rows, weight.in_size), np.float32)
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(REPEATS):
        for instructions in contenders:
            started = clock()
            context.product(weight, inputs, exact=exact, instructions=instructions)
            best[instructions] = min(best[instructions], clock() - started)
    return best
