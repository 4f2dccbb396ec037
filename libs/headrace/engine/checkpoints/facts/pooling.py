"""Choice of the hidden states that form an embedding."""

import enum


class Pooling(enum.Enum):
    """Choice of the hidden states to pool. The values are those of sentence-transformers."""

    CLS = "cls"
    """Hidden state of the first token."""
    MEAN = "mean"
    MAX = "max"
    """Maximum of each element over all tokens."""
    LAST = "lasttoken"
    """Hidden state of the last token."""
