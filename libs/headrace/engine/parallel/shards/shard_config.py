"""The shape of one process's part of a model."""

from dataclasses import replace

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig
from headrace.engine.parallel.shards.place import ShardPlace
from headrace.errors.tree import ConfigError, Unsupported


def shard_config(config: DecoderConfig, place: ShardPlace) -> DecoderConfig:
    """Returns the decoder that a rank has: fewer layers, and of each fewer heads and inner units. Raises ConfigError
    where the model cannot be split so."""
    if config.layer_count < place.stage_count:
        raise ConfigError(
            f"pipeline_parallel_count is {place.stage_count}, more than the {config.layer_count} layers of the model",
            param="pipeline_parallel_count",
        )
    layers = place.layers(config.layer_count)
    return replace(
        config,
        layer_count=len(layers),
        head_count=_share(config.head_count, "attention heads", place),
        kv_head_count=_share(config.kv_head_count, "KV heads", place),
        intermediate_size=_share(config.intermediate_size, "inner units", place),
        windows=config.windows[layers.start : layers.stop],
        unrotated_layers=frozenset(index - layers.start for index in config.unrotated_layers if index in layers),
        experts=None if config.experts is None else _shard_experts(config.experts, layers, place),
    )


def _shard_experts(experts: ExpertConfig, layers: range, place: ShardPlace) -> ExpertConfig:
    if experts.shared is not None and place.tensor_count > 1:
        raise Unsupported(
            f"tensor_parallel_count is {place.tensor_count}, and a shared expert is not split: use "
            "pipeline_parallel_count"
        )
    return replace(
        experts,
        intermediate_size=_share(experts.intermediate_size, "inner units of an expert", place),
        dense_layers=frozenset(layer - layers.start for layer in experts.dense_layers if layer in layers),
    )


def _share(size: int, name: str, place: ShardPlace) -> int:
    if size % place.tensor_count:
        raise ConfigError(
            f"tensor_parallel_count is {place.tensor_count}, but the model has {size} {name}: it must divide them",
            param="tensor_parallel_count",
        )
    return size // place.tensor_count
