"""Test that a worker must pass before it is announced: one request for tokens, or for an embedding."""

import math
from collections.abc import Callable

from headrace.engine.contract.engine import Engine
from headrace.engine.contract.request import Delta, EngineRequest, SamplingParams
from headrace.errors import InternalError

_NAME = "canary"
_PROMPT = (0,)
"""Prompt shorter than any block, so that the prefix cache keeps none of it."""
_SAMPLING = SamplingParams(max_tokens=2, temperature=0.0, seed=0, ignore_eos=True)
"""Parameters for two tokens, so that a step without a prompt is among those measured."""


def prove(engine: Engine, step: Callable[[], list[Delta]]) -> None:
    """Runs one request through an engine that has no other. `step` does one step of it.

    Raises HeadraceError if the engine fails, and InternalError if its output makes no sense."""
    engine.add(EngineRequest(_NAME, _PROMPT, _SAMPLING, cache_salt=_NAME))
    deltas: list[Delta] = []
    try:
        while engine.has_work():
            deltas += step()
    finally:
        engine.cancel(_NAME)
    spec = engine.spec
    token_ids = [token_id for delta in deltas for token_id in delta.token_ids]
    values = [value for delta in deltas for value in delta.embedding]
    if spec.embedding_size is None:
        is_sound = bool(token_ids) and all(0 <= token_id < spec.vocabulary_size for token_id in token_ids)
    else:
        is_sound = len(values) == spec.embedding_size and all(map(math.isfinite, values))
    if not is_sound:
        raise InternalError(f"it made the tokens {token_ids} and the values {values[:8]}, which cannot be")
