"""Runs the kernels on small random inputs, so that the results of two instruction sets can be compared: each kernel and
storage, with some of the row counts that have code of their own."""

import functools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.engine.kernels.choice.trials.trial_encoder import TrialEncoder
from headrace.engine.kernels.choice.trials.trial_model import TrialModel
from headrace.engine.kernels.choice.trials.trial_states import TrialStates
from headrace.engine.kernels.choice.trials.trial_weights import BLOCK_STORAGES, block_weight, name_of, trial_weights
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.expert_kinds import ScoreKind, SharedKind
from headrace.engine.kernels.library import Function, Instructions
from headrace.engine.kernels.packed_weight import GROUPS, PackedWeight, pack_rounded
from headrace.engine.kernels.storage import Storage
from headrace.engine.kernels.structures import Draw, Norm, Routing
from headrace.engine.memory.aligned import address

OUT, IN = 72, 256
ROW_COUNTS = (1, 2, 3, 9, 18)
"""Row counts of products: one and two rows have kernels of their own, 8 or more may run on tiles of 16, and every one
but the first leaves a tail."""
MANY_ROWS = 131
"""Rows of one product: more than any kernel keeps in a cache."""
THOROUGH_ROW_COUNTS = (*range(1, 17), 18, MANY_ROWS)
"""Row counts of products with inputs in panels: each number of rows from 4 to 16 has a kernel of its own."""
BLOCK_ROW_COUNTS = (1, 2, 5)
"""Row counts of products with GGUF's blocks: tiles of one, two and four rows, and one row beside four."""
ROWS, SIZE = 9, 40
KV_STORAGES = (Storage.F32, Storage.BF16, Storage.S8, Storage.FP8)

Result = NDArray[np.generic]


def run_trials(context: KernelContext) -> Iterator[tuple[str, Result]]:
    """Yields the name of each trial and its result. All instruction sets give the same bits."""
    yield from _products(context)
    yield from _block_products(context)
    yield from _rounding(context)
    yield from _rows(context)
    yield from _samples(context)
    for storage in KV_STORAGES:
        for index, logits in enumerate(_model().run(context, storage)):
            yield f"step {index} with {storage.name} keys and values", logits
    yield "step without a head", _model().run_headless(context)
    for index, logits in enumerate(_model().run_widest(context)):
        yield f"step {index} with experts, caps and an adapter", logits
    yield "step that sees all tokens with F16 keys and values", _model().run_bidirectional(context)
    yield "recurrence of the delta rule", _states().recur(context, corrects=True)
    yield "recurrence of a state space", _states().recur(context, corrects=False)
    yield "convolution", _states().convolve(context)
    yield "batch of an encoder", _encoder().run(context)
    yield "batch of an encoder that rotates heads", _encoder().run_rotating(context)


def _products(context: KernelContext) -> Iterator[tuple[str, Result]]:
    for weight in _weights():
        # Groups of other sizes take the same way.
        is_thorough = weight.group == max(GROUPS) and weight.is_coded
        yield from _counted(context, weight, THOROUGH_ROW_COUNTS if is_thorough else ROW_COUNTS)
        if is_thorough:
            yield from _counted(context, weight, ROW_COUNTS, exact=True)


def _block_products(context: KernelContext) -> Iterator[tuple[str, Result]]:
    for weight in _block_weights():
        yield from _counted(context, weight, BLOCK_ROW_COUNTS)
        yield from _counted(context, weight, BLOCK_ROW_COUNTS[:1], exact=True)


def _counted(
    context: KernelContext, weight: PackedWeight, counts: Sequence[int], *, exact: bool = False
) -> Iterator[tuple[str, Result]]:
    """Yields the product of each of `counts` rows."""
    inputs, residual = _numbers(MANY_ROWS, IN), _numbers(MANY_ROWS, OUT)
    # Portable code computes a row by itself, so that one product has the rows of all.
    all_at_once = context.instructions is Instructions.PORTABLE
    most = max(counts)
    widest = context.product(weight, inputs[:most], residual=residual[:most], exact=exact)
    for count in counts:
        is_there = all_at_once or count == most
        found = widest if is_there else context.product(weight, inputs[:count], residual=residual[:count], exact=exact)
        yield f"{'exact ' if exact else ''}product of {count} rows with {name_of(weight)}", found[:count]


