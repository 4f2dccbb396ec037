"""Numbers rounded to 16 bits: those that torch's rounding gives, and an error where a number does not fit."""

import numpy as np
import pytest
import torch

from headrace.engine.checkpoints.weights import number_rounding
from headrace.engine.checkpoints.weights.number_rounding import round_numbers
from headrace.engine.checkpoints.weights.stored_arrays import StoredArrays
from headrace.engine.kernels.storage import Storage

DTYPES = {Storage.BF16: torch.bfloat16, Storage.F16: torch.float16}
LOWER_HALVES = (0x0000, 0x0001, 0x0FFF, 0x1000, 0x1001, 0x2000, 0x3000, 0x7FFF, 0x8000, 0x8001, 0xFFFF)
both = pytest.mark.parametrize("storage", DTYPES)


def all_upper_halves() -> torch.Tensor:
    """Numbers with every sign, exponent and first bits of the fraction, on and beside the ties of both types."""
    upper = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    return torch.from_numpy((upper[:, None] | np.array(LOWER_HALVES, np.uint32)).view(np.float32).reshape(-1))


@both
def test_rounding_is_torchs(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = all_upper_halves()
    expected = numbers.to(DTYPES[storage])
    fits = expected.isfinite() | numbers.isinf()
    found = round_numbers(numbers[fits].numpy(), storage)
    assert np.array_equal(found.view(np.int16), expected[fits].view(torch.int16).numpy())
    monkeypatch.setattr(number_rounding, "PIECE", 1000)
    assert np.array_equal(round_numbers(numbers[fits].numpy(), storage).view(np.int16), found.view(np.int16))


@both
def test_what_is_no_number_stays_none(storage: Storage) -> None:
    numbers = all_upper_halves()
    found = StoredArrays((round_numbers(numbers[numbers.isnan()].numpy(), storage)[None],), storage)
    assert np.isnan(found.values()).all()


@pytest.mark.parametrize(
    ("storage", "most", "name"),
    [(Storage.BF16, 0x7F7F7FFF, "bfloat16"), (Storage.F16, 0x477FEFFF, "float16")],
)
def test_a_number_beyond_the_range_is_refused(storage: Storage, most: int, name: str) -> None:
    for sign in (0, 0x80000000):
        bits = np.array([[most | sign, most + 1 | sign]], np.uint32)
        largest, beyond = bits.view(np.float32)[:, :1], bits.view(np.float32)
        assert np.isfinite(StoredArrays((largest,), Storage.F32).rounded_to(storage).values()).all()
        with pytest.raises(OverflowError, match=f"e\\+.* is beyond the range of {name}|65520 is beyond the range"):
            StoredArrays((beyond,), Storage.F32).rounded_to(storage)


def test_each_type_of_16_bits_is_rounded_to_the_other() -> None:
    numbers = torch.randn(40, 24, generator=torch.Generator().manual_seed(1))
    halves = StoredArrays((numbers.half().numpy(),), Storage.F16)
    assert halves.rounded_to(Storage.F16) is halves
    brain = halves.rounded_to(Storage.BF16)
    assert np.array_equal(brain.values(), numbers.half().bfloat16().float().numpy())
    assert np.array_equal(brain.rounded_to(Storage.F16).values(), numbers.half().bfloat16().float().numpy())
