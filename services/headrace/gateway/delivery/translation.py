"""Shortens, joins and reads the messages that carry tokens."""

from collections.abc import Iterator, Sequence

from headrace.gateway.timing.request_record import RequestRecord
from headrace.v1.generation_pb2 import WorkerTimings
from headrace.v1.worker_pb2 import TokenDelta


def without_known(delta: TokenDelta, known: int) -> TokenDelta:
    """Removes from a delta its part of the first `known` output tokens, which were received before, and the prompt's
    scores, which came with the first of them."""
    rest = TokenDelta()
    rest.CopyFrom(delta)
    overlap = max(0, known - delta.first_index)
    del rest.token_ids[:overlap], rest.logprobs[:overlap], rest.prompt_logprobs[:]
    rest.first_index = delta.first_index + overlap
    return rest


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


def note_timings(record: RequestRecord, timings: WorkerTimings) -> None:
    """Notes the timings that a worker reports with the first tokens of a sequence."""
    record.note_worker(timings.queue_duration.ToNanoseconds() / 1e9, timings.prefill_duration.ToNanoseconds() / 1e9)


def to_response(deltas: Sequence[TokenDelta]) -> bytes:
    """Joins all deltas of a sequence into one, for the cache to keep. The time and the price of it are not the
    next one's."""
    whole = TokenDelta()
    for delta in deltas:
        whole.MergeFrom(delta)
    whole.first_index = 0
    whole.ClearField("timings")
    whole.ClearField("cost")
    return whole.SerializeToString()
