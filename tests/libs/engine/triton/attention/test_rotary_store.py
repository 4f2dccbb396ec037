"""Queries, keys and values on their way into the cache: normalized, turned, rounded, and where they belong."""

import pytest
import torch
from tests.libs.engine.triton.attention.random_pages import BLOCK_SIZE, MAX_CODES
from tests.libs.engine.triton.device import FP32_ERROR
from torch import Tensor
from torch.nn import functional

from headrace.engine.triton.attention.kv_pages import KvPages
from headrace.engine.triton.attention.rotary_store import RotaryHeads, rotate_and_store

# The interpreter cuts fp32 to bf16 instead of rounding it.
ERRORS = {
    torch.float32: FP32_ERROR,
    torch.float16: 1e-3,
    torch.bfloat16: 1.6e-2,
    torch.int8: 0.51,
    torch.float8_e4m3fn: 16.1,
}
"""Largest error of an element that is at most 1, and of codes before they are multiplied by their scale."""
SLOTS = torch.tensor([37, 0, 63, 5, 20], dtype=torch.int32)
POSITIONS = torch.tensor([0, 1, 8, 3, 3], dtype=torch.int32)
HEADS, KV_HEADS = 3, 2
THOROUGH = [pytest.param(*sizes, marks=pytest.mark.thorough) for sizes in ((24, 24), (2, 2))]


