"""Faults of all kinds in all tiers at once: no block is another one, no request hangs, and no tier stays away.

With any of the checks taken out of the code, the same run reports it.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.harness.kv_tiers.fault_kinds import TIERS, Kind
from tests.harness.kv_tiers.fault_run import FaultSettings, run_faults

from headrace.cache.shared_kv import lmdb_blocks
from headrace.cache.shared_kv.lmdb_blocks import LmdbBlocks
from headrace.cache.shared_kv.lmdb_table import LmdbTable
from headrace.engine.kv import cached_blocks
from headrace.engine.kv.block_lease import BlockLease
from headrace.engine.kv.block_leases import BlockLeases
from headrace.engine.kv.block_pool import BlockPool
from headrace.engine.kv.cached_blocks import CachedBlocks
from headrace.kv import block_hash
from headrace.worker.transfer.block_packet import BlockPacket
from headrace.worker.transfer.fetching import block_fetcher
from headrace.worker.transfer.fetching.block_search import BlockSearch
from headrace.worker.transfer.fetching.block_source import BlockSource
from headrace.worker.transfer.keeping import cached_names
from headrace.worker.transfer.kept.kept_blocks import KeptBlocks
from headrace.worker.transfer.kept.slot_header import SlotHeader
from headrace.worker.transfer.stored.store_link import StoreLink

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
FAULTS = int(os.environ.get("HEADRACE_KV_FAULTS", "4000"))
MAX_PLANTED = 3000
"""Faults after which a planted one must have been seen."""
Patch = pytest.MonkeyPatch


async def test_no_fault_makes_another_block_or_hangs_a_request(tmp_path: Path) -> None:
    report = await run_faults(FaultSettings(FAULTS), tmp_path)
    assert report.is_sound, report
    assert report.counts.total() >= FAULTS
    lacking = [(kind, tier) for kind, tiers in TIERS.items() for tier in tiers if not report.counts[kind, tier]]
    assert lacking == []
    assert min(report.served[tier] for tier in ("memory", "disk", "worker", "store")) > 0, report.served
    assert len(report.ends) == len(+report.ends), report.ends


def ignore_checksum(patch: Patch) -> None:
    patch.setattr(SlotHeader, "fits", lambda self, name, _content, _layout: self.name == name)


def ignore_name(patch: Patch) -> None:
    def fits(self: SlotHeader, _name: bytes, content: bytes, layout: bytes) -> bool:
        return self == SlotHeader.of(self.name, content, layout)

    patch.setattr(SlotHeader, "fits", fits)


def make_headers(patch: Patch, covered: Callable[[bytes, bytes], tuple[bytes, bytes]]) -> None:
    """Lets checksums cover a part of the content, or another layout."""

    def make(name: bytes, content: bytes, layout: bytes) -> SlotHeader:
        content, layout = covered(content, layout)
        return real(name, content, layout)

    real = SlotHeader.of
    patch.setattr(SlotHeader, "of", make)


def check_half(patch: Patch) -> None:
    make_headers(patch, lambda content, layout: (content[: len(content) // 2], layout))


def share_checksums(patch: Patch) -> None:
    make_headers(patch, lambda content, _layout: (content, b"any"))


def trust_packets(patch: Patch) -> None:
    patch.setattr(BlockPacket, "is_intact", lambda self, hashes: len(self.contents) == len(hashes))


def import_any_size(patch: Patch) -> None:
    def import_blocks(self: CachedBlocks, hashes: Sequence[bytes], contents: Sequence[bytes]) -> BlockLease:
        lease, added = self._leases.fill(hashes)
        self._store.write([lease.blocks[index] for index in added], [contents[index] for index in added])
        return lease

    patch.setattr(CachedBlocks, "import_blocks", import_blocks)


def trust_leases(patch: Patch) -> None:
    patch.setattr(BlockLeases, "is_sound", lambda _self, _lease: True)


def keep_names_of_reused_blocks(patch: Patch) -> None:
    patch.setattr(BlockPool, "_forget", lambda _self, _block: None)


def share_among_tenants(patch: Patch) -> None:
    real = block_hash.root_hash

    def root_hash(_salt: str, adapter: str = "") -> bytes:
        return real("", adapter)

    for module in (block_hash, cached_names):
        patch.setattr(module, "root_hash", root_hash)


def share_among_adapters(patch: Patch) -> None:
    real = block_hash.root_hash

    def root_hash(salt: str, _adapter: str = "") -> bytes:
        return real(salt)

    for module in (block_hash, cached_names):
        patch.setattr(module, "root_hash", root_hash)


def forget_fingerprint(patch: Patch) -> None:
    digest = cached_blocks._digest
    patch.setattr(
        cached_blocks, "_digest", lambda spec, kind, store: digest(replace(spec, fingerprint=""), kind, store)
    )


def forget_number_format(patch: Patch) -> None:
    @dataclass
    class AnyNumbers:
        layout: str = ""

    digest: Any = cached_blocks._digest
    patch.setattr(cached_blocks, "_digest", lambda spec, kind, _store: digest(spec, kind, AnyNumbers()))


def end_transfers_that_fail(patch: Patch) -> None:
    async def ask(source: BlockSource, search: BlockSearch) -> None:
        try:
            await source.find(search)
        except Exception:  # noqa: BLE001 - as careless as the fault is
            raise asyncio.CancelledError from None

    patch.setattr(block_fetcher, "_ask", ask)


def wait_for_the_store(patch: Patch) -> None:
    async def wait(_self: StoreLink, packets: AsyncGenerator[list[bytes], None], *_: Any) -> list[bytes] | None:
        return await anext(packets, None)

    patch.setattr(StoreLink, "_next", wait)


def lose_slots(patch: Patch) -> None:
    def put(self: KeptBlocks, name: bytes, content: bytes) -> None:
        with self._lock:
            if name in self._slots or not (self._free or self._slots):
                return
            slot = self._free.pop() if self._free else self._slots.popitem(last=False)[1]
            try:
                self._file.write(slot, SlotHeader.of(name, content, self._layout), content)
            except OSError:
                return
            self._slots[name] = slot

    patch.setattr(KeptBlocks, "put", put)


def rest_for_ever(patch: Patch) -> None:
    async def write(self: LmdbBlocks, records: dict[bytes, bytes], size: int, seconds: float) -> int:
        count = await real(self, records, size, seconds)
        if not count:
            self._resting_until = float("inf")
        return count

    real = lmdb_blocks.LmdbBlocks._write
    patch.setattr(LmdbBlocks, "_write", write)


def remember_lost_records(patch: Patch) -> None:
    orders: list[Any] = []

    def begin(self: LmdbBlocks, table: LmdbTable, max_bytes: int) -> None:
        real(self, table, max_bytes)
        orders.append(self._order)
        self._order = orders[0]

    real = LmdbBlocks.__init__
    patch.setattr(LmdbBlocks, "__init__", begin)


@dataclass(frozen=True)
class Planted:
    """Check that is taken out of the code, the kind of faults that it stops, and what a run without it reports."""

    kind: Kind
    plant: Callable[[Patch], None]
    seen: str = "wrong_count"
    count: int = MAX_PLANTED
    lost: str = ""
    """Tier that does not serve afterwards."""


PLANTED = (
    Planted(Kind.FLIP, ignore_checksum),
    Planted(Kind.FLIP, trust_packets),
    Planted(Kind.TORN, check_half),
    Planted(Kind.CUT, import_any_size),
    Planted(Kind.STALE, ignore_name),
    Planted(Kind.STALE, trust_leases),
    Planted(Kind.STALE, keep_names_of_reused_blocks),
    Planted(Kind.TENANT, share_among_tenants),
    Planted(Kind.TENANT, ignore_name),
    Planted(Kind.ADAPTER, share_among_adapters),
    Planted(Kind.ADAPTER, trust_packets),
    Planted(Kind.WEIGHTS, forget_fingerprint),
    Planted(Kind.WEIGHTS, forget_number_format),
    Planted(Kind.WEIGHTS, share_checksums),
    Planted(Kind.DEAD, end_transfers_that_fail, "hung_count"),
    Planted(Kind.SLOW, wait_for_the_store, "hung_count"),
    Planted(Kind.FULL, lose_slots, "lost_tiers", 1500, "disk, written"),
    Planted(Kind.FULL, rest_for_ever, "lost_tiers", 100, "store, written"),
    Planted(Kind.EMPTY, remember_lost_records, "lost_tiers", 3, "store, written after it was emptied"),
)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: f"{planted.kind}, {planted.plant.__name__}")
async def test_each_kind_planted_in_the_code_is_seen(planted: Planted, tmp_path: Path, monkeypatch: Patch) -> None:
    planted.plant(monkeypatch)
    settings = FaultSettings(
        planted.count,
        kinds=(planted.kind,),
        hang_seconds=1.0 if planted.seen == "hung_count" else 20.0,
        slow_seconds=(5.0, 5.0),
        restart_share=0.0,
        ends_early=True,
        recovery_seconds=0.5,
    )
    report = await run_faults(settings, tmp_path)
    assert getattr(report, planted.seen), report
    assert not planted.lost or planted.lost in report.lost_tiers, report


def test_each_kind_is_planted() -> None:
    assert {planted.kind for planted in PLANTED} == set(Kind)
