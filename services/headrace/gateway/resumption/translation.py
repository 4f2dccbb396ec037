"""Converts what journals hold."""

import time
from collections.abc import Iterable, Iterator

from headrace.gateway.request.answer_name import AnswerName
from headrace.gateway.resumption.charge import Charge
from headrace.gateway.resumption.streamed_request import StreamedRequest
from headrace.v1.cache_pb2 import StreamRecord
from headrace.v1.worker_pb2 import TokenDelta


def to_record(request: StreamedRequest) -> bytes:
    """Writes a request. The time that it has left counts from now: clocks of two hosts may differ."""
    time_left = request.expires - time.monotonic()
    record = StreamRecord(
        key_id=request.key_id,
        path=request.path,
        body=request.body,
        headers=request.headers,
        model=request.model,
        answer_id=request.answer.id,
        seed=request.seed,
        charged_prompt_token_count=request.charge.prompt_token_count,
        charged_output_token_count=request.charge.output_token_count,
        time_left_seconds=time_left,
    )
    record.create_time.FromNanoseconds(int(request.answer.created * 1e9))
    record.expire_time.FromNanoseconds(int((time.time() + time_left) * 1e9))
    return record.SerializeToString()


def to_streamed_request(given: bytes, age: float) -> StreamedRequest:
    """Reads a request that was written `age` seconds ago. Raises DecodeError."""
    record = StreamRecord.FromString(given)
    return StreamedRequest(
        key_id=record.key_id,
        path=record.path,
        body=record.body,
        headers=dict(record.headers),
        model=record.model,
        answer=AnswerName(record.answer_id, record.create_time.ToNanoseconds() / 1e9),
        seed=record.seed,
        expires=time.monotonic() + _time_left(record, age),
        charge=Charge(record.charged_prompt_token_count, record.charged_output_token_count),
    )


def _time_left(record: StreamRecord, age: float) -> float:
    if record.HasField("time_left_seconds"):
        return record.time_left_seconds - age
    return record.expire_time.ToNanoseconds() / 1e9 - time.time()


def to_known(parts: Iterable[bytes]) -> TokenDelta:
    """Joins the parts of a journal. Of a token that is in several, the first counts. Raises DecodeError."""
    known = TokenDelta()
    for part in parts:
        add_delta(known, TokenDelta.FromString(part))
    return known


def singles(delta: TokenDelta) -> Iterator[TokenDelta]:
    """Yields the tokens of a delta one by one, the end with the last."""
    last = len(delta.token_ids) - 1
    for index in range(last + 1):
        yield part_of(delta, index, index + 1, is_first=index == 0, is_last=index == last)


def part_of(delta: TokenDelta, begin: int, end: int, *, is_first: bool, is_last: bool) -> TokenDelta:
    """Returns the tokens of a delta from `begin` up to `end`. Its first part has the facts about the prompt, and its
    last the finish reason."""
    part = TokenDelta(
        first_index=delta.first_index + begin,
        token_ids=delta.token_ids[begin:end],
        logprobs=delta.logprobs[begin:end],
    )
    if is_first:
        part.prompt_logprobs.extend(delta.prompt_logprobs)
        part.cached_token_count = delta.cached_token_count
    if is_last:
        part.finish_reason = delta.finish_reason
    return part


def add_delta(known: TokenDelta, delta: TokenDelta) -> None:
    """Adds to the tokens from the first on those of a delta that follow them. One that does not follow adds nothing."""
    count = len(known.token_ids)
    overlap = count - delta.first_index
    if overlap < 0 or known.finish_reason:
        return
    new = delta if overlap == 0 else part_of(delta, overlap, len(delta.token_ids), is_first=False, is_last=True)
    known.token_ids.extend(new.token_ids)
    if new.logprobs:
        known.logprobs.extend(new.logprobs)
    if count == 0 and delta.prompt_logprobs:
        known.prompt_logprobs.extend(delta.prompt_logprobs)
    if count == 0 and delta.cached_token_count:
        known.cached_token_count = delta.cached_token_count
    if new.finish_reason:
        known.finish_reason = new.finish_reason


def copy_of(delta: TokenDelta) -> TokenDelta:
    """Returns a copy, which may be added to."""
    copy = TokenDelta()
    copy.CopyFrom(delta)
    return copy
