"""Loads a model that several processes share. This one becomes the first of them."""

from pathlib import Path

import torch

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.model_limits import describe_precision
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.parallel.follower import device_of
from headrace.engine.parallel.group import Group, gather
from headrace.engine.parallel.group_runner import GroupRunner
from headrace.engine.parallel.load_stage import load_stage
from headrace.engine.parallel.local_rendezvous import LocalRendezvous
from headrace.engine.parallel.rendezvous import AddressedRendezvous, Rendezvous
from headrace.engine.parallel.shards.place import ShardPlace
from headrace.engine.parallel.shards.shard_config import shard_config
from headrace.engine.step.loaded_model import LoadedModel
from headrace.errors.tree import Unsupported


def load_group(source: Path, model: DecoderConfig, config: EngineConfig) -> LoadedModel:
    """Starts the other processes, and loads the parts of all. Raises InvalidCheckpoint, Unsupported or ConfigError."""
    if config.adapters:
        raise Unsupported("a model with adapters cannot be shared by several processes: set the parallel counts to 1")
    place = ShardPlace(0, config.tensor_parallel_count, config.pipeline_parallel_count)
    shard_config(model, place)
    rendezvous = open_rendezvous(config, place.world_size)
    channels = gather(rendezvous, source, config, place)
    group = Group(channels, rendezvous)
    try:
        stage = load_stage(source, config, place, torch.device(device_of(config, place)), rendezvous.store)
    except BaseException:
        group.close()
        raise
    runner = GroupRunner(stage.model, group, stage.backend)
    precision = describe_precision(config, model, stage.backend.dtype)
    device = f"{place.world_size}x{config.device}"
    return LoadedModel(runner, stage.block_count, stage.parameter_count, device, precision, stage.memory)


def open_rendezvous(config: EngineConfig, world_size: int) -> Rendezvous:
    """Opens the place where a group meets: at the address of the settings, where an outside launcher starts the other
    ranks, or else on this machine, where they are started here. Raises ConfigError if the address cannot be used."""
    return AddressedRendezvous(config.rendezvous, world_size) if config.rendezvous else LocalRendezvous(world_size)
