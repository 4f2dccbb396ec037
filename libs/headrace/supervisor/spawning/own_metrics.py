"""Metrics of a forked service: its own, and none of the services that were imported for other forks."""

import contextlib
import sys

from prometheus_client import REGISTRY
from prometheus_client.metrics import MetricWrapperBase

from headrace.launch.roster import SERVICE_ROLES

_PACKAGES = tuple(f"headrace.{role}" for role in SERVICE_ROLES)


def keep_own_metrics(package: str) -> None:
    """Removes the metrics of all other services from the registry. A package that is no service keeps all."""
    if package not in _PACKAGES:
        return
    others = tuple(f"{other}." for other in _PACKAGES if other != package)
    for name, module in list(sys.modules.items()):
        if name.startswith(others):
            for value in vars(module).values():
                if isinstance(value, MetricWrapperBase):
                    # A module that imports a metric has it too.
                    with contextlib.suppress(KeyError):
                        REGISTRY.unregister(value)
