"""Activations of feed-forward blocks without gates, of which some families let config.json choose."""

from collections.abc import Mapping

from headrace.engine.checkpoints.facts.activation import Activation

PLAIN_ACTIVATIONS: Mapping[str, Activation] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "relu2": "relu_squared",
    "silu": "silu",
    "swish": "silu",
}
"""Functions by their names in config.json."""
