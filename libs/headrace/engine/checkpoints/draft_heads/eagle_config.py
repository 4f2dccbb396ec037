"""Facts of an EAGLE-3 draft head (Li et al., 2025), from the `config.json` of its folder.

Two layouts are read: that of the library speculators (`speculators_model_type`), whose layer has a configuration of its
own, and that of EAGLE and SpecForge, whose file is the layer's configuration.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.files.json_file import read_json
from headrace.engine.checkpoints.model_config import read_llama_config
from headrace.errors.tree import InvalidCheckpoint, Unsupported

LAYER_COUNT = 3
"""Layers of the large model whose inputs are read."""
_ARCHITECTURES = ("LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM")


@dataclass(frozen=True, slots=True)
class EagleConfig:
    """A layer over tokens and hidden states, and a head with a vocabulary of its own."""

    layer: DecoderConfig
    """Its vocabulary is that of the large model."""
    vocabulary_size: int
    """Tokens that it may draft."""
    states_size: int
    """Numbers of a hidden state of the large model."""
    layers: tuple[int, ...] | None
    """Layers of the large model whose inputs are read. None: the usual ones, see `usual_layers`."""
    normalizes_residual: bool
    """Whether the residual has the combined states after their norm."""


def is_draft_head(folder: Path) -> bool:
    """Whether a folder holds a draft head instead of a model."""
    path = folder / "config.json"
    return path.is_file() and _is_head(read_json(path))


def read_eagle_config(folder: Path) -> EagleConfig:
    """Reads the facts of a draft head. Raises InvalidCheckpoint for a file that is malformed, Unsupported for a head of
    another kind."""
    raw = read_json(folder / "config.json")
    kind = raw.get("speculators_model_type", "eagle3")
    if kind != "eagle3":
        raise Unsupported(f"draft heads of the kind {kind} are not supported: take one of the kind eagle3")
    try:
        return _read(folder, raw)
    except KeyError as error:
        raise InvalidCheckpoint(f"{folder / 'config.json'} has no {error.args[0]!r}") from error
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(error, (InvalidCheckpoint, Unsupported)):
            raise
        raise InvalidCheckpoint(f"{folder / 'config.json'} is malformed: {error}") from error


def usual_layers(layer_count: int) -> tuple[int, ...]:
    """Returns the layers that EAGLE-3 reads of a model with so many: one low, one in the middle and one high."""
    return 2, layer_count // 2, layer_count - 3


def _is_head(raw: Mapping[str, Any]) -> bool:
    return "speculators_model_type" in raw or (raw.get("architectures") or [""])[0] in _ARCHITECTURES


def _read(folder: Path, raw: Mapping[str, Any]) -> EagleConfig:
    inner = dict(raw.get("transformer_layer_config") or raw)
    _refuse(raw, inner)
    layer = read_llama_config(folder, inner)
    listed = raw.get("eagle_aux_hidden_state_layer_ids")
    listed = listed or (raw.get("eagle_config") or {}).get("eagle_aux_hidden_state_layer_ids")
    layers = None if not listed else tuple(map(int, listed))
    if layers is not None and len(layers) != LAYER_COUNT:
        raise Unsupported(f"the draft head reads {len(layers)} layers: only {LAYER_COUNT} are supported")
    size = int(raw.get("draft_vocab_size") or layer.vocabulary_size)
    if not 1 <= size <= layer.vocabulary_size:
        raise InvalidCheckpoint(f"config.json: the draft head has {size} of {layer.vocabulary_size} tokens")
    states_size = int(raw.get("target_hidden_size") or inner.get("target_hidden_size") or layer.hidden_size)
    return EagleConfig(layer, size, states_size, layers, bool(raw.get("norm_before_residual", False)))


def _refuse(raw: Mapping[str, Any], inner: Mapping[str, Any]) -> None:
    """Raises Unsupported for what other draft heads have."""
    refused = {
        "norm_before_fc": raw.get("norm_before_fc"),
        "attention_bias": inner.get("attention_bias"),
        "mlp_bias": inner.get("mlp_bias"),
        "parallel_drafting": raw.get("parallel_drafting"),
        "a layer that is no Llama's": inner.get("model_type", "llama") != "llama",
    }
    if named := next((name for name, value in refused.items() if value), None):
        raise Unsupported(f"draft heads with {named} are not supported: take one without")
    if (raw.get("eagle_config") or {}).get("use_aux_hidden_state") is False:
        raise Unsupported("draft heads that read the last layer alone are not supported: take an EAGLE-3 head")
    if int(inner["num_hidden_layers"]) != 1:
        raise Unsupported(f"the draft head has {inner['num_hidden_layers']} layers: only 1 is supported")
