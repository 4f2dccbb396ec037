"""Built service, as it is handed to `run`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.bus.bus import Bus
from headrace.domain.deadline import Deadline
from headrace.lifecycle.background import Background
from headrace.rpc.checks.request_limits import RequestLimits
from headrace.rpc.server import Bind


async def _nothing_to_drain(_deadline: Deadline) -> None:
    return


def _no_interest(_address: str) -> None:
    return


@dataclass(frozen=True, slots=True)
class Service:
    """Everything that serving a service takes."""

    kind: str
    """Kind of service: gateway, tokenizer, scheduler, cache or worker."""
    bus: Bus
    bind: Bind
    service_names: Sequence[str]
    """Full names of the gRPC services, for health and reflection."""
    epoch: int
    """Number of its incarnation: larger after every start."""
    model: str = ""
    """Model that it serves; empty but for workers."""
    members: Mapping[str, str] = field(default_factory=dict)
    """Services that are known by separate names, with the model of each, behind the one port. Empty: the process is one
    service, known by its own id."""
    is_public: bool = False
    """Whether it answers calls from outside, which come without the credential of the platform."""
    request_limits: RequestLimits | None = None
    """Limits of single requests, where strangers send them."""
    tls_files: tuple[Path, Path] | None = None
    """Certificate chain and key for callers from outside. None: they call in plain text."""
    found: asyncio.Event | None = None
    """Set once a caller has found it through the registry. None: callers are given its address."""
    over: asyncio.Event | None = None
    """Set once it has nothing to do any more: the process ends as after a stop signal. None: it never is."""
    on_listening: Callable[[str], None] = _no_interest
    """Called with the advertised address once it is known."""
    drain: Callable[[Deadline], Awaitable[None]] = _nothing_to_drain
    """Lets running work end. Called after the service left the registry and health went red."""
    background: Background = field(default_factory=Background)
    """Tasks of the service. One that fails ends the process; closed by the builder of the service."""
