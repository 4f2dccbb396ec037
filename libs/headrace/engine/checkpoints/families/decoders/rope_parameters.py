"""Reads the rotary position settings of config.json."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from headrace.engine.checkpoints.facts.rotary.rope_scaling import (
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    ProportionalScaling,
    RopeScaling,
    YarnScaling,
)
from headrace.errors.tree import InvalidCheckpoint, Unsupported


def find_rope_parameters(raw: dict[str, Any]) -> dict[str, Any]:
    """Finds the rotary position settings. Newer files keep all of them in `rope_parameters`, possibly one set per kind
    of layer; older ones have `rope_theta` and others beside `rope_scaling`."""
    parameters = raw.get("rope_scaling") or raw.get("rope_parameters") or {}
    parameters = parameters.get("full_attention") or parameters
    names = ("rope_theta", "partial_rotary_factor", "max_position_embeddings")
    beside = {name: raw[name] for name in names if raw.get(name) is not None}
    original = raw.get("original_max_position_embeddings") or parameters.get("original_max_position_embeddings")
    return beside | parameters | {"original_max_position_embeddings": original or raw["max_position_embeddings"]}


def unrotated_layers(raw: Mapping[str, Any], layer_count: int) -> frozenset[int]:
    """Reads `no_rope_layers`, in which 1 stands for a layer that rotates. Without it, every layer whose number is a
    multiple of `no_rope_layer_interval` does not rotate."""
    interval = int(raw["no_rope_layer_interval"])
    rotates = raw.get("no_rope_layers") or [(index + 1) % interval for index in range(layer_count)]
    if len(rotates) != layer_count:
        raise InvalidCheckpoint(f"config.json: no_rope_layers has {len(rotates)} entries for {layer_count} layers")
    return frozenset(index for index, turns in enumerate(rotates) if not turns)


def read_rope_scaling(parameters: dict[str, Any]) -> RopeScaling | None:
    """Reads the scaling of rotary frequencies. Raises Unsupported for an unknown kind.

    Dynamic scaling changes nothing within `max_position_embeddings`, where the engine's contexts end. Beyond it, a
    key's rotation would depend on the length of its prompt, so chunks and prefixes could not be shared.
    """
    kind = parameters.get("rope_type") or parameters.get("type") or "default"
    if kind in UNSCALED:
        return None
    if kind not in SCALINGS:
        known = ", ".join((*UNSCALED, *SCALINGS))
        raise Unsupported(f"rotary embedding {kind!r} is not supported: only {known}")
    if float(parameters.get("factor") or 1) < 1:
        raise InvalidCheckpoint(f"config.json: the rotary scaling factor is {parameters['factor']}, less than 1")
    return SCALINGS[kind](parameters)


def _read_linear(parameters: dict[str, Any]) -> LinearScaling:
    return LinearScaling(float(parameters["factor"]))


def _read_llama3(parameters: dict[str, Any]) -> Llama3Scaling:
    return Llama3Scaling(
        factor=float(parameters["factor"]),
        low_frequency_factor=float(parameters["low_freq_factor"]),
        high_frequency_factor=float(parameters["high_freq_factor"]),
        original_max_len=int(parameters["original_max_position_embeddings"]),
    )


def _read_yarn(parameters: dict[str, Any]) -> YarnScaling:
    factor = float(parameters["factor"])
    attention_factor = parameters.get("attention_factor")
    if attention_factor is None:
        attention_factor = _yarn_attention_factor(factor, parameters.get("mscale"), parameters.get("mscale_all_dim"))
    return YarnScaling(
        factor=factor,
        original_max_len=int(parameters["original_max_position_embeddings"]),
        attention_factor=float(attention_factor),
        fast_turn_count=float(parameters.get("beta_fast") or 32),
        slow_turn_count=float(parameters.get("beta_slow") or 1),
        truncates=bool(parameters.get("truncate", True)),
    )


def _yarn_attention_factor(factor: float, numerator: float | None, denominator: float | None) -> float:
    def temper(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0

    return temper(numerator) / temper(denominator) if numerator and denominator else temper(1.0)


def _read_longrope(parameters: dict[str, Any]) -> LongRopeScaling:
    original_max_len = int(parameters["original_max_position_embeddings"])
    factor = parameters.get("factor") or float(parameters["max_position_embeddings"]) / original_max_len
    attention_factor = parameters.get("attention_factor")
    if attention_factor is None:
        attention_factor = math.sqrt(1 + math.log(factor) / math.log(original_max_len)) if factor > 1 else 1.0
    return LongRopeScaling(
        short_factors=tuple(map(float, parameters["short_factor"])),
        long_factors=tuple(map(float, parameters["long_factor"])),
        original_max_len=original_max_len,
        attention_factor=float(attention_factor),
    )


def _read_proportional(parameters: dict[str, Any]) -> ProportionalScaling:
    share = float(parameters.get("partial_rotary_factor") or 1)
    return ProportionalScaling(share, float(parameters.get("factor") or 1))


UNSCALED = ("default", "dynamic")
SCALINGS: dict[str, Callable[[dict[str, Any]], RopeScaling]] = {
    "linear": _read_linear,
    "llama3": _read_llama3,
    "yarn": _read_yarn,
    "longrope": _read_longrope,
    "su": _read_longrope,
    "proportional": _read_proportional,
}
