"""Places that tenants share."""

import asyncio
import contextlib

import pytest

from headrace.gateway.batches.lines.fair_places import FairPlaces

pytestmark = pytest.mark.anyio


async def hold(places: FairPlaces, tenant: str, begun: list[str], end: asyncio.Event) -> None:
    async with places.place(tenant):
        begun.append(tenant)
        await end.wait()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_no_tenant_takes_all_and_the_one_with_fewest_is_next() -> None:
    places, begun, end = FairPlaces(8), list[str](), asyncio.Event()
    tasks = [asyncio.create_task(hold(places, "many", begun, end)) for _ in range(100)]
    await settle()
    assert begun == ["many"] * 6
    tasks += [asyncio.create_task(hold(places, "other", begun, end)) for _ in range(3)]
    await settle()
    assert begun[6:] == ["other"] * 2
    tasks[0].cancel()
    await settle()
    assert begun[8:] == ["other"]
    end.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(begun) == 103
    assert places._free == 8


async def test_whoever_stops_waiting_takes_no_place() -> None:
    places, begun, end = FairPlaces(1), list[str](), asyncio.Event()
    first = asyncio.create_task(hold(places, "a", begun, end))
    second = asyncio.create_task(hold(places, "a", begun, end))
    await settle()
    second.cancel()
    third = asyncio.create_task(hold(places, "b", begun, end))
    await settle()
    assert begun == ["a"]
    first.cancel()
    third.cancel()
    for task in (first, second, third):
        with contextlib.suppress(asyncio.CancelledError):
            await task
    async with asyncio.timeout(5), places.place("c"):
        assert places._free == 0
    assert places._free == 1
