"""Growth of the journal of a stream."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamPart:
    """Tokens that a journal grows by, and the record of its request where that is new."""

    tenant: str
    stream_id: str
    record: bytes
    """Record of the request, which replaces the one that is kept. Empty: that one stays."""
    first_index: int
    """Tokens of the stream before those of this part."""
    token_count: int
    tokens: bytes
    """The tokens, as the gateway wrote them. Empty: the journal only lives longer."""

    @property
    def end(self) -> int:
        """Tokens of the stream up to the end of this part."""
        return self.first_index + self.token_count

    @property
    def size(self) -> int:
        """Bytes of what is to be kept."""
        return len(self.record) + len(self.tokens)
