"""A part of the fault suite: what must hold on a busy machine too. `make faults` runs all of it, and looks at times."""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.faults.catalogue import all_faults
from tests.faults.fault import Fault
from tests.faults.report import Verdict
from tests.faults.runner import Stage, platform_of

pytestmark = [pytest.mark.slow]
SEED = 1
PATIENT_SECONDS = 20.0
"""Far more than the platform promises: other tests run beside this one."""
PLAYED = [
    "scheduler and NATS killed",
    "engine raises",
    "events of workers out of order",
    "clients go away at every stage",
]
"""Single services, killed and stopped, are in test_kills and test_restarts."""
LINKED = [
    "NATS killed and empty",
    "gateway | worker-0 cut",
    "gateway < nats cut",
    "every connection reset",
]
LINGER_SECONDS = 1.0
CLIENT_COUNT = 4
"""Enough that each worker has several requests at any time."""
FAULTS = {fault.name: fault for fault in all_faults(chaos_seconds=0)}


class Theatre:
    """One platform for several faults, each with its own test."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._open = contextlib.AsyncExitStack()
        self._stage: Stage | None = None

    def act_out(self, fault: Fault) -> Verdict:
        """Runs the fault, on a fresh platform if the one before left something broken."""
        return self._runner.run(self._act_out(fault))

    def close(self) -> None:
        self._runner.run(self._open.aclose())
        self._runner.close()

    async def _act_out(self, fault: Fault) -> Verdict:
        if self._stage is None or self._stage.tired:
            await self._open.aclose()
            platform = await self._open.enter_async_context(platform_of(fault.shape))
            self._stage = Stage(fault.shape, platform, SEED)
        return Verdict(fault, await self._stage.run(fault))


@pytest.fixture(scope="module")
def played() -> Iterator[Theatre]:
    theatre = Theatre()
    yield theatre
    theatre.close()


@pytest.fixture(scope="module")
def linked() -> Iterator[Theatre]:
    theatre = Theatre()
    yield theatre
    theatre.close()


@pytest.mark.parametrize("name", PLAYED)
def test_promises_hold(played: Theatre, name: str) -> None:
    verdict = played.act_out(patient(FAULTS[name]))
    assert verdict.broken == [], verdict.seen.examples


@pytest.mark.parametrize("name", LINKED)
def test_promises_hold_over_a_bad_network(linked: Theatre, name: str) -> None:
    verdict = linked.act_out(patient(FAULTS[name]))
    assert verdict.broken == [], verdict.seen.examples


def patient(fault: Fault) -> Fault:
    """The fault with bounds that only something that hangs exceeds, and no longer than it takes."""
    promise = fault.promise
    times: dict[str, Any] = {
        name: PATIENT_SECONDS for name in ("recovery", "stall") if getattr(promise, name) is not None
    }
    return replace(
        fault, clients=min(fault.clients, CLIENT_COUNT), linger=LINGER_SECONDS, promise=replace(promise, **times)
    )
