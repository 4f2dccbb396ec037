"""numpy reads from safetensors files what torch reads, and refuses what is broken."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from headrace.engine.checkpoints.safetensors_arrays import SafetensorsArrays
from headrace.engine.checkpoints.safetensors_weights import Weights
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
