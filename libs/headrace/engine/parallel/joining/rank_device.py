"""The device of each rank."""

import torch

from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.parallel.joining.collective_backend import choose_collective_backend
from headrace.engine.parallel.shards.place import ShardPlace
from headrace.errors.tree import ConfigError


def device_of(config: EngineConfig, place: ShardPlace) -> str:
    """Returns the device of a rank for which none is named: the settings' kind, numbered by ranks. Beyond the devices
    of a host, numbers begin again: on its other hosts, or for several ranks of a device."""
    kind = config.device.partition(":")[0]
    return kind if kind == "cpu" else f"{kind}:{place.rank % max(1, torch.cuda.device_count())}"


def check_device_count(config: EngineConfig, place: ShardPlace) -> None:
    """Raises ConfigError if NCCL would have several ranks on one GPU of this host, which it refuses."""
    kind = config.device.partition(":")[0]
    if choose_collective_backend(config, kind) == "nccl" and place.world_size > torch.cuda.device_count():
        raise ConfigError(
            f"the model is shared by {place.world_size} processes, but torch sees {torch.cuda.device_count()} CUDA "
            "devices here, and NCCL needs one for each; with collective_backend = gloo they can share one",
            param="tensor_parallel_count",
        )


def sharer_count(config: EngineConfig, place: ShardPlace, device: torch.device) -> int:
    """Returns how many ranks have the memory of a device in common."""
    if device.type == "cpu":
        return place.world_size
    if choose_collective_backend(config, device.type) == "nccl":
        return 1
    return -(-place.world_size // max(1, torch.cuda.device_count()))
