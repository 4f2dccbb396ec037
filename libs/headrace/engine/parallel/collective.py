"""Exchanges of tensors among the processes of a group, in a fixed order of reduction."""

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from headrace.engine.parallel.shards.place import ShardPlace

TIMEOUT = timedelta(seconds=120)
"""Time after which a rank that waits for another gives up. A rank that died is noticed at once."""

Store = Any
"""Place where the ranks of a group find each other: torch's TCPStore, which has no public type."""


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

    Sums are made by gathering and adding in the order of shares: a ring would add in an order that depends on how many
    rows there are, so that a token could depend on the batch.
    """

    def __init__(self, place: ShardPlace, device: torch.device, store: Store) -> None:
        """Joins the group. Raises RuntimeError if the others do not come."""
        self._place = place
        self._device = device
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=store, rank=place.rank, world_size=place.world_size, timeout=TIMEOUT)
        stages = [
            ShardPlace(first, place.tensor_count, place.stage_count).peers
            for first in range(0, place.world_size, place.tensor_count)
        ]
        groups = {peers: dist.new_group(list(peers), timeout=TIMEOUT) for peers in stages}
        self._peers = groups[place.peers]

    def close(self) -> None:
        """Leaves the group, without waiting for the others."""
        dist.destroy_process_group()

    def sum(self, part: Tensor) -> Tensor:
        """Adds the parts of all shares, each of the same shape."""
        if self._place.tensor_count == 1 or not part.numel():
            return part
        first, *others = self._gather(part)
        total = first.clone()
        for other in others:
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
        return dist.isend(hidden.contiguous(), self._place.rank_after)

    def receive(self, shape: tuple[int, int], dtype: torch.dtype) -> Tensor:
        """Waits for hidden states of the stage before."""
        hidden = torch.empty(shape, dtype=dtype, device=self._device)
        dist.recv(hidden, self._place.rank_before)
        return hidden

    def least(self, number: int) -> int:
        """Returns the minimum of the numbers that all ranks give."""
        value = torch.tensor([number], device=self._device)
        dist.all_reduce(value, dist.ReduceOp.MIN)
        return int(value.item())

    def total(self, *numbers: int) -> list[int]:
        """Adds up the numbers of all ranks, each with those in the same place."""
        values = torch.tensor(numbers, device=self._device)
        dist.all_reduce(values)
        return [int(value) for value in values.tolist()]

    def _gather(self, part: Tensor) -> list[Tensor]:
        part = part.contiguous()
        parts = [torch.empty_like(part) for _ in self._place.peers]
        dist.all_gather(parts, part, group=self._peers)
        return parts
