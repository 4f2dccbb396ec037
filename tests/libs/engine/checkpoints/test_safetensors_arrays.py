"""numpy reads from safetensors files what torch reads, and refuses what is broken."""

from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from headrace.engine.checkpoints.layout.stored_names import Piece
from headrace.engine.checkpoints.safetensors_arrays import SafetensorsArrays
from headrace.engine.checkpoints.safetensors_weights import Weights
from headrace.engine.checkpoints.weights.stored_arrays import StoredArrays
from headrace.errors import InvalidCheckpoint

SHAPE = (5, 3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_numbers_are_torchs(tmp_path: Path, dtype: torch.dtype) -> None:
    numbers = torch.randn(SHAPE, generator=torch.Generator().manual_seed(1)).to(dtype)
    # A tensor of odd size before it: what follows is aligned to nothing.
    save_file({"a": torch.ones(3, dtype=torch.int8), "m": numbers}, tmp_path / "model.safetensors")
    found = SafetensorsArrays(tmp_path).values("m", SHAPE)
    expected = Weights(tmp_path).read("m", SHAPE, torch.float32, torch.device("cpu"))
    assert torch.equal(torch.from_numpy(found.copy()), expected)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e8m0fnu])
def test_floats_of_eight_bits_are_their_bytes(tmp_path: Path, dtype: torch.dtype) -> None:
    """Readers of formats know what they mean. Alone they are no weight."""
    codes = torch.arange(15, dtype=torch.uint8).reshape(SHAPE)
    save_file({"m": codes.view(dtype)}, tmp_path / "model.safetensors")
    arrays = SafetensorsArrays(tmp_path)
    assert arrays.array("m").tolist() == Weights(tmp_path).array("m").tolist() == codes.tolist()
    with pytest.raises(InvalidCheckpoint, match="tensor m holds F8_"):
        arrays.values("m", SHAPE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("number", range(6))
def test_a_matrix_within_a_stack_is_read_alone(tmp_path: Path, dtype: torch.dtype, number: int) -> None:
    stack = torch.randn((3, 2 * 5, 3), generator=torch.Generator().manual_seed(1)).to(dtype)
    save_file({"a": torch.ones(3, dtype=torch.int8), "m.weight": stack}, tmp_path / "model.safetensors")
    expected, piece = stack.view(6, *SHAPE)[number], Piece("m", number, 2)
    found = Weights(tmp_path).piece(piece, SHAPE, dtype, torch.device("cpu"))
    assert torch.equal(found, expected)
    numbers, storage = SafetensorsArrays(tmp_path).piece(piece, SHAPE)
    assert torch.equal(torch.from_numpy(StoredArrays((numbers,), storage).values().copy()), expected.float())


@pytest.mark.parametrize(
    ("number", "count", "shape"), [(6, 2, SHAPE), (0, 1, SHAPE), (0, 2, (5, 4))], ids=["beyond", "parts", "inputs"]
)
def test_a_stack_of_other_matrices_is_named(tmp_path: Path, number: int, count: int, shape: tuple[int, int]) -> None:
    save_file({"m.weight": torch.ones((3, 2 * 5, 3))}, tmp_path / "model.safetensors")
    for read in (
        SafetensorsArrays(tmp_path).piece,
        partial(Weights(tmp_path).piece, dtype=torch.float32, device=torch.device("cpu")),
    ):
        with pytest.raises(InvalidCheckpoint, match=r"m\.weight has shape \(3, 10, 3\)"):
            read(Piece("m", number, count), shape)


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    save_file({"m": torch.ones(SHAPE), "i": torch.ones(SHAPE, dtype=torch.int32)}, tmp_path / "model.safetensors")
    arrays = SafetensorsArrays(tmp_path)
    with pytest.raises(InvalidCheckpoint, match=r"m has shape \(5, 3\)"):
        arrays.values("m", (3, 5))
    with pytest.raises(InvalidCheckpoint, match="i holds I32"):
        arrays.values("i", SHAPE)
    with pytest.raises(InvalidCheckpoint, match="tensor x is in none"):
        arrays.array("x")
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[:-4])
    with pytest.raises(InvalidCheckpoint, match="not a whole safetensors file"):
        SafetensorsArrays(tmp_path)
