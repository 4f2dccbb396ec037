"""Ranks of a group that sum random parts and compare the bits with those of the sum in the order of shares:

    python -m tests.libs.engine.parallel.summing_ranks FOLDER TENSOR_COUNTxSTAGE_COUNT ...

Prints a line per group: the calls of torch.distributed that the sums of its first rank have made, as JSON. All ranks
are forked from this process, because the import of torch takes longer than their sums.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from headrace.engine.parallel import collective
from headrace.engine.parallel.collective import Collective
from headrace.engine.parallel.shards.place import ShardPlace

SHAPES = [(1, 64), (3, 257), (33, 1000)]
BITS = {torch.float32: torch.int32, torch.bfloat16: torch.int16, torch.float16: torch.int16}
CALLS = ["all_reduce", "all_gather", "broadcast"]


def main() -> None:
    folder, *groups = sys.argv[1:]
    for group in groups:
        os.mkdir(f"{folder}/{group}")
        tensor_count, stage_count = map(int, group.split("x"))
        places = [ShardPlace(rank, tensor_count, stage_count) for rank in range(tensor_count * stage_count)]
        ranks = [fork(place, f"{folder}/{group}") for place in places]
        assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in ranks] == [0] * len(ranks)


def fork(place: ShardPlace, folder: str) -> int:
    pid = os.fork()
    if not pid:
        try:
            calls = sum_parts(place, folder)
            if place.rank == 0:
                print(json.dumps(calls), flush=True)
        except BaseException:  # noqa: BLE001 -- it must not come back here
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return pid


def sum_parts(place: ShardPlace, folder: str) -> dict[str, int]:
    torch.set_num_threads(1)
    store = dist.FileStore(  # type: ignore[attr-defined]
        f"{folder}/store", place.world_size
    )
    group = Collective(place, torch.device("cpu"), store)
    calls: Counter[str] = Counter()
    for name in CALLS:
        setattr(dist, name, counted(name, getattr(dist, name), calls))
    collective.GATHER = counted("gather", collective.GATHER, calls)
    for number, (shape, dtype) in enumerate((shape, dtype) for shape in SHAPES for dtype in BITS):
        parts = random_parts(place.tensor_count, shape, dtype, 100 * number + place.stage)
        expected = in_order(parts)
        found = group.sum(parts[place.share].clone())
        assert found.dtype == dtype
        assert torch.equal(found.view(BITS[dtype]), expected.view(BITS[dtype])), (shape, dtype)
    return dict(calls)


def random_parts(count: int, shape: tuple[int, int], dtype: torch.dtype, seed: int) -> list[Tensor]:
    """Numbers of many magnitudes, so that every order of adding rounds in another way."""
    source = torch.Generator().manual_seed(seed)
    sizes = 2.0 ** torch.randint(-6, 6, (count, *shape), generator=source)
    return list((torch.randn((count, *shape), generator=source) * sizes).to(dtype))


def in_order(parts: list[Tensor]) -> Tensor:
    total = parts[0].clone()
    for part in parts[1:]:
        total += part
    return total


def counted(name: str, function: Callable[..., Any], calls: Counter[str]) -> Callable[..., Any]:
    def call(*operands: Any, **options: Any) -> Any:
        calls[name] += 1
        return function(*operands, **options)

    return call


if __name__ == "__main__":
    main()
