"""A fault: what is done to which platform under which traffic, and what is promised all the same."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.faults.platforms import Platform, Shape


@dataclass(frozen=True)
class Promise:
    """Bounds that hold under one fault. Nothing hung, lost, doubled, other or leaked is promised under all."""

    failures: bool = False
    """Allows requests to end with a typed error or a broken connection."""
    recovery: float | None = 3.0
    """Most seconds until new requests work. None promises nothing."""
    stall: float | None = None
    """Most seconds of silence at the 99th percentile of streams that ran."""


@dataclass
class Scene:
    """The platform while a fault acts on it."""

    platform: Platform
    chance: random.Random
    marks: list[float] = field(default_factory=list)

    def mark(self) -> None:
        """Notes that something is done now: recovery and stalls count from here."""
        self.marks.append(time.monotonic())

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


Act = Callable[[Scene], Awaitable[None]]
"""Does something to the platform of a scene."""


@dataclass(frozen=True)
class Fault:
    """One row of the suite."""

    name: str
    shape: Shape
    act: Act
    promise: Promise = field(default_factory=Promise)
    pool: str = "mixed"
    clients: int = 16
    linger: float = 4.0
    """Seconds of traffic after the fault is over."""
