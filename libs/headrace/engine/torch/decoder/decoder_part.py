"""The part of a decoder that one process has, where several share it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DecoderPart:
    """Ends of the decoder beside its layers, and the rows of the head."""

    begins: bool = True
    """Whether it embeds the tokens. Otherwise it is given hidden states."""
    ends: bool = True
    """Whether it has the last norm and the head. Otherwise it returns the hidden states of all tokens."""
    head_rows: slice = field(default_factory=lambda: slice(None))
    """Tokens of the vocabulary whose logits it computes. Only tied heads are cut here; others come cut."""


WHOLE = DecoderPart()
