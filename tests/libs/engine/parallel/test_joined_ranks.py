"""A rank joins by the library of its settings, bound to its device, and has exchanged with its neighbors before it is
ready. The library is a stand-in, so that ranks of GPUs can be shown without one."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from headrace.engine.parallel import collective
from headrace.engine.parallel.collective import Collective
from headrace.engine.parallel.shards.place import ShardPlace

CUDA = torch.device("cuda", 1)


class Library:
    """Stands in for torch.distributed: notes what is called, and on which device the tensors are."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.joined: dict[str, Any] = {}
        self.calls: list[tuple[str, str]] = []
        names = {"all_reduce": 0, "recv": 0, "isend": 0}
        noted = {name: self._noted(name, at) for name, at in names.items()}
        ends = {"init_process_group": self._join, "new_group": lambda ranks, timeout: ranks}
        patch.setattr(collective, "dist", SimpleNamespace(**noted, **ends))
        patch.setattr(collective, "GATHER", self._noted("gather", 1))

    def _join(self, backend: str, **options: Any) -> None:
        self.joined = {"backend": backend} | options

    def _noted(self, name: str, at: int) -> Any:
        return lambda *operands, **_: self.calls.append((name, operands[at].device.type))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    return Library(monkeypatch)


@pytest.mark.parametrize(("backend", "bound"), [("nccl", CUDA), ("gloo", None)])
def test_nccl_is_bound_to_the_current_device(
    library: Library, monkeypatch: pytest.MonkeyPatch, backend: Any, bound: torch.device | None
) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(Collective, "_warm_up", lambda _: None)
    Collective(ShardPlace(1, 2, 1), CUDA, None, backend)
    assert (library.joined["backend"], library.joined["device_id"]) == (backend, bound)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (ShardPlace(0, 2, 1), ["all_reduce"]),
        (ShardPlace(0, 4, 1), ["gather"]),
        (ShardPlace(0, 1, 3), ["recv"]),
        (ShardPlace(1, 1, 3), ["recv", "isend"]),
        (ShardPlace(2, 1, 3), ["isend"]),
        (ShardPlace(3, 2, 2), ["all_reduce", "isend"]),
    ],
)
def test_a_rank_has_exchanged_with_its_neighbors_once_it_has_joined(
    library: Library, place: ShardPlace, expected: list[str]
) -> None:
    Collective(place, torch.device("cpu"), None)
    assert [name for name, _ in library.calls] == expected


@pytest.mark.parametrize("count", [2, 4])
def test_gloo_takes_tensors_of_a_device_through_the_host(
    library: Library, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """The device has no numbers, so what comes from it is zeros."""
    device = torch.device("meta")
    monkeypatch.setattr(Tensor, "cpu", lambda tensor: torch.zeros(tensor.shape, dtype=tensor.dtype))
    monkeypatch.setattr(Collective, "_warm_up", lambda _: None)
    group = Collective(ShardPlace(0, count, 2), device, None, "gloo")
    part = torch.ones((3, 8), dtype=torch.bfloat16, device=device)
    results = [group.sum(part), group.join_columns(part, 8 * count), group.receive((3, 8), torch.bfloat16)]
    group.send_on(part)
    assert [tuple(result.shape) for result in results] == [(3, 8), (3, 8 * count), (3, 8)]
    assert {(result.device, result.dtype) for result in results} == {(device, torch.bfloat16)}
    assert {where for _, where in library.calls} == {"cpu"}
    assert len(library.calls) == 4
