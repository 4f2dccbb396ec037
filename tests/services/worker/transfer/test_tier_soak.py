"""Every tier keeps to its bounds under traffic that is many times as much as it holds."""

import gc
from pathlib import Path

import pytest
from tests.harness.kv_tiers.conversations import made_arrivals, repeated, turns
from tests.harness.kv_tiers.soak_run import MIB, Soak, SoakSizes

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
SMALL = SoakSizes(block_bytes=1024, memory_blocks=256, disk_bytes=MIB // 2, store_bytes=2 * MIB)
MAX_GROWTH_MIB = 64.0


async def test_every_tier_keeps_to_its_bounds(tmp_path: Path) -> None:
    arrivals = made_arrivals(400, seed=3)
    soak = Soak(tmp_path, SMALL)
    try:
        await soak.run(turns(repeated(arrivals, 4 * arrivals[-1].time), seed=5))
    finally:
        await soak.close()
    report = soak.report
    assert report.request_count > 1500
    assert report.exceeded == {}
    assert report.wrong_count == 0
    assert min(report.given_way[tier] for tier in ("memory", "disk", "store")) > 0, report.given_way
    assert min(report.blocks[tier] for tier in ("memory", "disk", "worker", "store", "computed")) > 0, report.blocks
    gc.collect()
    assert report.warm_growth < MAX_GROWTH_MIB


async def test_a_tier_beyond_its_bound_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that frees nothing would be noticed."""
    monkeypatch.setattr("headrace.cache.shared_kv.lmdb_blocks.LmdbBlocks._make_room", _nothing)
    soak = Soak(tmp_path, SMALL)
    try:
        await soak.run(turns(iter(made_arrivals(300, seed=3)), seed=5))
    finally:
        await soak.close()
    assert "store, bytes in use" in soak.report.exceeded


async def _nothing(*_: object) -> None:
    return
