"""Rotation of queries and keys in encoders that have one base of rotary frequencies (Su et al., 2021)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig
from headrace.engine.checkpoints.families.decoders.rope_parameters import read_rope_scaling
from headrace.errors.tree import Unsupported


def rotating(config: EncoderConfig, raw: Mapping[str, Any], usual_theta: float) -> EncoderConfig:
    """Returns a config whose queries and keys rotate, in place of a table of positions."""
    theta = plain_theta(raw.get("rope_parameters") or {}, raw, raw.get("rope_theta") or usual_theta)
    return replace(config, position_count=1, thetas=(theta,) * config.layer_count)


def plain_theta(rope: Mapping[str, Any], raw: Mapping[str, Any], usual: float) -> float:
    """Returns the base of the frequencies that `rope` names. Raises Unsupported where they are scaled."""
    if read_rope_scaling(dict(rope)) is not None or raw.get("rope_scaling"):
        raise Unsupported(f"rotary scaling is not supported in {raw['architectures'][0]}")
    return float(rope.get("rope_theta") or usual)
