"""The bookkeeping of all tiers under a day of traffic, as fast as the machine goes."""

import asyncio
import gc
import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from tests.harness.kv_tiers.conversations import Turn
from tests.harness.kv_tiers.demanded_blocks import BlockFormat
from tests.harness.kv_tiers.tier_cache import TierCache
from tests.harness.kv_tiers.tier_worker import Network, TierWorker

from headrace.cache.shared_kv.eviction_order import MAX_STALE
from headrace.cache.shared_kv.lmdb_blocks import USABLE_SHARE
from headrace.cache.shared_kv.shared_metrics import EVICTED
from headrace.worker.transfer.keeping.block_keeper import MAX_PENDING
from headrace.worker.transfer.kept.kept_metrics import LOST_BLOCKS, WRITTEN_BLOCKS
from headrace.worker.transfer.kept.slot_header import HEADER_BYTES
from headrace.worker.transfer.stored.store_metrics import STORE_LOST_BLOCKS

MIB = 1 << 20
WORKERS = ("first", "second")
AT_HOME_SHARE = 0.8
"""Share of requests that run where their conversation did."""
PEER_SHARE = 0.5
"""Share of the others that name the worker where it did."""
RESTART_SHARE = 1 / 5000
AT_ONCE = 6
"""Requests that run at the same time."""
SAMPLE_EVERY = 40
"""Groups of requests after which sizes are measured."""
MAX_BEHIND = 128
"""Blocks that wait to be written beyond which the next request waits: in real time they would have had their turn."""
BEHIND_SECONDS = 0.0005
WARM_SHARE = 1 / 8
"""Share of the time before which memory is not compared."""


@dataclass(frozen=True, slots=True)
class SoakSizes:
    """Bounds of the tiers."""

    block_bytes: int = 4096
    block_size: int = 128
    memory_blocks: int = 2048
    disk_bytes: int = 24 * MIB
    store_bytes: int = 48 * MIB


@dataclass(slots=True)
class SoakReport:
    """Outcome of a soak."""

    sizes: SoakSizes
    request_count: int = 0
    traffic_seconds: float = 0.0
    seconds: float = 0.0
    blocks: Counter[str] = field(default_factory=Counter)
    """Blocks of prompts by the tier that they came from; `computed` where from none."""
    peaks: Counter[str] = field(default_factory=Counter)
    """Largest sample of each figure."""
    bounds: dict[str, int] = field(default_factory=dict)
    given_way: Counter[str] = field(default_factory=Counter)
    """Blocks that gave way to others, by tier."""
    lost: Counter[str] = field(default_factory=Counter)
    """Blocks that were not written, because they did not get their turn."""
    wrong_count: int = 0
    restart_count: int = 0
    resident: list[tuple[float, float]] = field(default_factory=list)
    """Seconds of traffic, and MiB that the process has then."""

    @property
    def exceeded(self) -> dict[str, tuple[int, int]]:
        """Peaks above their bounds, each with its bound."""
        return {name: (self.peaks[name], bound) for name, bound in self.bounds.items() if self.peaks[name] > bound}

    @property
    def warm_growth(self) -> float:
        """MiB by which the process grew after it was warm."""
        warm = [size for moment, size in self.resident if moment >= WARM_SHARE * self.traffic_seconds]
        return warm[-1] - warm[0]


