"""One request has one text, wherever the KV blocks of its prompt come from and whichever of those places fails.

Places are memory, a disk, the shared store and another worker; engines are of every kind that keeps keys and values.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence, Sized
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.libs.engine.tiny_models import make_family, make_prompts
from tests.services.worker.transfer.cutting_proxy import CuttingProxy
from tests.services.worker.transfer.kept.test_kept_prompts import damage
from tests.services.worker.transfer.stored.test_shared_prompts import Cache, open_cache, total
from tests.services.worker.transfer.test_block_transfer import BLOCK_SIZE, SECONDS, Worker, load, serve

from headrace import failpoints
from headrace.cache.shared_kv import lmdb_blocks
from headrace.engine.kv.block_exchange import exchange_of
from headrace.rpc.channel import open_channel
from headrace.worker.transfer.kept.kept_blocks import KeptBlocks
from headrace.worker.transfer.kept.kept_metrics import READ_BLOCKS
from headrace.worker.transfer.kept.kept_writer import KeptWriter
from headrace.worker.transfer.stored import store_link
from headrace.worker.transfer.stored.shared_store import SharedStore
from headrace.worker.transfer.stored.store_metrics import STORE_READ_BLOCKS

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
ENGINES: dict[str, tuple[str, dict[str, Any]]] = {
    "kernels": ("llama", {}),
    "torch": ("llama", {"kernels": "torch"}),
    "codes": ("llama", {"kv_precision": "int8"}),
    "halves": ("llama", {"kv_precision": "bfloat16"}),
    "windows": ("gemma3", {}),
    "experts": ("qwen3_moe", {}),
    "sinks": ("gpt_oss", {}),
    "latent": ("deepseek2", {}),
    "varied heads": ("gemma4", {}),
    "shared layers": ("gemma3n", {}),
}


@dataclass(frozen=True)
class Situation:
    """State of each place that may have blocks."""

    disk: Literal["none", "whole", "damaged", "breaks"] = "none"
    store: Literal["none", "whole", "damaged", "dies"] = "none"
    holder: Literal["none", "whole", "cut"] = "none"
    """Another worker, which is asked before the store."""
    memory: Literal["small", "large"] = "large"


SITUATIONS = (
    Situation(disk="whole", memory="small"),
    Situation(disk="damaged", store="whole"),
    Situation(disk="breaks", store="whole", memory="small"),
    Situation(store="damaged"),
    Situation(store="dies", memory="small"),
    Situation(holder="whole", memory="small"),
    Situation(disk="damaged", holder="cut"),
)
MEMORY = {"small": {"block_count": 14, "max_model_length": 192}, "large": {}}
REQUESTS: tuple[dict[str, Any], ...] = tuple(
    {"prompt": prompt, "salt": "t", "max_token_count": 12, "seed": 5, "temperature": temperature}
    for prompt, temperature in zip(make_prompts((150, 120), seed=21), (0.0, 0.9), strict=True)
)
"""Together more than the small memory holds."""
BLOCK_COUNT = sum(len(request["prompt"]) // BLOCK_SIZE for request in REQUESTS)


class Tiers:
    """Places that keep the blocks of REQUESTS, from a worker that has ended."""

    def __init__(self, situation: Situation, engine: str, model: Path, folder: Path, stack: AsyncExitStack) -> None:
        self.situation, self.folder = situation, folder
        self._model, self._settings, self._stack = model, ENGINES[engine][1], stack
        self._kv_folder = None if situation.disk == "none" else folder / "disk"
        self.cache: Cache | None = None

    async def fill(self) -> list[list[int]]:
        """Returns the tokens of the requests."""
        if self.situation.store != "none":
            self.cache = await open_cache(self.folder / "kv", self._stack)
        async with AsyncExitStack() as life:
            worker = await self.serve(life)
            found = [(await worker.run(**request))[0] for request in REQUESTS]
            await self.until_written(worker)
        return found

    async def until_written(self, worker: Worker) -> None:
        """Waits until the blocks of all prompts are where they are kept."""
        sinks = [keeper.sink for keeper in worker.runtime.transfers.keepers]
        places: list[Sized] = [sink.kept for sink in sinks if isinstance(sink, KeptWriter)]
        if self.cache is not None and self.cache.blocks is not None:
            places.append(self.cache.blocks)
        deadline = time.monotonic() + SECONDS
        for place in places:
            while len(place) < BLOCK_COUNT:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.005)
        await worker.settle()

    async def serve(self, stack: AsyncExitStack, **settings: Any) -> Worker:
        """Starts a worker before those places."""
        engine = load(self._model, **self._settings, **settings)
        exchange = exchange_of(engine)
        assert exchange is not None
        store = None
        if self.cache is not None:
            store = SharedStore([self.cache.address], open_channel, exchange.layout)
            stack.push_async_callback(store.close)
        return await serve(engine, stack, kv_folder=self._kv_folder, store=store)

    async def holder(self) -> str:
        """Address of another worker that has the blocks in its memory, or none."""
        if self.situation.holder == "none":
            return ""
        worker = await serve(load(self._model, **self._settings), self._stack)
        for request in REQUESTS:
            await worker.run(**request)
        if self.situation.holder == "whole":
            return worker.address
        limit = 3 * worker.runtime.transfers.status.block_bytes
        return (await self._stack.enter_async_context(CuttingProxy(worker.address, [limit] * 99))).address

    def spoil(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Makes the disk and the store fail as the situation says."""
        if self.situation.disk == "damaged":
            damage(self.folder / "disk", seed=1)
        if self.situation.disk == "breaks":
            monkeypatch.setattr(KeptBlocks, "get", breaking(KeptBlocks.get))
        if self.situation.store == "damaged":
            failpoints.arm(self.folder)
            (self.folder / "cache.block").write_text("damage")
        if self.situation.store == "dies":
            failpoints.arm(self.folder)
            (self.folder / "cache.blocks").write_text("sleep 0.02")

    async def die(self) -> None:
        """Stops the store in the middle of an answer, if the situation says so."""
        if self.situation.store == "dies" and self.cache is not None:
            read = total(STORE_READ_BLOCKS)
            deadline = time.monotonic() + 1.0
            while total(STORE_READ_BLOCKS) == read and time.monotonic() < deadline:  # noqa: ASYNC110 - a counter
                await asyncio.sleep(0.002)
            await self.cache.server.stop(0.0)