def _rounding(context: KernelContext) -> Iterator[tuple[str, Result]]:
    numbers, rows = _numbers(ROWS, IN), np.arange(ROWS)
    packed = pack_rounded((numbers,), Storage.F32, Storage.U4, min(GROUPS), rows, context.instructions)
    yield "rounding to U4", packed.panels


def _rows(context: KernelContext) -> Iterator[tuple[str, Result]]:
    inputs, weight, bias = _numbers(ROWS, SIZE), _numbers(SIZE), _numbers(SIZE, 1)
    for name, shift in (("RMS", None), ("layer", address(bias))):
        found = np.empty_like(inputs)
        context.normalize(Norm(address(weight), shift, SIZE, 1e-5), address(inputs), address(found), ROWS)
        yield f"{name} norm", found
    for function in Function:
        found = np.empty_like(inputs)
        context.activate(function, address(inputs), address(found), (ROWS, SIZE), cap=1.5)
        yield f"activation {function.name}", found
        if function is Function.SOFT_CAP:
            continue
        found = np.empty((ROWS, SIZE // 2), np.float32)
        context.gate(function, address(inputs), address(found), (ROWS, SIZE // 2))
        yield f"gate {function.name}", found
    for routing in _routings(address(weight)):
        places = (ROWS, routing.chosen_count + (routing.shared > 0))
        shares, experts = np.empty(places, np.float32), np.empty(places, np.int64)
        context.route(routing, address(inputs), address(shares), address(experts), ROWS)
        yield "routing", shares
        yield "routing", experts


def _routings(bias: int) -> Iterator[Routing]:
    """Yields routings that have everything in which families differ. `bias`: address of fp32 numbers [SIZE]."""
    yield Routing(SIZE, 3)
    yield Routing(SIZE, 3, normalizes=True)
    yield Routing(SIZE - 1, 3, scale=2.5, shared=SharedKind.GATED)
    grouped = {"group_count": 4, "chosen_group_count": 2, "bias": bias}
    yield Routing(SIZE, 4, **grouped, score=ScoreKind.SIGMOID, normalizes=True, shared=SharedKind.PLAIN)


def _samples(context: KernelContext) -> Iterator[tuple[str, Result]]:
    logits = _numbers(ROWS, SIZE)
    token_ids, values = context.likeliest(logits)
    yield "choice of the likeliest token", np.array(token_ids)
    yield "choice of the likeliest token", np.array(values)
    limits = [(0, 1.0, 0.0), (5, 1.0, 0.0), (0, 0.8, 0.0), (0, 1.0, 0.1), (7, 0.7, 0.05)]
    draws = [
        Draw(address(row), (index + 0.5) / ROWS, top_k, -1, 0.8, top_p, min_p)
        for index, row in enumerate(logits)
        for top_k, top_p, min_p in limits
    ]
    yield "draw of tokens", np.array(context.draw(draws, SIZE))
    ranked, normalizers = context.rank(logits, 6)
    yield "ranking of tokens", ranked
    yield "ranking of tokens", normalizers


@functools.cache
def _numbers(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(len(shape)).standard_normal(shape, np.float32)


@functools.cache
def _weights() -> list[PackedWeight]:
    return [weight.packed for weight in trial_weights(np.random.default_rng(1), OUT, IN)]


@functools.cache
def _block_weights() -> list[PackedWeight]:
    generator = np.random.default_rng(3)
    return [block_weight(generator, (OUT, IN), storage) for storage in BLOCK_STORAGES]


@functools.cache
def _states() -> TrialStates:
    return TrialStates(np.random.default_rng(5))


@functools.cache
def _encoder() -> TrialEncoder:
    return TrialEncoder(np.random.default_rng(4))


@functools.cache
def _model() -> TrialModel:
    return TrialModel(np.random.default_rng(2))
