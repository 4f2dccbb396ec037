"""The index is what the workers hold after one quiet period, whatever was lost, late, doubled or out of order."""

from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.cache import block_feed
from headrace.cache.block_feed import FORGET_SECONDS, BlockFeed
from headrace.cache.prefix_index import PrefixIndex
from headrace.cache.translation import to_block_change
from headrace.engine.contract.request import BlockEvents
from headrace.kv.block_change import BlockChange
from headrace.kv.held_prefix import HeldPrefix
from headrace.service_clients.block_list import BlockList
from headrace.worker.status.block_log import BlockLog
from headrace.worker.status.translation import to_blocks_changed, to_responses

A, B, C, D = (letter * 16 for letter in (b"a", b"b", b"c", b"d"))


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Cache:
    """An index and the feed that fills it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.index = PrefixIndex(1000)
        self.feed = BlockFeed(self.index, self.clock)

    def held(self, worker_id: str = "w") -> set[bytes]:
        return self.index.held(worker_id, "m")


def change(
    number: int,
    stored: Sequence[bytes] = (),
    removed: Sequence[bytes] = (),
    epoch: int = 5,
    worker_id: str = "w",
) -> BlockChange:
    return BlockChange(
        worker_id=worker_id,
        epoch=epoch,
        model="m",
        stored_block_hashes=stored,
        removed_block_hashes=removed,
        sequence_number=number,
        address="here",
    )


def sent(log: BlockLog) -> list[BlockChange]:
    """Takes the changes of a log as they arrive."""
    return [to_block_change(to_blocks_changed(taken)) for taken in log.take_changes("here")]


def block_list(number: int, *hashes: bytes, epoch: int = 5, worker_id: str = "w") -> BlockList:
    return BlockList(worker_id, epoch, "m", number, list(hashes))


def test_changes_in_order_need_no_list() -> None:
    cache = Cache()
    assert not cache.feed.hear(change(1, [A, B]))
    assert not cache.feed.hear(change(2, [C], [A]))
    assert not cache.feed.hear(change(2))
    assert cache.held() == {B, C}


def test_a_missed_change_is_noticed_and_the_list_heals_it() -> None:
    cache = Cache()
    cache.feed.hear(change(1, [A]))
    assert cache.feed.hear(change(3, [C]))
    assert cache.feed.misses("w")
    assert cache.held() == {A}
    assert cache.feed.restore("w", block_list(2, A, B))
    assert cache.held() == {A, B, C}
    assert not cache.feed.misses("w")


def test_a_quiet_worker_shows_that_its_last_change_was_missed() -> None:
    cache = Cache()
    cache.feed.hear(change(1, [A]))
    assert cache.feed.hear(change(2))


def test_a_cache_that_knows_nothing_asks_for_the_list() -> None:
    cache = Cache()
    assert cache.feed.hear(change(9))
    assert cache.feed.address("w") == "here"
    assert cache.feed.restore("w", block_list(9, A, B))
    assert cache.held() == {A, B}


def test_changes_that_were_overtaken_or_doubled_are_applied_once_and_in_order() -> None:
    cache = Cache()
    cache.feed.hear(change(1, [A]))
    assert cache.feed.hear(change(3, [], [B]))
    assert not cache.feed.hear(change(2, [B]))
    assert cache.held() == {A}
    assert not cache.feed.hear(change(2, [B]))
    assert cache.held() == {A}


def test_answers_that_are_old_or_of_somebody_else_are_ignored() -> None:
    cache = Cache()
    cache.feed.hear(change(1, [A]))
    cache.feed.hear(change(2, [B]))
    assert not cache.feed.restore("w", block_list(1, A))
    assert not cache.feed.restore("w", block_list(9, C, worker_id="other"))
    assert not cache.feed.restore("w", block_list(9, C, epoch=4))
    assert not cache.feed.restore("unknown", block_list(9, C))
    assert cache.held() == {A, B}


def test_a_new_life_begins_with_no_blocks() -> None:
    cache = Cache()
    cache.feed.hear(change(1, [A], epoch=5))
    assert not cache.feed.hear(change(1, [B], epoch=6))
    assert cache.held() == {B}
    assert cache.feed.hear(change(4, epoch=7))
    assert cache.held() == set()


def test_a_smaller_epoch_counts_once_the_worker_itself_says_so() -> None:
    """A late message of an older epoch changes nothing. A worker whose clock was set back is heard all the same."""
    cache = Cache()
    cache.feed.hear(change(1, [A], epoch=5))
    assert cache.feed.hear(change(1, [B], epoch=3))
    assert cache.held() == {A}
    assert cache.feed.restore("w", block_list(1, A, epoch=5))
    assert not cache.feed.misses("w")
    assert cache.feed.hear(change(2, [C], epoch=3))
    assert cache.feed.restore("w", block_list(2, B, C, epoch=3))
    assert cache.held() == {B, C}
    assert not cache.feed.hear(change(3, [D], epoch=3))
    assert cache.held() == {B, C, D}


def test_a_challenge_without_an_answer_is_given_up() -> None:
    cache = Cache()
    cache.feed.hear(change(1, [A], epoch=5))
    cache.feed.hear(change(1, [B], epoch=3))
    cache.feed.give_up("w")
    assert not cache.feed.misses("w")
    assert not cache.feed.restore("w", block_list(1, B, epoch=3))
    assert cache.held() == {A}


def test_what_a_worker_tells_after_its_farewell_is_not_wanted() -> None:
    cache = Cache()
    cache.feed.hear(change(1, [A]))
    cache.feed.depart("w", 4)
    assert cache.held() == {A}
    cache.feed.depart("w", 5)
    assert not cache.feed.hear(change(3, [B]))
    assert not cache.feed.restore("w", block_list(3, A, B))
    assert cache.held() == set()
    assert not cache.feed.hear(change(1, [C], epoch=6))
    assert cache.held() == {C}


def test_a_worker_that_is_silent_for_long_is_forgotten() -> None:
    cache = Cache()
    cache.feed.hear(change(1, [A]))
    cache.clock.now += FORGET_SECONDS + 1
    cache.feed.hear(change(1, [B], worker_id="other"))
    assert len(cache.feed) == 1
    assert cache.held() == set()
    assert cache.index.match("m", [B]) == {"other": HeldPrefix(1)}


def test_workers_and_waiting_changes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_feed, "MAX_WORKERS", 3)
    monkeypatch.setattr(block_feed, "MAX_WAITING_HASHES", 4)
    cache = Cache()
    for number in range(10):
        cache.feed.hear(change(1, [A], worker_id=f"w{number}"))
    assert len(cache.feed) == 3
    assert cache.index.match("m", [A]).keys() == {"w7", "w8", "w9"}
    for number in range(2, 20):
        assert cache.feed.hear(change(number, [bytes([number])]))
    # The last four wait; the list must contain those before.
    assert cache.feed.restore("w", block_list(14, A))
    assert cache.feed.misses("w")
    assert cache.feed.restore("w", block_list(15, A))
    assert cache.held() == {A, *(bytes([number]) for number in range(16, 20))}


class LossyLife(RuleBasedStateMachine):
    """A worker that changes and restarts, a bus that loses, delays, doubles and swaps, a cache that restarts."""

    blocks = st.lists(st.sampled_from([bytes([number]) * 16 for number in range(6)]), unique=True)

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache()
        self.epoch = 100
        self.life_count = 0
        self.under_way: list[BlockChange] = []
        self.answers: list[BlockList] = []
        self.start()

    def start(self) -> None:
        self.log = BlockLog("w", self.epoch, "m")
        self.truth: set[bytes] = set()

    @rule(wanted=blocks)
    def change(self, wanted: list[bytes]) -> None:
        removed, stored = self.truth - set(wanted), set(wanted) - self.truth
        self.log.collect(BlockEvents(stored=tuple(stored), removed=tuple(removed)))
        self.truth = set(wanted)

    @rule()
    def publish(self) -> None:
        self.under_way += sent(self.log)

    @rule(position=st.integers(0, 5), keeps=st.booleans())
    def deliver(self, position: int, keeps: bool) -> None:
        if position < len(self.under_way):
            self.cache.feed.hear(self.under_way[position] if keeps else self.under_way.pop(position))

    @rule(position=st.integers(0, 5))
    def lose(self, position: int) -> None:
        del self.under_way[position : position + 1]

    @rule()
    def ask(self) -> None:
        self.answers.append(BlockList.joined(list(to_responses(self.log.list_blocks()))))

    @rule(position=st.integers(0, 3))
    def answer(self, position: int) -> None:
        if position < len(self.answers):
            self.cache.feed.restore("w", self.answers.pop(position))

    @rule(clock_is_set_back=st.booleans())
    def restart_worker(self, clock_is_set_back: bool) -> None:
        self.life_count += 1
        self.epoch = 100 - self.life_count if clock_is_set_back else 100 + self.life_count
        self.start()

    @rule()
    def restart_cache(self) -> None:
        self.cache = Cache()

    @rule()
    def be_quiet(self) -> None:
        """The worker tells its latest number, and is asked if that shows that something was missed."""
        for told in sent(self.log):
            self.cache.feed.hear(told)
        if self.cache.feed.misses("w"):
            self.cache.feed.restore("w", BlockList.joined(list(to_responses(self.log.list_blocks()))))
        assert not self.cache.feed.misses("w")
        assert self.cache.held() == self.truth

    @invariant()
    def the_two_sides_of_the_index_agree(self) -> None:
        held = self.cache.held()
        assert len(held) == len(self.cache.index)
        assert all(self.cache.index.match("m", [block_hash]) == {"w": HeldPrefix(1)} for block_hash in held)

    def teardown(self) -> None:
        for told in self.under_way:
            self.cache.feed.hear(told)
        self.be_quiet()


LossyLife.TestCase.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
TestLossyLife = pytest.mark.slow(LossyLife.TestCase)
