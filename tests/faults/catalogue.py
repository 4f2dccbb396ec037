"""All faults, in the order in which they run."""

from tests.faults import chaos, clients, failing, network, signals
from tests.faults.fault import Fault


def all_faults(chaos_seconds: float) -> list[Fault]:
    """Lists all faults. Those of equal shapes stand together, so that they share a platform."""
    faults = [
        *signals.FAULTS,
        *failing.FAULTS,
        *clients.FAULTS,
        *network.FAULTS,
        *chaos.faults(chaos_seconds),
    ]
    shapes = list(dict.fromkeys(fault.shape for fault in faults))
    return sorted(faults, key=lambda fault: shapes.index(fault.shape))
