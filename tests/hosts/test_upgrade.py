"""A platform of an earlier release becomes one of this release under load, and the other way round: both run mixed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hosts.acts.upgrade import ORDER, upgrade
from tests.hosts.conftest import HostTheatre
from tests.hosts.fleet_plan import FleetOptions
from tests.hosts.release import Release, former_release


@pytest.fixture(scope="module")
def former() -> Release:
    return former_release()


@pytest.fixture(scope="module")
def aged_theatre(root: Path, former: Release) -> Iterator[HostTheatre]:
    """A platform that begins with the earlier release."""
    theatre = HostTheatre(root, FleetOptions(one_nats=True, release=former))
    yield theatre
    theatre.close()


@pytest.mark.timeout(900)
def test_an_upgrade_costs_no_request(aged_theatre: HostTheatre) -> None:
    verdict = aged_theatre.act_out(upgrade(Release(), "upgrade of everything, workers first"))
    assert verdict.broken == [], verdict.seen.examples


@pytest.mark.timeout(600)
def test_a_way_back_costs_no_request(aged_theatre: HostTheatre, former: Release) -> None:
    verdict = aged_theatre.act_out(upgrade(former, "back to the release before, gateways first", ORDER[::-1]))
    assert verdict.broken == [], verdict.seen.examples
