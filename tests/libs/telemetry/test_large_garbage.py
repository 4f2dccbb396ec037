"""Circles that a large request leaves are collected soon; small ones wait for the collector."""

import asyncio
import gc
import weakref

import pytest

from headrace.telemetry.large_garbage import LARGE_BYTES, collect_soon

pytestmark = pytest.mark.anyio


class Circle:
    def __init__(self) -> None:
        self.itself = self


@pytest.mark.parametrize(("size", "is_collected"), [(LARGE_BYTES, True), (LARGE_BYTES - 1, False)])
async def test_only_large_requests_are_followed_by_a_collection(size: int, is_collected: bool) -> None:
    gc.disable()
    try:
        left = weakref.ref(Circle())
        collect_soon(size)
        await asyncio.sleep(0.2)
        assert (left() is None) is is_collected
    finally:
        gc.enable()
