"""Kernels read and write nothing beside their tensors, and no two programs write the same place. Planted mistakes show
that these tests see them."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tests.libs.engine.triton.guards import GUARD, guard, plant
from tests.libs.engine.triton.interpreter import run_backwards
from tests.libs.engine.triton.random_weights import make_inputs, make_weight
from torch import Tensor

from headrace.engine.triton.products import dequantization, quantized_matmul, tile_sums
from headrace.engine.triton.products.packed_codes import PackedCodes
from headrace.engine.triton.products.tile_choice import USUAL

SIZES = (70, 200, 32)
"""Outputs, inputs and group size: the last blocks of both have padding."""


def multiply_by(module: ModuleType) -> Callable[[PackedCodes, Tensor], Tensor]:
    return lambda weight, inputs: module.multiply_tiles(weight, inputs, 2, USUAL.narrow)


def check_bounds(module: ModuleType, patch: pytest.MonkeyPatch) -> None:
    """Raises AssertionError if a product reads or writes beside its tensors."""
    random = make_weight(*SIZES[:2], 4, SIZES[2])
    made, inputs = random.packed, make_inputs(3, SIZES[1])
    weight = PackedCodes(guard(made.words), guard(made.scales), guard(made.zeros), 4, SIZES[2], SIZES[1])
    around = torch.full((2 * 3 * 70 + 2 * GUARD,), -7.0)
    partials = around[GUARD:-GUARD].view(2, 3, 70)
    with patch.context() as patched:
        patched.setattr(module.torch, "empty", lambda *_, **__: partials)
        found = multiply_by(module)(weight, guard(inputs))
    assert (around[:GUARD] == -7).all()
    assert (around[-GUARD:] == -7).all()
    assert torch.allclose(found.sum(0).double(), inputs.double() @ random.exact.T, rtol=1e-5, atol=1e-4)


def check_order(module: ModuleType, patch: pytest.MonkeyPatch) -> None:
    """Raises AssertionError if the order of programs changes a result."""
    weight, inputs = make_weight(*SIZES[:2], 4, SIZES[2]).packed, make_inputs(3, SIZES[1])
    with patch.context() as patched:
        # What no program writes stays 0 in both.
        patched.setattr(module.torch, "empty", torch.zeros)
        forwards = multiply_by(module)(weight, inputs)
        run_backwards(patched)
        assert torch.equal(multiply_by(module)(weight, inputs), forwards)


def test_nothing_beside_the_tensors_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    check_bounds(quantized_matmul, monkeypatch)


def test_programs_do_not_race(monkeypatch: pytest.MonkeyPatch) -> None:
    check_order(quantized_matmul, monkeypatch)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("is_column = columns < out_size", "is_column = columns <= out_size"),
        ("rows < row_count", "rows <= row_count"),
    ],
    ids=["an output too many", "a row too many"],
)
def test_a_planted_off_by_one_is_seen(right: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = plant(quantized_matmul, tmp_path, right, wrong)
    with pytest.raises(AssertionError):
        check_bounds(planted, monkeypatch)


def test_a_planted_input_too_few_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = plant(tile_sums, tmp_path, "lanes < in_size", "lanes < in_size - 1")
    monkeypatch.setattr(quantized_matmul, "sum_tile", planted.sum_tile)
    with pytest.raises(AssertionError):
        check_bounds(quantized_matmul, monkeypatch)


def test_a_planted_race_of_two_programs_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = plant(quantized_matmul, tmp_path, "place = (split.to(tl.int64) * row_count", "place = (0 * row_count")
    with pytest.raises(AssertionError):
        check_order(planted, monkeypatch)


@pytest.mark.parametrize(("right", "wrong"), [("", ""), ("columns < out_size", "columns <= out_size")])
def test_a_dequantized_weight_is_written_where_it_belongs(
    right: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a mistake planted, the test fails."""
    random = make_weight(70, 100, 4, 32)
    made = random.packed
    weight = PackedCodes(guard(made.words), guard(made.scales), guard(made.zeros), 4, 32, 100)
    around = torch.full((70 * 100 + 2 * GUARD,), -7.0)
    numbers = around[GUARD:-GUARD].view(100, 70)
    module = plant(dequantization, tmp_path, right, wrong)
    monkeypatch.setattr(module.torch, "empty", lambda *_, **__: numbers)
    found = module.dequantize(weight, torch.float32)
    untouched = bool((around[:GUARD] == -7).all() and (around[-GUARD:] == -7).all())
    assert (untouched and torch.allclose(found.double(), random.exact.T, rtol=1e-6)) is not bool(wrong)
