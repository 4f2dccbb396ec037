"""One gateway at a time runs a batch: until it gives it up, or has been silent for long enough."""

import pytest

from headrace.bus.bus import BATCHES, StoreAway
from headrace.bus.memory_bus import MemoryBus
from headrace.gateway.batches.batch_leases import EXPIRY_SECONDS, BatchLeases
from headrace.v1.events_pb2 import BatchHeld

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Two:
    """Two gateways on one bus, and their clock."""

    def __init__(self) -> None:
        self.bus, self.clock = MemoryBus(), Clock()
        self.one, self.other = (BatchLeases(self.bus, name, self.clock) for name in ("one", "other"))


async def test_a_batch_that_is_run_is_not_claimed() -> None:
    two = Two()
    assert await two.one.claim("b", 0) == 1
    assert await two.other.claim("b", 0) is None
    assert (two.one.holds("b"), two.other.holds("b")) == (True, False)


async def test_who_renews_keeps_it_and_who_is_silent_loses_it() -> None:
    two = Two()
    await two.one.claim("b", 0)
    for _ in range(3):
        two.clock.now += EXPIRY_SECONDS - 1
        assert await two.one.renew("b")
        assert await two.other.claim("b", 0) is None
    two.clock.now += EXPIRY_SECONDS
    assert not two.one.holds("b")
    assert await two.other.claim("b", 0) == 2
    assert not await two.one.renew("b")
    assert (two.one.holds("b"), two.other.holds("b")) == (False, True)


async def test_who_gives_it_up_makes_nobody_wait() -> None:
    two = Two()
    await two.one.claim("b", 0)
    await two.one.release("b")
    assert await two.other.claim("b", 7) == 8


async def test_a_store_that_lost_its_data_is_written_again() -> None:
    two = Two()
    await two.one.claim("b", 4)
    two.bus._swapped.clear()
    assert await two.one.renew("b")
    assert await two.other.claim("b", 0) is None


async def test_a_renewal_whose_answer_was_lost_is_written_again_at_once() -> None:
    two = Two()
    await two.one.claim("b", 4)
    lost = BatchHeld(gateway="one", batch_id="b", fence=5)
    assert await two.bus.swap("b", lost, 1, BATCHES) == 2
    two.clock.now += EXPIRY_SECONDS - 1
    assert await two.one.renew("b")
    found = await two.bus.read("b", BatchHeld, BATCHES)
    assert found is not None
    assert (found.message, found.revision) == (lost, 3)


async def test_without_a_store_nothing_is_claimed() -> None:
    two = Two()
    two.bus.disconnect()
    with pytest.raises(StoreAway):
        await two.one.claim("b", 0)
