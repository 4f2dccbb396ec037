"""A mixture in two launches is the sum of its experts one by one, weighted, and a row is computed like any other."""

import pytest
import torch
from tests.libs.engine.triton.device import FP32_ERROR
from tests.libs.engine.triton.random_weights import RandomWeight, make_inputs, make_weight
from torch import Tensor

from headrace.engine.triton.products.expert_codes import ExpertCodes
from headrace.engine.triton.products.expert_rows import sort_by_expert
from headrace.engine.triton.products.grouped_matmul import gate_grouped, multiply_grouped
from headrace.engine.triton.products.tile_choice import USUAL, Tile

EXPERTS, CHOSEN, HIDDEN, INNER = 5, 2, 96, 40
SMALL = 64
"""Divisor of inputs, which keeps gates where their exponentials are finite."""
ERRORS = {torch.float32: 20 * FP32_ERROR, torch.bfloat16: 3e-2}
KINDS = {
    "int4": {"bits": 4},
    "int8": {"bits": 8, "symmetric": True},
    "offsets": {"bits": 4, "has_offsets": True},
    "fp8": {"bits": 8, "is_float": True},
}


def make_experts(out_size: int, in_size: int, kind: str) -> tuple[list[RandomWeight], ExpertCodes]:
    settings = dict(KINDS[kind])
    bits = settings.pop("bits")
    made = [make_weight(out_size, in_size, bits, 16, seed=seed, **settings) for seed in range(EXPERTS)]  # type: ignore[arg-type]
    packed = ExpertCodes.of([each.packed for each in made])
    assert packed is not None
    return made, packed


def run(inputs: Tensor, chosen: Tensor, shares: Tensor, packed: tuple[ExpertCodes, ExpertCodes], tile: Tile) -> Tensor:
    rows = sort_by_expert(chosen, EXPERTS, tile.row_count)
    gated = gate_grouped(packed[0], inputs, rows, "silu", tile)
    return multiply_grouped(packed[1], gated, rows, shares, tile).sum(0)


def one_by_one(inputs: Tensor, chosen: Tensor, shares: Tensor, made: list[list[RandomWeight]]) -> Tensor:
    outputs = torch.zeros(len(inputs), HIDDEN, dtype=torch.float64)
    for row, each in enumerate(inputs.double()):
        for expert, share in zip(chosen[row].tolist(), shares[row].tolist(), strict=True):
            gates, factors = (made[0][expert].exact @ each).chunk(2)
            outputs[row] += share * (made[1][expert].exact @ (torch.nn.functional.silu(gates) * factors))
    return outputs


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tile", [USUAL.narrow, USUAL.middle], ids=["narrow", "middle"])
def test_it_is_the_weighted_sum_of_the_experts(kind: str, tile: Tile) -> None:
    up, down = make_experts(2 * INNER, HIDDEN, kind), make_experts(HIDDEN, INNER, kind)
    for dtype, error in ERRORS.items():
        for row_count in (1, 19):
            inputs = make_inputs(row_count, HIDDEN, dtype) / SMALL
            shares, chosen = make_inputs(row_count, EXPERTS).softmax(1).topk(CHOSEN)
            expected = one_by_one(inputs, chosen, shares, [up[0], down[0]])
            found = run(inputs, chosen, shares, (up[1], down[1]), tile)
            assert (found.double() - expected).abs().max() <= error * expected.abs().max()


def test_a_row_has_the_same_bits_beside_any_others() -> None:
    packed = tuple(make_experts(*sizes, "int4")[1] for sizes in ((2 * INNER, HIDDEN), (HIDDEN, INNER)))
    inputs = make_inputs(33, HIDDEN, torch.bfloat16)
    shares, chosen = make_inputs(33, EXPERTS).softmax(1).topk(CHOSEN)
    whole = run(inputs, chosen, shares, packed, USUAL.narrow)  # type: ignore[arg-type]
    for row in (0, 17, 32):
        part = slice(row, row + 1)
        alone = run(inputs[part], chosen[part], shares[part], packed, USUAL.narrow)  # type: ignore[arg-type]
        assert torch.equal(alone[0], whole[row])


def test_experts_that_are_not_alike_are_not_grouped() -> None:
    four, eight = (make_weight(32, 64, bits, 32).packed for bits in (4, 8))
    assert ExpertCodes.of([four, eight]) is None
    assert ExpertCodes.of([make_weight(32, 64, 4, 32, has_order=True).packed] * 2) is None
    assert ExpertCodes.of([four, four]) is not None
