"""Request that a running platform has served, with the times that its client or its gateway took."""

from dataclasses import dataclass

from headrace.load_generator.stream_client import StreamRecord


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """Lengths and times of one request. Times in seconds."""

    start: float
    prompt_token_count: int
    output_token_count: int
    e2e: float
    ttft: float | None = None
    """None: it was not recorded."""
    tpot: float | None = None
    """Mean time per token after the first. None: it was not recorded, or there was one token."""
    tenant: str = ""
    hash_ids: tuple[int, ...] = ()
    """Names of the prompt's blocks, where they are known."""

    def trace_row(self) -> dict[str, object]:
        """Returns the row of a trace that plays the request, in the form of a record of usage."""
        return {
            "time": self.start + self.e2e,
            "seconds": self.e2e,
            "prompt_tokens": self.prompt_token_count,
            "output_tokens": self.output_token_count,
            "tenant": self.tenant,
            "hash_ids": list(self.hash_ids),
        }


def recorded(record: StreamRecord) -> RecordedRequest:
    """Converts what a client measured of a stream, which must have had a token."""
    counts = (record.input_token_count, record.output_token_count)
    return RecordedRequest(record.start, *counts, record.e2e, record.ttft, record.tpot)
