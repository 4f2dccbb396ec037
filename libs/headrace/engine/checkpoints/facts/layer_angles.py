"""Rotary angles of each layer of a model."""

from functools import cache

import numpy as np

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.rotary.rope_scaling import Floats
from headrace.engine.checkpoints.facts.rotary.rotary_angles import rotary_angles


def layer_angles(config: DecoderConfig, max_len: int) -> list[tuple[Floats, Floats]]:
    """Computes cosines and sines [max_len, rotary/2] of each layer. Layers that turn alike share one pair."""

    @cache
    def angles(rotary_size: int, local_theta: float | None) -> tuple[Floats, Floats]:
        if local_theta is not None:
            return rotary_angles(rotary_size, local_theta, None, max_len)
        return rotary_angles(rotary_size, config.rope_theta, config.rope_scaling, max_len)

    layers = [
        angles(config.heads(index).rotary_size, None if window is None else config.local_rope_theta)
        for index, window in enumerate(config.windows)
    ]
    if config.unrotated_layers:
        still = np.ones_like(layers[0][0]), np.zeros_like(layers[0][1])
        layers = [still if index in config.unrotated_layers else each for index, each in enumerate(layers)]
    return layers
