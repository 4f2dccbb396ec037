"""Every Pod of the platform is replaced under load, one after the other: no stream fails or says anything else."""

import json
from pathlib import Path

import pytest
from tests.images.platform import Platform
from tests.images.streaming_container import StreamingContainer

COUNT = 64
ROLES = ("worker", "scheduler", "tokenizer", "cache", "nats", "gateway")


@pytest.mark.timeout(900)
def test_a_rolling_restart_costs_no_stream(doubled_platform: Platform, root: Path) -> None:
    """A gateway leaves its Service first, and lets its streams end."""
    platform = doubled_platform
    stops: dict[str, float] = {}
    addresses = [each.address for each in platform.of("gateway")]
    image = platform.pod("gateway").spec["containers"][0]["image"]
    streams = StreamingContainer(image, addresses, COUNT)
    for role in ROLES:
        for pod in platform.of(role):
            streams.call([each for each in addresses if each != pod.address])
            stops[pod.name] = round(platform.replace(pod), 1)
            assert stops[pod.name] < pod.spec["terminationGracePeriodSeconds"], pod.name
            streams.call(addresses)
    found = streams.end()
    (root / "build/images/rolling.json").write_text(json.dumps(found | {"stops": stops}))
    assert found["counts"]["same"] >= COUNT, found
    assert found["faults"] == []
