"""Leases of either kind have one holder at a time, under growing fences, by the clock of whoever looks."""

from collections.abc import Callable

import pytest
from google.protobuf.message import Message

from headrace.bus.bus import BATCHES, LEASES, Store, StoreAway
from headrace.bus.lease import Lease, LeaseKind, LeaseTable
from headrace.bus.memory_bus import MemoryBus
from headrace.v1.events_pb2 import BatchHeld, LeaseHeld

pytestmark = pytest.mark.anyio
EXPIRY = 2.0
KINDS = [
    LeaseKind(LEASES, LeaseHeld, "scheduler_id", "model", lambda name: f"key.{name}"),
    LeaseKind(BATCHES, BatchHeld, "gateway", "batch_id"),
]


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 7.0

    def __call__(self) -> float:
        return self.now


class SlowBus(MemoryBus):
    """Store whose writes take time, and which may lose the answer to one."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.write_seconds = 0.0
        self.loses_answer = False

    async def swap(self, key: str, message: Message, revision: int, store: Store = LEASES) -> int | None:
        written = await super().swap(key, message, revision, store)
        self._clock.now += self.write_seconds
        if self.loses_answer:
            raise StoreAway("the answer was lost")
        return written


class Two:
    """Two holders on one bus, each with a clock that began elsewhere."""

    def __init__(self, kind: LeaseKind) -> None:
        self.kind = kind
        self._clocks = Clock(), Clock()
        self._clocks[1].now = 5e6
        self.bus = SlowBus(self._clocks[0])
        self.one, self.other = (
            LeaseTable(self.bus, kind, name, EXPIRY, clock)
            for name, clock in zip(("one", "other"), self._clocks, strict=True)
        )

    def wait(self, seconds: float) -> None:
        for clock in self._clocks:
            clock.now += seconds


@pytest.fixture(params=KINDS, ids=lambda kind: kind.store.bucket)
def two(request: pytest.FixtureRequest) -> Two:
    return Two(request.param)


def no_fence() -> int:
    return 0


def never() -> int:
    raise AssertionError("the fence was asked for before the lease was free")


async def claimed(table: LeaseTable, known_fence: Callable[[], int] = no_fence) -> Lease:
    lease = await table.claim("n", known_fence)
    assert lease is not None
    return lease


async def test_a_lease_is_one_entry_of_its_kind(two: Two) -> None:
    lease = await claimed(two.one)
    found = await two.bus.read(two.kind.to_key("n"), two.kind.message_type, two.kind.store)
    assert found is not None
    assert found.message == two.kind.message_type(
        **{two.kind.holder_field: "one", two.kind.name_field: "n", "fence": 1}
    )
    assert (lease.holder, lease.fence, lease.revision, lease.is_written) == ("one", 1, found.revision, True)


async def test_the_second_is_told_who_holds_it(two: Two) -> None:
    await claimed(two.one)
    lease = await claimed(two.other, never)
    assert (lease.holder, lease.fence, lease.is_written) == ("one", 1, False)
    assert (two.one.is_safe("n"), two.other.is_safe("n")) == (True, False)


async def test_of_two_who_claim_at_once_one_succeeds(two: Two) -> None:
    """The second writes between the first one's look and its write."""
    await two.one.look("n")
    assert await two.other.write("n", 1, 0)
    assert not await two.one.write("n", 1, 0)

    class Overtaken(LeaseTable):
        async def look(self, name: str) -> Lease:
            lease = await super().look(name)
            await two.other.renew("n")
            return lease

    two.wait(EXPIRY)
    late = Overtaken(two.bus, two.kind, "late", 0.0)
    assert await late.claim("n", no_fence) is None


async def test_an_entry_counts_as_silent_from_when_its_revision_was_first_seen(two: Two) -> None:
    await claimed(two.one)
    two.wait(100 * EXPIRY)
    assert (await claimed(two.other)).holder == "one"
    two.wait(EXPIRY - 0.5)
    assert (await claimed(two.other)).holder == "one"
    two.wait(0.5)
    assert await claimed(two.other) == Lease("other", 2, 2, 5e6 + 101 * EXPIRY, is_written=True)


async def test_a_renewal_begins_the_wait_again_under_the_same_fence(two: Two) -> None:
    await claimed(two.one)
    for _ in range(3):
        assert (await two.other.look("n")).holder == "one"
        two.wait(EXPIRY - 0.5)
        assert await two.one.renew("n")
    assert two.one.known["n"].fence == 1
    assert (await claimed(two.other)).holder == "one"


async def test_who_was_taken_over_cannot_renew_and_sees_who_did_it(two: Two) -> None:
    await claimed(two.one)
    await two.other.look("n")
    two.wait(EXPIRY)
    await claimed(two.other)
    assert not await two.one.renew("n")
    assert two.one.known["n"].holder == "one"
    assert (await two.one.read("n")).holder == "other"
    assert two.one.known["n"].holder == "one"
    assert (await two.one.look("n")).holder == two.one.known["n"].holder == "other"


async def test_nobody_is_sure_of_a_lease_that_another_may_have_taken_over(two: Two) -> None:
    """Counted from before the write, which others may have seen before its answer came."""
    two.bus.write_seconds = EXPIRY / 2
    await claimed(two.one)
    assert two.one.is_safe("n")
    two.wait(EXPIRY / 2)
    assert not two.one.is_safe("n")


async def test_a_claim_whose_answer_was_lost_is_not_relied_on_and_is_claimed_again(two: Two) -> None:
    two.bus.loses_answer = True
    with pytest.raises(StoreAway):
        await claimed(two.one)
    two.bus.loses_answer = False
    assert (await two.one.look("n")).holder == "one"
    assert not two.one.is_safe("n")
    assert (await claimed(two.one)).fence == 2
    assert two.one.is_safe("n")


async def test_fences_grow_beyond_all_that_is_known(two: Two) -> None:
    assert (await claimed(two.one, lambda: 6)).fence == 7
    await two.one.release("n")
    assert (await claimed(two.other, lambda: 3)).fence == 8
    two.bus._swapped.clear()
    assert (await claimed(two.one, lambda: 8)).fence == 9


async def test_a_lease_that_was_released_is_free_at_once(two: Two) -> None:
    await claimed(two.one)
    await two.other.look("n")
    await two.one.release("n")
    assert not two.one.is_safe("n")
    assert (await claimed(two.other)).fence == 2


async def test_only_who_wrote_a_lease_releases_it(two: Two) -> None:
    await claimed(two.one)
    await two.other.look("n")
    await two.other.release("n")
    assert "n" not in two.other.known
    assert await two.one.renew("n")


async def test_a_lease_that_the_store_lost_is_free_and_known_as_absent(two: Two) -> None:
    await claimed(two.one)
    two.bus._swapped.clear()
    assert not await two.one.renew("n")
    assert await two.one.look("n") == Lease()
    assert await two.one.write("n", 1, 0)


async def test_an_entry_that_cannot_be_read_is_free_once_it_is_silent(two: Two) -> None:
    await two.bus.swap(two.kind.to_key("n"), two.kind.message_type(), 0, two.kind.store)
    assert (await claimed(two.one, never)).holder == ""
    two.wait(EXPIRY)
    assert (await claimed(two.one)).fence == 1


async def test_without_a_store_every_question_to_it_raises_and_nothing_is_forgotten(two: Two) -> None:
    lease = await claimed(two.one)
    two.bus.disconnect()
    for asks in (lambda: two.one.claim("n", no_fence), lambda: two.one.renew("n"), lambda: two.one.look("n")):
        with pytest.raises(StoreAway):
            await asks()
    assert two.one.known == {"n": lease}
