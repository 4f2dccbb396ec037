"""Loads an encoder that runs its batches on the fused kernels."""

from pathlib import Path

from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig
from headrace.engine.checkpoints.model_limits import describe_precision, rounding_of
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.cpu.decoder import can_fuse
from headrace.engine.cpu.encoder.cpu_encoder import CpuEncoder
from headrace.engine.cpu.encoder.packed_encoder_reader import read_packed_encoder
from headrace.engine.cpu.load import plain_precision, settings_fit
from headrace.engine.kernels.choice.shared_context import shared_context
from headrace.engine.memory.aligned import give_back_freed
from headrace.engine.memory.host_cores import usable_core_count
from headrace.engine.step.loaded_encoder import LoadedEncoder


def can_encode_on_cpu(model: EncoderConfig, config: EngineConfig) -> tuple[bool, str]:
    """Whether the fused kernels can run `model` with the settings in `config`, and the reason if they cannot."""
    fits, reason = settings_fit(config)
    return can_fuse(model, config.packed_folder) if fits else (fits, reason)


def load_cpu_encoder(folder: Path, model: EncoderConfig, config: EngineConfig) -> LoadedEncoder:
    """Loads an encoder for the fused kernels. Raises InvalidCheckpoint or Unsupported."""
    weights = read_packed_encoder(folder, model, rounding_of(config))
    give_back_freed()
    encoder = CpuEncoder(model, weights, shared_context(config.thread_count or usable_core_count()))
    precision = describe_precision(config, model, plain_precision(config))
    return LoadedEncoder(encoder, weights.parameter_count, "cpu", precision, HeldMemory(weights.byte_count))
