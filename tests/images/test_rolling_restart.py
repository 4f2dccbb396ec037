"""Every Pod of the platform is replaced under load, one after the other: no stream fails or says anything else."""

import json
from pathlib import Path

import pytest
from tests.images.platform import Platform
from tests.images.streams import Streams

COUNT = 64
ROLES = ("worker", "scheduler", "tokenizer", "cache", "nats", "gateway")


@pytest.mark.timeout(900)
def test_a_rolling_restart_costs_no_stream(doubled_platform: Platform, root: Path) -> None:
    """A gateway leaves its Service first, and lets its streams end."""
    platform = doubled_platform
    stops: dict[str, float] = {}
    addresses = [each.address for each in platform.of("gateway")]
    streams = Streams(addresses, COUNT)
    with streams.running():
        for role in ROLES:
            for pod in platform.of(role):
                streams.addresses = [each for each in addresses if each != pod.address]
                stops[pod.name] = round(platform.replace(pod), 1)
                assert stops[pod.name] < pod.spec["terminationGracePeriodSeconds"], pod.name
                streams.addresses = addresses
    (root / "build/images/rolling.json").write_text(json.dumps({"streams": streams.results, "stops": stops}))
    assert streams.results["same"] >= COUNT, streams.results
    assert streams.faults == [], (streams.results, streams.faults[:10])
