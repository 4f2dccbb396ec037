"""Differences of one architecture from Llama."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig


def as_llama(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    """Returns `config` unchanged: nothing differs from Llama."""
    return config


@dataclass(frozen=True, slots=True)
class Family:
    """Rules for reading the config.json of one architecture."""

    architecture: str
    """Name of the architecture in the `architectures` field of config.json."""
    adapt: Callable[[DecoderConfig, Mapping[str, Any]], DecoderConfig] = as_llama
    """Turns the config of a Llama with this config.json into the config of this architecture."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Default values of keys that config.json may omit."""
    activation_key: str = "hidden_act"
    activations: tuple[str, ...] = ("silu", "swish")
    """Names of the one activation that its models use."""
    is_nested: bool = False
    """Whether config.json describes a model that also reads images, and this decoder in its `text_config`."""

    def own_part(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the keys of a config.json that describe the decoder, with defaults for all that it omits."""
        if not self.is_nested:
            return {**self.defaults, **raw}
        whole = {name: value for name, value in raw.items() if name != "model_type"}
        return {**self.defaults, **(raw.get("text_config") or {}), **whole}
