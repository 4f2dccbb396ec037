"""Blocks of the GPU kernels' cache are read and written as bytes, in every number format."""

from typing import Any

import pytest
import torch

from headrace.engine.gpu.attention import paged_states
from headrace.engine.gpu.attention.paged_states import PagedStates
from headrace.engine.kernels.kv_arena import KvShape
from headrace.engine.kernels.storage import Storage

STORAGES = [Storage.F32, Storage.BF16, Storage.F16, Storage.S8, Storage.FP8]
LAYERS, HEADS, HEAD, BLOCK = 3, 2, 24, 16


def filled(storage: Storage, seed: int) -> PagedStates:
    """A cache of five blocks with random content."""
    states = PagedStates(KvShape(LAYERS, HEADS, HEAD, BLOCK, storage), 5, torch.device("cpu"))
    draw = torch.Generator().manual_seed(seed)
    for layer in states.layers:
        layer.states.copy_(torch.randn(layer.states.shape, generator=draw) * 20)
        if layer.scales is not None:
            layer.scales.copy_(torch.rand(layer.scales.shape, generator=draw))
    return states


@pytest.mark.parametrize("storage", STORAGES)
def test_what_is_read_is_what_is_written(storage: Storage) -> None:
    source, target = filled(storage, 0), filled(storage, 1)
    untouched = target.read([0, 2, 4])
    contents = source.read([4, 0])
    assert {len(content) for content in contents} == {source.block_bytes}
    assert source.block_bytes * 5 == source.byte_count
    target.write([1, 3], contents)
    assert target.read([1, 3]) == contents
    assert target.read([0, 2, 4]) == untouched
    for ours, theirs in zip(target.layers, source.layers, strict=True):
        assert torch.equal(ours.states[:, :, 1].float(), theirs.states[:, :, 4].float())
        if ours.scales is not None and theirs.scales is not None:
            assert torch.equal(ours.scales[:, :, 3], theirs.scales[:, :, 0])


def test_another_format_has_another_layout() -> None:
    assert len({filled(storage, 0).layout for storage in STORAGES}) == len(STORAGES)


@pytest.mark.parametrize("count", [1, 4])
def test_blocks_travel_in_one_copy(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many blocks and layers: a copy for each of them would hold all decodes up for half a second."""
    copies: list[str] = []
    for name in ("from_device", "to_device"):
        copy = getattr(paged_states, name)

        def counted(*operands: Any, name: str = name, copy: Any = copy) -> Any:
            copies.append(name)
            return copy(*operands)

        monkeypatch.setattr(paged_states, name, counted)
    states = filled(Storage.BF16, 0)
    contents = states.read(range(count))
    assert copies == ["to_device", "from_device"]
    copies.clear()
    states.write(range(count), contents)
    assert copies == ["to_device", "to_device"]