class Soak:
    """Two workers and a store. Runs on the event loop."""

    def __init__(self, folder: Path, sizes: SoakSizes) -> None:
        self.report = SoakReport(sizes)
        self._dice = random.Random(4)
        self._folder = folder
        self._cache = TierCache(folder / "store", sizes.store_bytes)
        network: Network = {"cache": self._cache.service}
        made = BlockFormat("weights", "numbers", sizes.block_bytes, sizes.block_size)
        self._workers = {
            name: TierWorker(name, made, sizes.memory_blocks, folder / name, sizes.disk_bytes, network, remembers=False)
            for name in WORKERS
        }
        self._homes: dict[int, str] = {}
        self._written = {"disk": _value(WRITTEN_BLOCKS), "store": _value(EVICTED)}
        self._lost = {"disk": _value(LOST_BLOCKS), "store": _value(STORE_LOST_BLOCKS)}
        self.report.bounds = {
            "memory, bytes in use": sizes.memory_blocks * sizes.block_bytes,
            "memory, names": sizes.memory_blocks,
            "disk, bytes": sizes.disk_bytes,
            "disk, blocks": sizes.disk_bytes // (HEADER_BYTES + sizes.block_bytes),
            "store, bytes in use": int(sizes.store_bytes * USABLE_SHARE),
            "store, bytes of the file": sizes.store_bytes,
            "store, ranks beyond records": MAX_STALE,
            "blocks that wait to be written": MAX_PENDING,
        }

    async def run(self, turns: Iterator[Turn]) -> None:
        """Runs the requests in their order."""
        started = time.perf_counter()
        for number in itertools.count():
            together = [*itertools.islice(turns, AT_ONCE)]
            if not together:
                break
            await asyncio.gather(*(self._ask(turn) for turn in together))
            while self._behind() > MAX_BEHIND:  # noqa: ASYNC110 - only their counts tell
                await asyncio.sleep(BEHIND_SECONDS)
            self.report.traffic_seconds = together[-1].time
            if self._dice.random() < RESTART_SHARE * AT_ONCE:
                await self._workers[self._dice.choice(WORKERS)].restart()
                self.report.restart_count += 1
            if number % SAMPLE_EVERY == 0:
                self._sample()
        gc.collect()
        self._sample()
        self.report.seconds = time.perf_counter() - started
        report = self.report
        kept = sum(len(worker.kept) for worker in self._workers.values())
        report.given_way["disk"] = int(_value(WRITTEN_BLOCKS) - self._written["disk"]) - kept
        report.given_way["store"] = int(_value(EVICTED) - self._written["store"])
        report.lost["disk"] = int(_value(LOST_BLOCKS) - self._lost["disk"])
        report.lost["store"] = int(_value(STORE_LOST_BLOCKS) - self._lost["store"])

    async def close(self) -> None:
        """Ends all services."""
        for worker in self._workers.values():
            await worker.close()
        await self._cache.close()

    async def _ask(self, turn: Turn) -> None:
        home = self._homes.get(turn.conversation_id)
        chosen = home if home and self._dice.random() < AT_HOME_SHARE else self._dice.choice(WORKERS)
        worker = self._workers[chosen]
        source = home if home and home != chosen and self._dice.random() < PEER_SHARE else ""
        answer = await worker.ask(turn.prompt, source or "")
        self._homes[turn.conversation_id] = chosen
        if len(self._homes) > MAX_PENDING:
            del self._homes[next(iter(self._homes))]
        report, size = self.report, self.report.sizes.block_size
        brought = {tier: getattr(answer.fetched, tier) // size for tier in ("disk", "worker", "store")}
        hit = answer.outcome.hit_count
        report.blocks.update(brought)
        report.blocks["memory"] += max(0, hit - sum(brought.values()))
        report.blocks["computed"] += turn.prompt.block_count(size) - hit
        report.given_way["memory"] += worker.replaced_count
        worker.replaced_count = 0
        report.wrong_count += answer.outcome.wrong_count
        report.request_count += 1

    def _behind(self) -> int:
        """Returns how many blocks wait to be written, where they are the most."""
        keepers = [keeper for worker in self._workers.values() for keeper in worker.transfers.keepers]
        return max(len(keeper._pending) for keeper in keepers)

    def _sample(self) -> None:
        now = Counter[str]()
        for worker in self._workers.values():
            files = [path.stat() for path in worker.folder.iterdir()]
            pending = [len(keeper._pending) for keeper in worker.transfers.keepers]
            one = {
                "memory, bytes in use": worker.engine.used_bytes_peak,
                "memory, names": len(worker.transfers._cached._names),
                "disk, bytes": max(sum(each.st_size for each in files), sum(each.st_blocks * 512 for each in files)),
                "disk, blocks": len(worker.kept),
                "blocks that wait to be written": max(pending),
            }
            now |= Counter(one)
        order = self._cache.blocks._order
        now["store, bytes in use"] = order.used_bytes
        now["store, bytes of the file"] = self._cache.file_bytes
        now["store, ranks beyond records"] = len(order._heap) - 2 * len(order)
        self.report.peaks |= now
        self.report.resident.append((self.report.traffic_seconds, psutil.Process().memory_info().rss / MIB))


def _value(counter: object) -> float:
    return float(counter._value.get())  # type: ignore[attr-defined]
