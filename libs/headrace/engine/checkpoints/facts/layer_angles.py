"""Rotary angles of each layer of a model."""

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.rope_scaling import Floats
from headrace.engine.checkpoints.facts.rotary_angles import rotary_angles


def layer_angles(config: DecoderConfig, max_len: int) -> list[tuple[Floats, Floats]]:
    """Computes cosines and sines [max_len, rotary/2] of each layer. In most models all layers share one pair."""
    everywhere = rotary_angles(config.rotary_size, config.rope_theta, config.rope_scaling, max_len)
    if config.local_rope_theta is None:
        return [everywhere] * config.layer_count
    local = rotary_angles(config.rotary_size, config.local_rope_theta, None, max_len)
    return [everywhere if window is None else local for window in config.windows]
