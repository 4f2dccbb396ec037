"""Choice of the library by which ranks exchange tensors."""

from typing import Literal

from headrace.engine.contract.engine_config import EngineConfig
from headrace.errors.tree import ConfigError


def choose_collective_backend(config: EngineConfig, device_type: str) -> Literal["nccl", "gloo"]:
    """Chooses NCCL for GPUs and gloo for CPUs, unless the settings name one. Raises ConfigError for NCCL on a CPU."""
    if config.collective_backend == "auto":
        return "nccl" if device_type == "cuda" else "gloo"
    if config.collective_backend == "nccl" and device_type != "cuda":
        raise ConfigError(
            f"collective_backend is 'nccl', which exchanges tensors of GPUs, but device is {config.device!r}: set it "
            "to gloo or auto",
            param="collective_backend",
        )
    return config.collective_backend
