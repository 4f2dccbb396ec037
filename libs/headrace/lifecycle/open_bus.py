"""Opens the bus of a service from its settings."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from headrace.bus.bus import Bus
from headrace.bus.nats_bus import NatsBus
from headrace.lifecycle.security import identity_of, nats_token_of
from headrace.lifecycle.settings import ServiceSettings
from headrace.security.nats_login import NatsLogin


class ConnectingBus(Bus, Protocol):
    """A Bus that a service opens, starts once it has subscribed, and closes."""

    def start(self) -> "asyncio.Task[None]":
        """Begins to connect. Returns at once, with the task that does it."""


OpenBus = Callable[[ServiceSettings], ConnectingBus]


def open_nats(settings: ServiceSettings) -> ConnectingBus:
    """Returns the bus of a service that runs as a separate process: the NATS server of its settings."""
    identity = identity_of(settings)
    if identity is not None:
        return NatsBus(settings.nats_url, settings.service_id, NatsLogin(identity), replicas=settings.nats_replicas)
    token = nats_token_of(settings)
    return NatsBus(settings.nats_url, settings.service_id, token=token, replicas=settings.nats_replicas)
