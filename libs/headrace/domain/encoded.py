"""Text or conversation as token ids."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Encoded:
    """See `EncodeResponse` of the protocol."""

    token_ids: list[int]
    opens_reasoning: bool = False
    """Whether the answer to a conversation begins inside a reasoning section."""
