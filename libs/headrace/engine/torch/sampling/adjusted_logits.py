"""Logits of a step, changed by grammars and by the texts so far, in a number of operations that no row adds to."""

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from headrace.engine.batching.sequence import Sequence
from headrace.engine.step.adjustment import banned_ids, is_adjusted, penalties, repeated_ids
from headrace.engine.step.token_mask import find_forbidden
from headrace.engine.torch.device.device_copy import to_device
from headrace.engine.torch.sampling.some_rows import numbers_like, places_on, replace_rows, take_rows


def adjust(logits: Tensor, sequences: list[Sequence]) -> Tensor:
    """Returns `logits` [rows, vocabulary] without what grammars forbid, and with penalties, biases and bans."""
    constrained = _constrain(logits, sequences)
    changed = {row: sequence for row, sequence in enumerate(sequences) if is_adjusted(sequence)}
    if not changed:
        return constrained
    adjusted = constrained.clone(memory_format=torch.contiguous_format)
    _penalize_repeated(adjusted, changed)
    _add(adjusted, {row: _negated(penalties(each)) for row, each in changed.items()})
    _add(adjusted, {row: each.request.sampling.logit_bias or {} for row, each in changed.items()})
    return _ban(adjusted, {row: ids for row, each in changed.items() if (ids := banned_ids(each))})


def _constrain(logits: Tensor, sequences: list[Sequence]) -> Tensor:
    """Masks the tokens that grammars forbid, in a copy."""
    rows, forbidden = find_forbidden(sequences, logits.shape[-1])
    if not rows:
        return logits
    masked = logits.index_select(0, places_on(logits, rows)).masked_fill_(
        to_device(forbidden, logits.device), -math.inf
    )
    return replace_rows(logits, rows, masked)


def _penalize_repeated(logits: Tensor, sequences: Mapping[int, Sequence]) -> None:
    """Divides the positive ones of the logits of tokens that were there before, and multiplies the others, in place."""
    repeated = {row: ids for row, sequence in sequences.items() if (ids := repeated_ids(sequence))}
    if not repeated:
        return
    places = _places(logits, repeated)
    factors = [sequences[row].request.sampling.repetition_penalty for row, ids in repeated.items() for _ in ids]
    penalty, values = numbers_like(logits, factors), logits.view(-1).index_select(0, places)
    logits.view(-1).index_copy_(0, places, torch.where(values > 0, values / penalty, values * penalty))


def _add(logits: Tensor, amounts: Mapping[int, Mapping[int, float]]) -> None:
    """Adds amounts, by row and token, in place."""
    if not any(amounts.values()):
        return
    places = _places(logits, amounts)
    added = numbers_like(logits, [amount for row in amounts.values() for amount in row.values()])
    logits.view(-1).index_copy_(0, places, logits.view(-1).index_select(0, places) + added)


def _ban(logits: Tensor, banned: Mapping[int, list[int]]) -> Tensor:
    """Masks tokens, by row, where others are allowed."""
    if not banned:
        return logits
    rows = list(banned)
    before = take_rows(logits, rows)
    after = before.reshape(-1).index_fill(0, _places(before, dict(enumerate(banned.values()))), -math.inf)
    after = after.view(before.shape)
    others_allowed = (after > -math.inf).any(dim=-1, keepdim=True)
    return replace_rows(logits, rows, torch.where(others_allowed, after, before))


def _negated(amounts: Mapping[int, float]) -> dict[int, float]:
    return {token_id: -amount for token_id, amount in amounts.items()}


def _places(logits: Tensor, token_ids: Mapping[int, Iterable[int]]) -> Tensor:
    """Returns where the tokens of some rows lie among all logits: int64, on their device."""
    size = logits.shape[-1]
    return places_on(logits, [row * size + token_id for row, ids in token_ids.items() for token_id in ids])
