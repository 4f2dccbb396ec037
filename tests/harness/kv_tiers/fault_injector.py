"""Injects faults into the tiers of a platform, aimed at the blocks of a prompt that is about to be asked."""

import asyncio
import errno
import os
import random
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from zlib import crc32

import grpc
import lmdb
from tests.harness.kv_tiers.block_engine import ADAPTERS
from tests.harness.kv_tiers.demanded_blocks import BLOCK_SIZE, Prompt, demanded_blocks
from tests.harness.kv_tiers.fault_kinds import SHARES, TIERS, Kind, Record, damaged
from tests.harness.kv_tiers.local_service import failed
from tests.harness.kv_tiers.platform_of_tiers import ALIKE, FOREIGN, PROMPT_BLOCKS, TENANTS, PlatformOfTiers
from tests.harness.kv_tiers.tier_worker import TierWorker

from headrace.kv.block_hash import hash_blocks
from headrace.worker.transfer.kept.slot_header import HEADER_BYTES, SlotHeader

MAX_OVERRUN_SECONDS = 0.002


class FaultInjector:
    """Counts a fault when it happens. One on the wire, or of a write, happens only if there is a message or a write."""

    def __init__(
        self, platform: PlatformOfTiers, kinds: tuple[Kind, ...], slow_seconds: tuple[float, float], dice: random.Random
    ) -> None:
        """`slow_seconds`: shortest and longest delay of a slow store."""
        self.counts: Counter[tuple[Kind, str]] = Counter()
        self._platform, self._kinds, self._dice = platform, kinds, dice
        self._slow_seconds = slow_seconds
        self._lock = threading.Lock()
        self._messages: dict[str, deque[Callable[[Any], None]]] = {"Prefill": deque(), "FetchBlocks": deque()}
        self._calls: deque[Kind] = deque()
        self._full: dict[str, deque[int]] = {"disk": deque(), "store": deque()}
        self._records: dict[bytes, tuple[Kind, bytes]] = {}
        platform.cache.fail_writes(self._write_error)
        platform.cache.service.disturb = self._disturb
        platform.cache.service.damage = self._damage
        for address in ALIKE:
            platform.network[address].damage = self._damage
        for address in FOREIGN:
            platform.network[address].disturb = self._note_foreign

    async def inject(self, worker: TierWorker, prompt: Prompt, source: str) -> str:
        """Chooses a fault and prepares it. Returns the source that the request is to name."""
        kind = self._dice.choices(self._kinds, [SHARES[one] for one in self._kinds])[0]
        tier = self._dice.choice(TIERS[kind])
        if kind is Kind.EMPTY:
            await self._platform.cache.restart(is_empty=True)
            self._note(kind, tier)
        elif kind in (Kind.DEAD, Kind.SLOW):
            self._calls.append(kind)
        elif kind is Kind.FULL:
            self._full[tier].append(self._dice.randrange(2))
        elif tier == "memory":
            delay = self._dice.random() * MAX_OVERRUN_SECONDS
            asyncio.get_running_loop().call_later(delay, worker.thread.ask, worker.engine.overrun)
            self._note(kind, tier)
        elif tier == "worker":
            return self._spoil_peer(kind, worker, prompt, source)
        else:
            self._spoil(kind, tier, worker, prompt)
        return source

    async def flush(self) -> None:
        """Writes the damaged records into the store."""
        records, self._records = self._records, {}
        written = await self._platform.cache.blocks.write([(key, data) for key, (_, data) in records.items()])
        if written:
            for kind, _ in records.values():
                self._note(kind, "store")

    def disarm(self) -> None:
        """Takes back what has not happened."""
        all_waiting: list[deque[Any]] = [*self._messages.values(), self._calls, *self._full.values()]
        for waiting in all_waiting:
            waiting.clear()
        for worker in self._platform.workers.values():
            worker.engine.exchange.before_export = worker.engine.exchange.after_export = None

    def pwrite(self, descriptor: int, data: bytes, place: int) -> int:
        """Stands for `os.pwrite`: a full disk takes nothing, or only a part. From any thread."""
        way = _popped(self._full["disk"])
        if way is None:
            return os.pwrite(descriptor, data, place)
        self._note(Kind.FULL, "disk")
        if way == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.pwrite(descriptor, data[: len(data) // 2], place)

    def _write_error(self) -> Exception | None:
        """Returns the error of a write of the store. From its thread."""
        way = _popped(self._full["store"])
        if way is None:
            return None
        self._note(Kind.FULL, "store")
        return lmdb.MapFullError("the map is full") if way else OSError(errno.ENOSPC, "No space left on device")

    async def _disturb(self, _method: str) -> None:
        kind = _popped(self._calls)
        if kind is None:
            return
        self._note(kind, "store")
        if kind is Kind.DEAD:
            raise failed(grpc.StatusCode.UNAVAILABLE, "Connection reset by peer")
        await asyncio.sleep(self._dice.uniform(*self._slow_seconds))

    async def _note_foreign(self, method: str) -> None:
        if method == "Prefill":
            self._note(Kind.WEIGHTS, "worker")

    def _damage(self, method: str, message: Any) -> Any:
        change = _popped(self._messages.get(method, deque()))
        if change is not None:
            change(message)
        return message

    def _spoil(self, kind: Kind, tier: str, worker: TierWorker, prompt: Prompt) -> None:
        """Damages a block of the prompt on the disk, in the store, or on its way from there."""
        index = min(self._dice.randrange(PROMPT_BLOCKS), self._dice.randrange(PROMPT_BLOCKS))
        mine = _record(worker, prompt, index)
        data = damaged(kind, mine, self._other(kind, worker, prompt, index), self._dice)
        if tier == "disk":
            self._spoil_slot(kind, worker, mine, data)
        elif self._dice.randrange(2):
            self._records[mine.layout.encode() + mine.name] = kind, data
        else:
            self._messages["FetchBlocks"].append(lambda message: self._exchange_record(kind, message, mine, data))

    def _spoil_slot(self, kind: Kind, worker: TierWorker, mine: Record, data: bytes) -> None:
        worker.kept.put(mine.name, mine.content)
        slot = worker.kept._slots.get(mine.name)
        if slot is None:
            return
        size = HEADER_BYTES + worker.made.block_bytes
        descriptor = os.open(worker.folder / f"{mine.layout}-0.kv", os.O_WRONLY)
        try:
            if kind is Kind.CUT:
                whole = os.fstat(descriptor).st_size
                os.ftruncate(descriptor, slot * size + len(data))
                if self._dice.randrange(2):
                    os.ftruncate(descriptor, whole)
            else:
                os.pwrite(descriptor, data, slot * size)
        finally:
            os.close(descriptor)
        self._note(kind, "disk")

    def _exchange_record(self, kind: Kind, message: Any, mine: Record, data: bytes) -> None:
        for place, record in enumerate(message.records):
            header = SlotHeader.read(record[:HEADER_BYTES])
            if header is not None and header.name == mine.name:
                message.records[place] = data
                self._note(kind, "store")
                return

    def _spoil_peer(self, kind: Kind, worker: TierWorker, prompt: Prompt, source: str) -> str:
        """Damages blocks of another worker: in its memory, or in flight."""
        if kind is Kind.WEIGHTS:
            return self._dice.choice(FOREIGN)
        if not source:
            return source
        exchange = self._platform.workers[source].engine.exchange
        if kind is Kind.STALE and self._dice.randrange(2):
            exchange.before_export = lambda: self._lapse(source)
        elif kind is Kind.CUT and self._dice.randrange(2):
            exchange.after_export = self._cut_copies
        else:
            other = self._other(kind, worker, prompt, self._dice.randrange(PROMPT_BLOCKS))
            self._messages["Prefill"].append(lambda message: self._spoil_packet(kind, message, other))
        return source

    def _lapse(self, source: str) -> None:
        self._note(Kind.STALE, "worker")
        self._platform.workers[source].engine.overrun()

    def _cut_copies(self, copies: list[bytes]) -> list[bytes]:
        self._note(Kind.CUT, "worker")
        return [copy[: len(copy) // 2] for copy in copies]

    def _spoil_packet(self, kind: Kind, message: Any, other: Record) -> None:
        if not message.blocks:
            return
        block = message.blocks[self._dice.randrange(len(message.blocks))]
        place = self._dice.randrange(len(block.content)) if block.content else 0
        if kind is Kind.FLIP and block.content:
            byte = block.content[place] ^ 1 << self._dice.randrange(8)
            block.content = block.content[:place] + bytes([byte]) + block.content[place + 1 :]
        elif kind is Kind.TORN:
            block.content = block.content[:place] + other.content[place:]
        elif kind is Kind.CUT:
            block.content = block.content[:place]
        else:
            block.content, block.checksum = other.content, crc32(other.content, crc32(other.name))
        self._note(kind, "worker")

    def _other(self, kind: Kind, worker: TierWorker, prompt: Prompt, index: int) -> Record:
        """Returns the block that takes the place of one, or of a part of it."""
        match kind:
            case Kind.TENANT:
                tenant = self._dice.choice([one for one in TENANTS if one != prompt.tenant])
                return _record(worker, replace(prompt, tenant=tenant), index)
            case Kind.ADAPTER:
                adapter = self._dice.choice([one for one in ("", *ADAPTERS) if one != prompt.adapter])
                return _record(worker, replace(prompt, adapter=adapter), index)
            case Kind.WEIGHTS:
                others = [one for one in self._platform.workers.values() if one.made != worker.made]
                return _record(self._dice.choice(others), prompt, index)
            case _:
                further = (index + self._dice.randrange(1, PROMPT_BLOCKS)) % PROMPT_BLOCKS
                return _record(worker, prompt, further)

    def _note(self, kind: Kind, tier: str) -> None:
        with self._lock:
            self.counts[kind, tier] += 1


def _record(worker: TierWorker, prompt: Prompt, index: int) -> Record:
    names = hash_blocks(prompt.token_ids[: (index + 1) * BLOCK_SIZE], BLOCK_SIZE, prompt.tenant, prompt.adapter)
    return Record(names[index], demanded_blocks(worker.made, prompt)[index], worker.layout)


def _popped(waiting: deque[Any]) -> Any:
    try:
        return waiting.popleft()
    except IndexError:
        return None
