"""Eviction from a stream that continues past the context's end (StreamingLLM: Xiao et al., 2023).

It keeps its first tokens, which attention needs as sinks, and the last ones. The kept tokens are computed again, with
its positions closed up, for half a context of tokens at a time: so what the model reads is a function of the text
alone, whatever happened to the request before.
"""

SINK_COUNT = 16
"""Tokens at the beginning that are always kept."""
MIN_CONTEXT = 4 * SINK_COUNT
"""Tokens of the shortest context in which this makes sense."""


def dropped_count(token_count: int, max_model_length: int) -> int:
    """Counts the tokens of a text that the model no longer reads. They follow the sinks.

    Tokens are dropped for the first time when the text fills the context, and again each time that the kept tokens and
    the new ones fill it.
    """
    if token_count < max_model_length:
        return 0
    portion = max_model_length - SINK_COUNT - (max_model_length - SINK_COUNT) // 2
    return ((token_count - max_model_length) // portion + 1) * portion
