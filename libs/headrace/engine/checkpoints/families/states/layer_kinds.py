"""Kinds of layers in families where some keep a state."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.states.mixer_facts import MixerFacts
from headrace.engine.checkpoints.facts.states.state_config import StateConfig
from headrace.errors.tree import InvalidCheckpoint, Unsupported


def layers_of(kinds: Sequence[str], config: DecoderConfig) -> list[str]:
    """Returns the kind of each layer. Raises InvalidCheckpoint unless there is one for each."""
    if len(kinds) != config.layer_count:
        raise InvalidCheckpoint(f"config.json: {len(kinds)} kinds of layers are listed for {config.layer_count} layers")
    return list(kinds)


def state_config(mixer: MixerFacts, kinds: Sequence[str], stateful: str, attending: str) -> StateConfig | None:
    """Returns the layers of each kind; None where no layer keeps a state. Raises InvalidCheckpoint for other kinds."""
    if others := sorted(set(kinds) - {stateful, attending}):
        raise InvalidCheckpoint(f"config.json: layers of kind {others[0]!r}: only {stateful!r} and {attending!r} exist")
    layers, attention_layers = (
        tuple(index for index, kind in enumerate(kinds) if kind == wanted) for wanted in (stateful, attending)
    )
    return StateConfig(layers, attention_layers, mixer) if layers else None


def check_step_limit(raw: Mapping[str, Any]) -> None:
    """Raises Unsupported if step sizes of a state space are bounded, which no published model needs."""
    # JSON has no infinity: transformers 5 writes an object in its place.
    bounds = raw.get("time_step_limit") or (0.0, math.inf)
    least, greatest = (float(bound["__float__"] if isinstance(bound, dict) else bound) for bound in bounds)
    if least > 0 or not math.isinf(greatest):
        raise Unsupported(f"time_step_limit {[least, greatest]} is not supported: only [0, infinity]")
