"""Ten seconds of mixed traffic leaves nothing behind. `make soak` soaks for an hour, and measures growth."""

import asyncio

import pytest
from tests.soak.footprint import Footprint, growth_per_hour, restarted, second_half
from tests.soak.run import soak

pytestmark = pytest.mark.slow
WARM_SECONDS = 6.0
SECONDS = 10.0
SPARE_DESCRIPTORS = 2
"""A connection between services may just be opened again."""
BURSTING = ("worker", "nats")
"""Processes whose memory so short a time says nothing of: KV blocks used for the first time, Go's garbage collector."""
MAX_GROWTH_MIB = 8.0
"""Most growth between rest before and rest after. A leak of 15 kilobytes a request is more, and `make soak`, which
holds a smaller bound, has three hundred times as long."""


def test_traffic_leaves_nothing_behind() -> None:
    seen = asyncio.run(soak(SECONDS, WARM_SECONDS, sample_seconds=5.0))
    assert set(seen.outcomes) == {"ok"}
    assert seen.held == {}
    assert restarted(seen.samples) == []
    for name, before in seen.before.items():
        after = seen.after[name]
        assert after.descriptors <= before.descriptors + SPARE_DESCRIPTORS, name
        if not name.startswith(BURSTING):
            assert after.own_mib - before.own_mib < MAX_GROWTH_MIB, name


def test_growth_is_a_slope_and_a_restart_is_seen() -> None:
    samples = [Footprint(float(second), 1, 50 + second / 600, 9) for second in range(0, 600, 10)]
    assert growth_per_hour(samples) == pytest.approx(6.0)
    full = [Footprint(float(second), 1, 50 + min(second, 300) / 600, 9) for second in range(0, 600, 10)]
    assert growth_per_hour(full) > 1
    assert growth_per_hour(second_half(full)) == pytest.approx(0.0)
    assert restarted({"a": samples, "b": [*samples, Footprint(600.0, 2, 50, 9)]}) == ["b"]
