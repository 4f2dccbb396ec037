"""Exchanges of tensors among the processes of a group, in a fixed order of reduction."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor

from headrace.engine.parallel.shards.place import ShardPlace

TIMEOUT = timedelta(seconds=120)
"""Time after which a rank that waits for another within an exchange gives up. A rank that died is noticed at once."""

Store = Any
"""Place where the ranks of a group find each other: torch's TCPStore, which has no public type."""

GATHER: Callable[..., Any] = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
"""Gathers the tensors of all ranks in one. The second name is that of torch before 2.13."""


def host_store(host: str, world_size: int) -> Store:
    """Opens a store on a free port, at the first rank."""
    return dist.TCPStore(  # type: ignore[attr-defined]
        host, 0, world_size, is_master=True, timeout=TIMEOUT, wait_for_workers=False
    )


def join_store(host: str, port: int, world_size: int) -> Store:
    """Connects to the store of the first rank."""
    return dist.TCPStore(host, port, world_size, timeout=TIMEOUT)  # type: ignore[attr-defined]


class Collective:
    """The exchanges of one rank. Every rank of a group calls the same ones in the same order.

    More than two parts are summed by gathering and adding in the order of shares: a ring would add in an order that
    depends on how many rows there are, so that a token could depend on the batch. Two are the same sum in any order.
    """

    def __init__(
        self, place: ShardPlace, device: torch.device, store: Store, backend: Literal["nccl", "gloo"] = "gloo"
    ) -> None:
        """Joins the group, and exchanges something with every rank that this one will exchange with: libraries connect
        at the first exchange. A GPU must be the current device. Raises RuntimeError if the others do not come."""
        self._place = place
        self._device = device
        self._goes_by_host = backend == "gloo" and device.type != "cpu"
        """Whether tensors are copied to the host's memory to be exchanged: gloo knows no other."""
        bound = torch.device("cuda", torch.cuda.current_device()) if backend == "nccl" else None
        dist.init_process_group(
            backend, store=store, rank=place.rank, world_size=place.world_size, timeout=TIMEOUT, device_id=bound
        )
        self._peers = _join_peers(place)
        self._warm_up()

    def close(self) -> None:
        """Leaves the group, without waiting for the others."""
        dist.destroy_process_group()

    def sum(self, part: Tensor) -> Tensor:
        """Adds the parts of all shares, each of the same shape and type, as the sum. May overwrite `part`."""
        count = self._place.tensor_count
        if count == 1 or not part.numel():
            return part
        if count == 2:
            total = self._leaving(part)
            dist.all_reduce(total, group=self._peers)
            return self._arrived(total)
        parts = self._gather(part)
        total = parts[0] + parts[1]
        for other in parts[2:]:
            total += other
        return total

    def join_columns(self, part: Tensor, column_count: int) -> Tensor:
        """Joins the columns of all shares, [rows, its columns] each, to [rows, `column_count`]."""
        if self._place.tensor_count == 1 or not len(part):
            return part.new_empty((len(part), column_count)) if not len(part) else part
        widest = -(-column_count // self._place.tensor_count)
        padded = torch.nn.functional.pad(part, (0, widest - part.shape[1]))
        places = [ShardPlace(rank, self._place.tensor_count, self._place.stage_count) for rank in self._place.peers]
        parts = zip(self._gather(padded), places, strict=True)
        return torch.cat([found[:, : len(place.part_of(column_count))] for found, place in parts], dim=1)

    def send_on(self, hidden: Tensor) -> "dist.Work | None":
        """Starts to send hidden states to the stage after. They must stay as they are until the work is done."""
        return dist.isend(self._leaving(hidden), self._place.rank_after)

    def receive(self, shape: tuple[int, int], dtype: torch.dtype) -> Tensor:
        """Waits for hidden states of the stage before."""
        hidden = torch.empty(shape, dtype=dtype, device="cpu" if self._goes_by_host else self._device)
        dist.recv(hidden, self._place.rank_before)
        return self._arrived(hidden)

    def least(self, number: int) -> int:
        """Returns the minimum of the numbers that all ranks give."""
        value = self._leaving(torch.tensor([number], device=self._device))
        dist.all_reduce(value, dist.ReduceOp.MIN)
        return int(value.item())

    def total(self, *numbers: int) -> list[int]:
        """Adds up the numbers of all ranks, each with those in the same place."""
        values = self._leaving(torch.tensor(numbers, device=self._device))
        dist.all_reduce(values)
        return [int(value) for value in values.tolist()]

    def _gather(self, part: Tensor) -> Tensor:
        """Returns the parts of all shares, [shares, ...]."""
        own, count = self._leaving(part), self._place.tensor_count
        parts = own.new_empty((count * len(own), *own.shape[1:]))
        GATHER(parts, own, group=self._peers)
        return self._arrived(parts).view(count, *own.shape)

    def _leaving(self, tensor: Tensor) -> Tensor:
        """Returns a tensor where it can be exchanged."""
        return tensor.contiguous().cpu() if self._goes_by_host else tensor.contiguous()

    def _arrived(self, tensor: Tensor) -> Tensor:
        """Returns a tensor that was exchanged, on the device of this rank."""
        return tensor.to(self._device) if self._goes_by_host else tensor

    def _warm_up(self) -> None:
        nothing = torch.zeros((1, 1), device=self._device)
        self.sum(nothing)
        if not self._place.begins:
            self.receive((1, 1), nothing.dtype)
        if not self._place.ends and (work := self.send_on(nothing)) is not None:
            work.wait()
        # The host does not wait for exchanges on a device: this does.
        nothing.tolist()


def _join_peers(place: ShardPlace) -> "dist.ProcessGroup | None":
    """Returns the group of the ranks that share products with this one. None: all ranks. Every rank makes the groups of
    all stages, in the same order."""
    if place.stage_count == 1 or place.tensor_count == 1:
        return None
    firsts = range(0, place.world_size, place.tensor_count)
    stages = [ShardPlace(first, place.tensor_count, place.stage_count).peers for first in firsts]
    groups: dict[range, Any] = {peers: dist.new_group(list(peers), timeout=TIMEOUT) for peers in stages}
    found: dist.ProcessGroup = groups[place.peers]
    return found
