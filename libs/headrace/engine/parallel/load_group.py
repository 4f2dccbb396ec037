"""Loads a model that several processes share. This one becomes the first of them."""

from pathlib import Path

import torch

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.model_limits import describe_precision
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.parallel.blocks.group_block_store import GroupBlockStore
from headrace.engine.parallel.group import Group, gather
from headrace.engine.parallel.group_runner import GroupRunner
from headrace.engine.parallel.joining.collective_backend import choose_collective_backend
from headrace.engine.parallel.joining.rank_device import check_device_count, device_of
from headrace.engine.parallel.load_stage import LoadedStage, load_stage
from headrace.engine.parallel.local_rendezvous import LocalRendezvous
from headrace.engine.parallel.rendezvous import AddressedRendezvous, Rendezvous
from headrace.engine.parallel.shards.place import ShardPlace
from headrace.engine.parallel.shards.shard_config import shard_config
from headrace.engine.step.loaded_model import LoadedModel
from headrace.errors.tree import Unsupported


def load_group(source: Path, model: DecoderConfig, config: EngineConfig) -> LoadedModel:
    """Starts the other processes, and loads the parts of all. Raises InvalidCheckpoint, Unsupported or ConfigError."""
    if model.misfit:
        raise Unsupported(f"{model.architecture} cannot be shared by several processes: set the parallel counts to 1")
    place = ShardPlace(0, config.tensor_parallel_count, config.pipeline_parallel_count)
    shard_config(model, place)
    check_backend(config, place)
    rendezvous = open_rendezvous(config, place.world_size)
    channels = gather(rendezvous, source, config, place)
    group = Group(channels, rendezvous)
    try:
        # The group ends this process when it loses a rank, so nothing here has to look.
        device = torch.device(device_of(config, place))
        stage = load_stage(source, config, place, device, rendezvous.store, lambda: True)
    except BaseException:
        group.close()
        raise
    runner = GroupRunner(stage.model, group, stage.backend, _block_store(stage, group, place))
    precision = describe_precision(config, model, stage.backend.dtype)
    devices = f"{place.world_size}x{config.device}"
    return LoadedModel(runner, stage.block_count, stage.parameter_count, devices, precision, stage.memory)


def _block_store(stage: LoadedStage, group: Group, place: ShardPlace) -> GroupBlockStore | None:
    own = stage.model.block_store
    return GroupBlockStore(own, group, place, stage.block_parts) if own and stage.block_parts else None


def check_backend(config: EngineConfig, place: ShardPlace) -> None:
    """Raises ConfigError if the ranks cannot exchange tensors as the settings say."""
    choose_collective_backend(config, config.device.partition(":")[0])
    if not config.rendezvous:
        check_device_count(config, place)


def open_rendezvous(config: EngineConfig, world_size: int) -> Rendezvous:
    """Opens the place where a group meets: at the address of the settings, where an outside launcher starts the other
    ranks, or else on this machine, where they are started here. Raises ConfigError if the address cannot be used."""
    return AddressedRendezvous(config.rendezvous, world_size) if config.rendezvous else LocalRendezvous(world_size)
