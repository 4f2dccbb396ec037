"""Adjustments that the text so far makes to the logits of its next token."""

from collections import Counter

from headrace.engine.batching.sequence import Sequence


def is_adjusted(sequence: Sequence) -> bool:
    """Whether anything but the grammar changes the logits."""
    sampling = sequence.request.sampling
    return bool(
        sampling.repetition_penalty != 1
        or sampling.frequency_penalty
        or sampling.presence_penalty
        or sampling.logit_bias
        or banned_ids(sequence)
    )


def repeated_ids(sequence: Sequence) -> list[int]:
    """Tokens to which the repetition penalty applies (Keskar et al., 2019): those of prompt and output."""
    return sorted(set(sequence.token_ids)) if sequence.request.sampling.repetition_penalty != 1 else []


def penalties(sequence: Sequence) -> dict[int, float]:
    """Amounts that frequency and presence of tokens in the output take off their logits, by token id."""
    sampling = sequence.request.sampling
    if not (sampling.frequency_penalty or sampling.presence_penalty):
        return {}
    counts = Counter(sequence.output_token_ids)
    return {
        token_id: sampling.frequency_penalty * count + sampling.presence_penalty for token_id, count in counts.items()
    }


def banned_ids(sequence: Sequence) -> list[int]:
    """Tokens that would end the text too early. They are allowed all the same where nothing else is: a grammar may
    have come to its end."""
    return list(sequence.stop_token_ids) if sequence.stop_is_banned else []
