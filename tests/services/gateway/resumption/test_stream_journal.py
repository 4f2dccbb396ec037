"""A journal holds a beginning of the stream at any time, whatever caches forget."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cache.stream_journals import StreamJournals
from headrace.domain.deadline import Deadline
from headrace.domain.ids import RequestId
from headrace.errors import InvalidRequest, Unavailable
from headrace.gateway.access.account import Account
from headrace.gateway.access.tenant import PUBLIC
from headrace.gateway.request.answer_name import AnswerName
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.resumption.charge import Charge
from headrace.gateway.resumption.event_id import EventId
from headrace.gateway.resumption.stream_journal import MAX_REWRITES, MAX_TOKEN_BYTES, StreamJournal
from headrace.gateway.resumption.streamed_request import StreamedRequest
from headrace.gateway.resumption.translation import to_known, to_streamed_request
from headrace.v1.generation_pb2 import FINISH_REASON_LENGTH, TokenLogprob
from headrace.v1.worker_pb2 import TokenDelta

TENANT = PUBLIC.name
REQUEST = StreamedRequest("k", "/v1/x", b"{}", {"x-headrace-class": "batch"}, "m", AnswerName("a", 12.0), 7, 100.0)


def envelope(account: Account | None = None) -> Envelope:
    given = Account() if account is None else account
    return Envelope(RequestId("r"), 0.0, Deadline.after(5), PUBLIC, "", use_cache=False, account=given)


def journal(account: Account | None = None, **given: Any) -> StreamJournal:
    return StreamJournal("s", REQUEST, envelope(account), **given)


def delta(first: int, count: int, finish: int = 0) -> TokenDelta:
    ids = list(range(first, first + count))
    return TokenDelta(
        first_index=first,
        token_ids=ids,
        logprobs=[TokenLogprob() for _ in ids],
        cached_token_count=3 if first == 0 else 0,
        finish_reason=finish,  # type: ignore[arg-type]
    )


def write(made: StreamJournal, caches: StreamJournals) -> bool:
    """Writes what is due. Returns whether to go on."""
    part = made.next_part()
    if caches.keep([part], 60).unknown:
        return made.note_forgotten()
    made.note_written(part)
    return True


STEPS = st.lists(st.one_of(st.integers(0, 4), st.sampled_from(["write", "forget", "repeat"])), max_size=30)


@given(STEPS)
def test_caches_hold_a_beginning_of_the_stream(steps: list[Any]) -> None:
    made, caches, count = journal(), StreamJournals(2**20), 0
    forgotten = 0
    for step in steps:
        if step == "write":
            write(made, caches)
        elif step == "forget" and forgotten < MAX_REWRITES - 1:
            forgotten += 1
            caches = StreamJournals(2**20)
        elif step == "repeat":
            made.note(delta(0, count))
        elif isinstance(step, int):
            made.note(delta(count, step))
            count += step
        if (found := caches.find(TENANT, "s")) is not None:
            known = to_known(found.parts)
            assert list(known.token_ids) == list(range(len(known.token_ids)))
            assert len(known.token_ids) <= count
    made.note(delta(count, 1, FINISH_REASON_LENGTH))
    with made:
        pass
    while made.is_due:
        assert write(made, caches)
    assert made.is_over
    found = caches.find(TENANT, "s")
    assert found is not None
    known = to_known(found.parts)
    assert list(known.token_ids) == list(range(count + 1))
    assert (known.finish_reason, len(known.logprobs)) == (FINISH_REASON_LENGTH, count + 1)
    read = to_streamed_request(found.record, 0.0)
    assert read == replace(made.request, expires=read.expires)


def test_an_end_that_comes_during_a_write_is_written_too() -> None:
    made, caches = journal(), StreamJournals(2**20)
    made.note(delta(0, 2))
    part = made.next_part()
    made.note(delta(2, 0, FINISH_REASON_LENGTH))
    with made:
        pass
    caches.keep([part], 60)
    made.note_written(part)
    assert made.is_due
    write(made, caches)
    assert made.is_over
    found = caches.find(TENANT, "s")
    assert found is not None
    assert to_known(found.parts).finish_reason == FINISH_REASON_LENGTH


@pytest.mark.anyio
async def test_what_a_request_has_paid_is_in_its_record() -> None:
    account = Account()
    await account.reserve(5, 9)
    account.add(2)
    made = journal(account, known=delta(0, 1))
    with pytest.raises(KeyError), made:
        raise KeyError
    assert made.paid == Charge(5, 2)
    unserved = journal(Account())
    with pytest.raises(Unavailable), unserved:
        raise Unavailable
    assert unserved.paid == Charge()


def test_a_newer_request_ends_an_older_one() -> None:
    made, newer = journal(), journal()
    made.note(delta(0, 1))
    newer.take_over(made)
    with pytest.raises(InvalidRequest, match="a newer request"):
        made.note(delta(1, 1))
    newer.note(delta(0, 1))


def test_tokens_beyond_the_limit_are_not_kept_and_a_first_part_beyond_it_is_none() -> None:
    made, caches = journal(), StreamJournals(2**26)
    large = TokenDelta(token_ids=[2**31 - 1] * (MAX_TOKEN_BYTES // 5 + 1))
    made.note(large)
    write(made, caches)
    found = caches.find(TENANT, "s")
    assert found is not None
    assert found.parts == ()
    assert not made.is_due
    other = journal()
    other.note(delta(0, 4))
    write(other, caches)
    other.note(TokenDelta(first_index=4, token_ids=large.token_ids))
    write(other, caches)
    other.note(TokenDelta(first_index=4 + len(large.token_ids), token_ids=[1]))
    assert not other.is_due


@pytest.mark.parametrize(("end", "is_possible"), [(4, True), (9, True), (10, False)])
def test_a_place_beyond_all_tokens_is_refused_at_once(end: int, is_possible: bool) -> None:
    made = journal(known=delta(0, 4), after=EventId(0, end, 0))
    if is_possible:
        made.check_place(9)
        return
    with pytest.raises(InvalidRequest):
        made.check_place(9)


def test_a_place_beyond_the_end_of_a_finished_stream_is_refused_at_once() -> None:
    with pytest.raises(InvalidRequest):
        journal(known=delta(0, 4, FINISH_REASON_LENGTH), after=EventId(4, 5, 0)).check_place(9)
