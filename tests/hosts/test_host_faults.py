"""Requests go through faults of hosts and of the network between them: none fails, hangs, or says anything else."""

import pytest
from tests.faults.fault import Fault
from tests.hosts.acts import bad_network, hosts_lost, nats_lost
from tests.hosts.conftest import HostTheatre

FAULTS = [*nats_lost.FAULTS, *hosts_lost.FAULTS, *bad_network.FAULTS]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name.replace(" ", "-") for fault in FAULTS])
def test_promises_hold_on_hosts(theatre: HostTheatre, fault: Fault) -> None:
    verdict = theatre.act_out(fault)
    assert verdict.broken == [], verdict.seen.examples
