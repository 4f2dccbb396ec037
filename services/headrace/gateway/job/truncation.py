"""Truncation of prompts that a client allows."""

from dataclasses import dataclass
from typing import Literal

WHOLE_CONTEXT = -1


@dataclass(frozen=True, slots=True)
class Truncation:
    """Maximum number of tokens of a prompt, and the side at which the others are left out."""

    most: int
    """WHOLE_CONTEXT: as many as leave room for the answer."""
    side: Literal["left", "right"] = "left"

    def of(self, prompt: list[int], context: int, wanted: int | None) -> list[int]:
        """Returns the tokens that are read of a prompt. `context`: the tokens that the model can read; `wanted`: those
        of the answer, where the client says."""
        room = max(1, context - max(1, wanted or 1))
        most = room if self.most == WHOLE_CONTEXT else self.most
        if len(prompt) <= most:
            return prompt
        return prompt[-most:] if self.side == "left" else prompt[:most]
