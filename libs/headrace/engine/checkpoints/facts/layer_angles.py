"""Rotary angles of each layer of a model."""

import numpy as np

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.rotary.rope_scaling import Floats
from headrace.engine.checkpoints.facts.rotary.rotary_angles import rotary_angles


def layer_angles(config: DecoderConfig, max_len: int) -> list[tuple[Floats, Floats]]:
    """Computes cosines and sines [max_len, rotary/2] of each layer. In most models all layers share one pair."""
    everywhere = rotary_angles(config.rotary_size, config.rope_theta, config.rope_scaling, max_len)
    layers = [everywhere] * config.layer_count
    if config.local_rope_theta is not None:
        local = rotary_angles(config.rotary_size, config.local_rope_theta, None, max_len)
        layers = [everywhere if window is None else local for window in config.windows]
    if config.unrotated_layers:
        still = np.ones_like(everywhere[0]), np.zeros_like(everywhere[1])
        layers = [still if index in config.unrotated_layers else each for index, each in enumerate(layers)]
    return layers
