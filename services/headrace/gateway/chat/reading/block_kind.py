"""Purposes of the blocks of an answer."""

import enum


class BlockKind(enum.Enum):
    """Purpose of one block."""

    REASONING = "reasoning"
    TEXT = "text"
    CALL = "call"
