"""Shortens, joins and reads the messages that carry tokens."""

from collections.abc import Sequence

from headrace.gateway.timing.request_record import RequestRecord
from headrace.v1.generation_pb2 import WorkerTimings
from headrace.v1.worker_pb2 import FetchedTokens, TokenDelta


def without_known(delta: TokenDelta, known: int) -> TokenDelta:
    """Removes from a delta its part of the first `known` output tokens, which were received before, and the prompt's
    scores, which came with the first of them."""
    rest = TokenDelta()
    rest.CopyFrom(delta)
    overlap = max(0, known - delta.first_index)
    del rest.token_ids[:overlap], rest.logprobs[:overlap], rest.prompt_logprobs[:]
    rest.first_index = delta.first_index + overlap
    return rest


def note_timings(record: RequestRecord, timings: WorkerTimings) -> float:
    """Notes the timings that a worker reports with the first tokens of a sequence. Returns the seconds that it took to
    them."""
    queue_seconds = timings.queue_duration.ToNanoseconds() / 1e9
    prefill_seconds = timings.prefill_duration.ToNanoseconds() / 1e9
    record.note_worker(queue_seconds, prefill_seconds)
    return queue_seconds + prefill_seconds


def note_fetched(record: RequestRecord, fetched: FetchedTokens) -> None:
    """Notes where a worker found tokens of the prompt that it did not have in memory."""
    record.disk_token_count += fetched.disk_token_count
    record.worker_token_count += fetched.worker_token_count
    record.store_token_count += fetched.store_token_count


def to_response(deltas: Sequence[TokenDelta]) -> bytes:
    """Joins all deltas of a sequence into one, for the cache to keep. The time and the price of it are not the
    next one's."""
    whole = TokenDelta()
    for delta in deltas:
        whole.MergeFrom(delta)
    whole.first_index = 0
    whole.ClearField("timings")
    whole.ClearField("cost")
    whole.ClearField("fetched_tokens")
    return whole.SerializeToString()
