"""Journals of streams grow in order, live for a while, and never take more room than they may."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headrace.cache.stream_journals import ENTRY_BYTES, MAX_SHARE, StreamJournals
from headrace.domain.stream_part import StreamPart

LIFE = 60.0


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def part(stream: str = "a", first: int = 0, count: int = 0, record: bytes = b"", tenant: str = "t") -> StreamPart:
    tokens = b"".join(number.to_bytes(2, "big") for number in range(first, first + count))
    return StreamPart(tenant, stream, record, first, count, tokens)


def test_a_journal_grows_in_order_and_belongs_to_one_tenant() -> None:
    journals = StreamJournals(2**20)
    assert not journals.keep([part(record=b"record", count=2), part(first=2, count=3)], LIFE).unknown
    found = journals.find("t", "a")
    assert found is not None
    assert found.record == b"record"
    assert b"".join(found.parts) == part(count=5).tokens
    assert journals.find("other", "a") is None
    assert journals.find("t", "b") is None


def test_a_part_that_does_not_follow_is_unknown_and_a_whole_journal_replaces_what_is_kept() -> None:
    journals = StreamJournals(2**20)
    assert journals.keep([part(first=2, count=3)], LIFE).unknown == {"a"}
    assert journals.keep([part(count=3)], LIFE).unknown == {"a"}
    journals.keep([part(record=b"r", count=3)], LIFE)
    assert journals.keep([part(first=4, count=1)], LIFE).unknown == {"a"}
    journals.keep([part(record=b"s", count=9)], LIFE)
    found = journals.find("t", "a")
    assert found is not None
    assert (found.record, len(found.parts)) == (b"s", 1)


def test_a_new_record_keeps_the_tokens() -> None:
    journals = StreamJournals(2**20)
    journals.keep([part(record=b"r", count=3)], LIFE)
    journals.keep([part(record=b"charged", first=3)], LIFE)
    found = journals.find("t", "a")
    assert found is not None
    assert (found.record, found.parts) == (b"charged", (part(count=3).tokens,))


def test_a_journal_is_gone_after_its_time_and_each_write_prolongs_it() -> None:
    clock = Clock()
    journals = StreamJournals(2**20, clock)
    journals.keep([part(record=b"r"), part("b", record=b"r")], LIFE)
    clock.now += LIFE - 1
    journals.keep([part()], LIFE)
    clock.now += 2
    assert journals.find("t", "a") is not None
    assert journals.find("t", "b") is None
    journals.sweep()
    assert len(journals) == 1
    clock.now += LIFE
    assert journals.keep([part(first=0, count=1)], LIFE).unknown == {"a"}


def test_a_record_grows_older_until_the_next() -> None:
    clock = Clock()
    journals = StreamJournals(2**20, clock)
    journals.keep([part(record=b"first", count=1)], LIFE)
    clock.now += 5
    journals.keep([part(first=1, count=1)], LIFE)
    found = journals.find("t", "a")
    assert found is not None
    assert found.record_age == 5
    journals.keep([part(first=2, record=b"second")], LIFE)
    clock.now += 2
    found = journals.find("t", "a")
    assert found is not None
    assert (found.record, found.record_age) == (b"second", 2)


def test_one_that_is_too_large_is_refused_and_gone() -> None:
    journals = StreamJournals(MAX_SHARE * 1024)
    kept = journals.keep([part(record=bytes(1025 - ENTRY_BYTES)), part("b", record=bytes(1024 - ENTRY_BYTES))], LIFE)
    assert kept.refused == {"a"}
    assert journals.find("t", "a") is None
    assert journals.find("t", "b") is not None


def test_the_oldest_go_first() -> None:
    journals = StreamJournals(MAX_SHARE * 1024)
    for name in range(MAX_SHARE):
        journals.keep([part(str(name), record=bytes(1000 - ENTRY_BYTES))], LIFE)
    journals.keep([part("0")], LIFE)
    journals.keep([part("new", record=bytes(1000 - ENTRY_BYTES))], LIFE)
    assert journals.find("t", "1") is None
    assert journals.find("t", "0") is not None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 9), st.binary(max_size=40))))
def test_the_bytes_are_counted_right_whatever_is_written(writes: list[tuple[str, int, int, bytes]]) -> None:
    clock = Clock()
    journals = StreamJournals(4096, clock)
    for stream, first, count, record in writes:
        journals.keep([replace(part(stream, first, count), record=record)], LIFE)
        clock.now += 10
        kept = [entry for stream in "abc" if (entry := journals._entries.get(("t", stream))) is not None]
        sizes = [ENTRY_BYTES + len(entry.record) + sum(map(len, entry.parts)) for entry in kept]
        assert [entry.size for entry in kept] == sizes
        assert journals._size == sum(sizes) <= 4096
