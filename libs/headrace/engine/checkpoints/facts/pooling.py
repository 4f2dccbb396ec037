"""Choice of the hidden states that make up an embedding."""

import enum


class Pooling(enum.Enum):
    """Hidden states of an input that count. The values are sentence-transformers' own."""

    CLS = "cls"
    """Hidden state of the first token."""
    MEAN = "mean"
    MAX = "max"
    """Largest value of each element."""
    LAST = "lasttoken"
    """Hidden state of the last token."""
