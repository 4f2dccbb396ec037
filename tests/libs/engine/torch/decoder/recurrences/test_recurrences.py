"""Recurrences on the CPU kernels are those of torch, within rounding, from the same steps and into the same slots."""

from array import array
from collections.abc import Callable

import pytest
import torch
from tests.libs.engine.needed_kernels import needs_kernels
from torch import Tensor

from headrace.engine.kernels.context import KernelContext
from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.torch.decoder.recurrences.delta_rule import DeltaInputs
from headrace.engine.torch.decoder.recurrences.kernel_recurrences import MAX_TAPS, KernelRecurrences
from headrace.engine.torch.decoder.recurrences.recurrences import Recurrences
from headrace.engine.torch.decoder.recurrences.space_scan import SpaceInputs
from headrace.engine.torch.decoder.recurrences.torch_recurrences import TorchRecurrences
from headrace.engine.torch.decoder.states.state_arena import StateLayer
from headrace.engine.torch.decoder.states.state_step import StateStep

pytestmark = needs_kernels

SLOTS, SPARE, TAPS, CHANNELS = 9, 8, 4, 300
COUNTS = (37, 1, 260, 2)
ROWS = sum(COUNTS)
MOVES = ((-1, 0, 16, 4, 37, 5), (1, 1, 0, SPARE, 0, SPARE), (2, 2, 256, 6, 0, SPARE), (7, 3, 0, SPARE, 0, SPARE))
"""For each span the slot that it reads and the one that it writes, and two tokens behind which it copies the state."""
TOLERANCE = 1e-5
Run = Callable[[Recurrences, StateLayer, StateStep], Tensor]


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def shares(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def step(moves: tuple[tuple[int, ...], ...] = MOVES, taps: int = TAPS) -> StateStep:
    ends = [sum(COUNTS[: index + 1]) for index in range(len(COUNTS))]
    spans = [number for end, count in zip(ends, COUNTS, strict=True) for number in (end - count, count, 0, 0)]
    flat = array("q", [number for move in moves for number in move])
    arrays = StepArrays(array("q", [0] * ROWS), array("q"), array("q", spans), array("q"), moves=flat)
    return StateStep.of(arrays, SPARE, taps, torch.device("cpu"))


def layer(heads: int, keys: int, values: int) -> StateLayer:
    return StateLayer(numbers(SLOTS, TAPS - 1, CHANNELS, seed=1), numbers(SLOTS, heads, keys, values, seed=2))


def delta(recurrences: Recurrences, states: StateLayer, at: StateStep) -> Tensor:
    keys = torch.nn.functional.normalize(numbers(ROWS, 2, 128, seed=4), dim=-1)
    kept = 1 - shares(ROWS, 4, seed=6) / 8
    inputs = DeltaInputs(numbers(ROWS, 2, 128, seed=3), keys, numbers(ROWS, 4, 64, seed=5), kept, shares(ROWS, 4))
    return recurrences.run_delta_rule(inputs, states, at)


def space(recurrences: Recurrences, states: StateLayer, at: StateStep) -> Tensor:
    queries, keys = numbers(ROWS, 2, 128, seed=3), numbers(ROWS, 2, 128, seed=4)
    kept = 1 - shares(ROWS, 4, seed=6) / 8
    return recurrences.scan_space(
        SpaceInputs(queries, keys, numbers(ROWS, 4, 64, seed=5), shares(ROWS, 4), kept), states, at
    )


@pytest.mark.parametrize("run", [delta, space])
def test_outputs_and_states_are_torchs(run: Run) -> None:
    ours, theirs = layer(4, 128, 64), layer(4, 128, 64)
    found = run(KernelRecurrences(KernelContext(2)), ours, step())
    expected = run(TorchRecurrences(), theirs, step())
    assert (found - expected).abs().max() <= TOLERANCE * expected.abs().max()
    written = [slot for slot in range(SLOTS) if slot not in (7, SPARE)]
    moved = theirs.memories[written]
    assert (ours.memories[written] - moved).abs().max() <= TOLERANCE * moved.abs().max()
    assert torch.equal(ours.memories[7:], layer(4, 128, 64).memories[7:])


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("width", [CHANNELS, CHANNELS + 50])
@pytest.mark.parametrize("tap_count", [2, TAPS, MAX_TAPS, MAX_TAPS + 1])
def test_convolutions_have_the_bits_of_torch(tap_count: int, width: int, has_bias: bool) -> None:
    inputs, taps = numbers(ROWS, width, seed=3)[:, :CHANNELS], numbers(tap_count, CHANNELS, seed=4)
    bias = numbers(CHANNELS, seed=5) if has_bias else None
    ours, theirs = (StateLayer(numbers(SLOTS, tap_count - 1, CHANNELS), numbers(1)) for _ in range(2))
    found = KernelRecurrences(KernelContext(2)).convolve(inputs, taps, bias, ours, step(taps=tap_count))
    assert torch.equal(found, TorchRecurrences().convolve(inputs, taps, bias, theirs, step(taps=tap_count)))
    assert torch.equal(ours.tails, theirs.tails)


@pytest.mark.parametrize("run", [delta, space])
def test_a_step_without_states_leaves_the_slots_as_they_are(run: Run) -> None:
    ours = layer(4, 128, 64)
    found = run(KernelRecurrences(KernelContext(2)), ours, step(()))
    assert torch.isfinite(found).all()
    assert torch.equal(ours.memories, layer(4, 128, 64).memories)
