"""Scrapes decide which endpoints are ready."""

import asyncio
from typing import Any

import pytest
from tests.services.scheduler.picker.gateway import A, B, Gateway

from headrace.errors import Unavailable
from headrace.scheduler.picker.choosing.pick_order import PickOrder
from headrace.scheduler.picker.endpoints.endpoint_list import EndpointList
from headrace.scheduler.picker.endpoints.scrapes import Scrapes

pytestmark = pytest.mark.anyio
IDLE = "vllm:num_requests_running 0\n"
FOREVER = 3600.0


class Pool:
    """Endpoints whose metrics are set. None: it does not answer."""

    def __init__(self, **settings: Any) -> None:
        self.picker = Gateway(**settings).picker
        self.metrics: dict[str, str | None] = {A: IDLE, B: IDLE}
        self.was_asked = asyncio.Event()
        self.scrapes = Scrapes(self.picker, EndpointList([A, B]), self._fetch, timeout=0.01)

    async def _fetch(self, address: str) -> str:
        self.was_asked.set()
        if (text := self.metrics[address]) is None:
            await asyncio.sleep(FOREVER)
        return text or ""

    async def round(self) -> frozenset[str]:
        """Scrapes every endpoint once, and returns the ready ones."""
        await asyncio.gather(*map(self.scrapes.scrape, list(self.picker.addresses)))
        return self.picker.ready_addresses


@pytest.fixture
async def pool() -> Pool:
    made = Pool()
    await made.scrapes.refresh()
    return made


async def test_an_endpoint_is_ready_once_it_was_scraped(pool: Pool) -> None:
    assert pool.picker.ready_addresses == set()
    assert not pool.picker.synced.is_set()
    with pytest.raises(Unavailable):
        await pool.picker.pick(PickOrder())
    assert await pool.round() == {A, B}
    assert pool.picker.synced.is_set()
    assert (await pool.picker.pick(PickOrder())).endpoints == (A, B)


@pytest.mark.parametrize("text", [None, "", "vllm:num_requests_running NaN\n"])
async def test_one_whose_scrapes_fail_is_not_and_comes_back(pool: Pool, text: str | None) -> None:
    await pool.round()
    pool.metrics[A] = text
    assert await pool.round() == {A, B}
    assert await pool.round() == {B}
    assert (await pool.picker.pick(PickOrder())).endpoints == (B,)
    pool.metrics[A] = IDLE
    assert await pool.round() == {A, B}
    assert (await pool.picker.pick(PickOrder())).endpoints == (A, B)


async def test_all_are_known_even_if_none_answers(pool: Pool) -> None:
    pool.metrics = {A: None, B: None}
    assert await pool.round() == set()
    assert pool.picker.synced.is_set()


async def test_each_is_scraped_again_and_again_until_the_end(pool: Pool) -> None:
    pool.metrics[B] = None
    tasks = [
        asyncio.create_task(pool.scrapes.keep_scraping(0.001)),
        asyncio.create_task(pool.scrapes.keep_reading(0.001)),
    ]
    for _ in range(3):
        pool.was_asked.clear()
        await asyncio.wait_for(pool.was_asked.wait(), 10)
    assert pool.picker.ready_addresses == {A}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("scrape-")] == []