def breaking(get: Any) -> Any:
    """Reads once, and fails from then on."""
    reads = iter(range(1))

    def read(self: KeptBlocks, names: Sequence[bytes]) -> list[bytes]:
        if next(reads, None) is None:
            raise OSError("the disk is gone")
        return list(get(self, names))

    return read


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that runs other tests too may take its time; messages of the store have a block each."""
    monkeypatch.setattr(store_link, "PATIENCE_SECONDS", 5.0)
    monkeypatch.setattr(lmdb_blocks, "PACKET_BYTES", 1)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    families = {family for family, _ in ENGINES.values()}
    for family in families:
        make_family(folder / family, family)
    return {family: folder / family for family in families}


@pytest.fixture(scope="module")
def used() -> Counter[str]:
    """Blocks, or tokens, that came from each tier."""
    return Counter()


@contextlib.asynccontextmanager
async def tiers_of(situation: Situation, engine: str, model: Path, folder: Path) -> AsyncIterator[Tiers]:
    async with AsyncExitStack() as stack:
        try:
            yield Tiers(situation, engine, model, folder, stack)
        finally:
            failpoints.arm(None)


@pytest.mark.parametrize("engine", ENGINES)
async def test_tokens_are_those_of_a_worker_without_any_tier(
    engine: str, models: dict[str, Path], used: Counter[str], tmp_path: Path
) -> None:
    model = models[ENGINES[engine][0]]
    async with AsyncExitStack() as stack:
        plain = await serve(load(model, prefix_cache=False, **ENGINES[engine][1]), stack)
        expected = [(await plain.run(**request))[0] for request in REQUESTS]
    for number, situation in enumerate(SITUATIONS):
        folder = tmp_path / str(number)
        folder.mkdir()
        before = {"disk": total(READ_BLOCKS), "store": total(STORE_READ_BLOCKS)}
        async with tiers_of(situation, engine, model, folder) as tiers:
            await check(tiers, expected, used)
        used["disk"] += int(total(READ_BLOCKS) - before["disk"])
        used["store"] += int(total(STORE_READ_BLOCKS) - before["store"])


def test_blocks_came_from_every_tier(used: Counter[str]) -> None:
    """A machine that is busy may be too slow for one of them now and then, but not for all engines."""
    assert not used or min(used[name] for name in ("disk", "store", "holder")) > 0, used


async def check(tiers: Tiers, expected: list[list[int]], used: Counter[str]) -> None:
    """Asks twice for everything before tiers that fail as the situation says."""
    assert await tiers.fill() == expected, tiers.situation
    holder = await tiers.holder()
    with pytest.MonkeyPatch.context() as patch:
        tiers.spoil(patch)
        async with AsyncExitStack() as life:
            worker = await tiers.serve(life, **MEMORY[tiers.situation.memory])
            for turn in range(2):
                for request, tokens in zip(REQUESTS, expected, strict=True):
                    name = await worker.ask(**request, source=holder, held_only=True)
                    if not turn:
                        await tiers.die()
                    found, cached = await worker.tokens(name)
                    assert found == tokens, (tiers.situation, turn)
                    used["holder"] += cached if holder and not turn else 0
            await worker.settle()
