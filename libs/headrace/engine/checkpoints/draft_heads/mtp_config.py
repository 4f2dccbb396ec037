"""Facts of the layer for predicting further tokens that some checkpoints have behind their own layers: multi-token
prediction (DeepSeek-AI, 2024)."""

from dataclasses import dataclass, replace

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.layout.stored_names import TensorNames


@dataclass(frozen=True, slots=True)
class MtpNames:
    """Modules of the layer in a checkpoint."""

    layer: str
    """The layer itself."""
    token_norm: str
    states_norm: str
    projection: str
    """Product of both norms' outputs, one behind the other."""
    norm: str
    """Norm before the head, which is the model's own."""


def mtp_names(config: DecoderConfig, names: TensorNames) -> MtpNames | None:
    """Finds the layer among the tensors of a checkpoint, by the names of DeepSeek V3, GLM-4.5 and their like or of
    Qwen3-Next and 3.5. None: there is none. Of several layers, the first is meant."""
    layer = f"model.layers.{config.layer_count}"
    known = (
        MtpNames(layer, f"{layer}.enorm", f"{layer}.hnorm", f"{layer}.eh_proj", f"{layer}.shared_head.norm"),
        MtpNames("mtp.layers.0", "mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.fc", "mtp.norm"),
    )
    return next((each for each in known if f"{each.projection}.weight" in names), None)


def mtp_config(config: DecoderConfig) -> DecoderConfig:
    """Returns the facts of a model that has this layer alone. It attends to all tokens, and has experts where the model
    does."""
    experts = None if config.experts is None else replace(config.experts, dense_layers=frozenset())
    return replace(
        config,
        layer_count=1,
        windows=(None,),
        unrotated_layers=frozenset(),
        experts=experts,
        blocks=replace(config.blocks, states=None),
    )