def make_heads(head_size: int, rotary_size: int, *, has_norms: bool, norms_rotated: bool = False) -> RotaryHeads:
    generator = torch.Generator().manual_seed(head_size)
    angles = torch.rand(9, rotary_size // 2, generator=generator) * 6
    norms = torch.rand(2, head_size, generator=generator) + 0.5 if has_norms else None
    return RotaryHeads(HEADS, angles.cos(), angles.sin(), norms, 1e-5, norms_rotated)


def make_pages(head_size: int, kind: torch.dtype) -> KvPages:
    """Pages of no numbers, which a store has to replace."""
    slots = (2, KV_HEADS, 4, BLOCK_SIZE)
    scales = torch.full(slots, torch.nan) if kind in MAX_CODES else None
    states = torch.full((*slots, head_size), 93 if kind == torch.int8 else torch.nan)
    return KvPages(states.to(kind), scales)


def make_projected(head_size: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(7)
    return torch.randn(len(SLOTS), (HEADS + 2 * KV_HEADS) * head_size, generator=generator).to(dtype)


def oracle(projected: Tensor, heads: RotaryHeads) -> Tensor:
    """Turned heads in fp64 [tokens, heads, head]."""
    turned = projected.double().view(len(projected), HEADS + 2 * KV_HEADS, -1).clone()
    if not heads.norms_rotated:
        normalize(turned, heads)
    half, turning = heads.cosines.shape[1], slice(0, HEADS + KV_HEADS)
    cosine, sine = (table[POSITIONS.long()].double()[:, None] for table in (heads.cosines, heads.sines))
    first, second = turned[:, turning, :half].clone(), turned[:, turning, half : 2 * half].clone()
    turned[:, turning, :half] = first * cosine - second * sine
    turned[:, turning, half : 2 * half] = second * cosine + first * sine
    if heads.norms_rotated:
        normalize(turned, heads)
    return turned


def normalize(turned: Tensor, heads: RotaryHeads) -> None:
    """Normalizes queries and keys in place, if the layer does so."""
    for index, part in enumerate((slice(0, HEADS), slice(HEADS, HEADS + KV_HEADS))):
        if heads.norms is not None:
            weight = heads.norms[index].double()
            turned[:, part] = functional.rms_norm(turned[:, part], weight.shape, weight, heads.epsilon)


@pytest.mark.parametrize(
    ("has_norms", "norms_rotated"), [(False, False), (True, False), (True, True)], ids=["plain", "before", "after"]
)
@pytest.mark.parametrize(("head_size", "rotary_size"), [(16, 16), (33, 20), *THOROUGH])
@pytest.mark.parametrize("kind", ERRORS)
def test_heads_are_turned_and_stored(
    kind: torch.dtype, head_size: int, rotary_size: int, has_norms: bool, norms_rotated: bool
) -> None:
    dtype = kind if kind.itemsize > 1 else torch.float32
    heads = make_heads(head_size, rotary_size, has_norms=has_norms, norms_rotated=norms_rotated)
    pages, projected = make_pages(head_size, kind), make_projected(head_size, dtype)
    untouched = pages.states.clone()
    queries = rotate_and_store(projected, heads, pages, POSITIONS, SLOTS)
    expected = oracle(projected, heads)
    error = ERRORS[dtype] * expected.abs().max()
    assert queries.dtype == dtype
    assert (queries.double() - expected[:, :HEADS]).abs().max() <= error
    stored = pages.states.view(2 * KV_HEADS, -1, head_size)
    kept = expected[:, HEADS:].transpose(0, 1)
    found = stored[:, SLOTS.long()].double()
    if pages.scales is not None:
        scales = pages.scales.view(2 * KV_HEADS, -1)[:, SLOTS.long()].double()
        assert torch.allclose(scales, kept.abs().amax(dim=-1) / MAX_CODES[kind], rtol=1e-5)
        kept, error = kept / scales[..., None], torch.tensor(ERRORS[kind])
    assert (found - kept).abs().max() <= error
    others = [slot for slot in range(stored.shape[1]) if slot not in SLOTS.tolist()]
    before = untouched.view(2 * KV_HEADS, -1, head_size)
    assert torch.equal(stored[:, others].view(torch.uint8), before[:, others].view(torch.uint8))


@pytest.mark.parametrize("kind", [torch.float32, torch.int8])
def test_a_token_with_a_negative_slot_is_stored_nowhere(kind: torch.dtype) -> None:
    """A row of a captured step that no sequence has."""
    heads, projected = make_heads(16, 16, has_norms=False), make_projected(16, torch.float32)
    some, none = make_pages(16, kind), make_pages(16, kind)
    queries = rotate_and_store(projected[:2], heads, some, POSITIONS[:2], SLOTS[:2])
    slots = torch.cat([SLOTS[:2], torch.tensor([-1], dtype=torch.int32)])
    found = rotate_and_store(projected[:3], heads, none, POSITIONS[:3], slots)
    assert torch.equal(found[:2], queries)
    assert torch.equal(none.states.view(torch.uint8), some.states.view(torch.uint8))
    if some.scales is not None and none.scales is not None:
        assert torch.equal(none.scales.view(torch.int32), some.scales.view(torch.int32))


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("kind", [torch.int8, torch.float8_e4m3fn])
def test_codes_are_the_nearest_and_nothing_is_hidden(kind: torch.dtype) -> None:
    """Zeros stay zeros; what is not a number makes the scale none, for its head alone."""
    heads, pages = make_heads(16, 16, has_norms=False), make_pages(16, kind)
    projected = make_projected(16, torch.float32)
    projected[1] = 0
    values = projected.view(len(SLOTS), -1, 16)[:, HEADS + KV_HEADS :]
    rotate_and_store(projected, heads, pages, POSITIONS, SLOTS)
    assert pages.scales is not None
    slots = SLOTS.long()
    scales = pages.scales[1].flatten(1)[:, slots]
    found = pages.states[1].flatten(1, 2)[:, slots].float() * scales[..., None]
    scaled = values.transpose(0, 1) / scales[..., None]
    nearest = scaled.round() if kind == torch.int8 else scaled.to(kind).float()
    assert torch.equal(found, nearest * scales[..., None])
    assert (found[:, 1] == 0).all()
    assert (scales[:, 1] == 1).all()
    values[2, 1, 4] = torch.nan
    rotate_and_store(projected, heads, pages, POSITIONS, SLOTS)
    again = pages.scales[1].flatten(1)[:, slots]
    assert again[1, 2].isnan()
    assert torch.equal(again.isnan(), torch.tensor([[0, 0, 0, 0, 0], [0, 0, 1, 0, 0]]).bool())
