"""Chooses limits and precision of a model from the settings and the checkpoint."""

from typing import Protocol

from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.weights.weight_rounding import HEAD_BITS, WeightRounding
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.kernels.storage import Storage
from headrace.engine.memory.host_memory import available_bytes
from headrace.errors.tree import ConfigError

ROUNDED_BITS = {"int8": 8, "int4": 4}
"""Precisions of codes to which plain weights are rounded at load."""
ROUNDED_STORAGE = {"bfloat16": Storage.BF16, "float16": Storage.F16}
"""Precisions in which the kernels keep plain weights, rounded at load where the checkpoint has them in another."""
CPU_KV_SHARE = 0.25
"""Share of the memory left after loading the weights that goes to the KV cache on a CPU. Other workers need some
too."""
UNKNOWN_KV_BYTES = 1 << 30
"""KV cache size in bytes on a system that does not report free memory."""


class CheckpointFacts(Protocol):
    """Facts that the settings are checked against, for encoders and decoders alike."""

    @property
    def precision(self) -> str: ...

    @property
    def quantization(self) -> QuantizationScheme | None: ...

    @property
    def max_model_length(self) -> int: ...

    @property
    def usual_length(self) -> int: ...


def describe_precision(config: EngineConfig, model: CheckpointFacts, dtype: object) -> str:
    """Names the precision of the weights, for people. `dtype` is the type of activations, a name or a torch dtype."""
    scheme = model.quantization
    if scheme is not None and not (scheme.is_float and config.precision in ROUNDED_BITS):
        return f"{scheme.number_name} ({scheme.method})"
    if config.precision in ROUNDED_BITS:
        return str(config.precision)
    return str(dtype).removeprefix("torch.")


def rounding_of(config: EngineConfig) -> WeightRounding:
    """Returns what the settings have plain weights rounded to in the kernels."""
    return WeightRounding(ROUNDED_BITS.get(config.precision), ROUNDED_STORAGE.get(config.precision))


def choose_head_bits(config: EngineConfig, model: CheckpointFacts) -> int | None:
    """Chooses the bits of a plain output head beside quantized weights. None: it stays as it is."""
    scheme = model.quantization
    is_coded = config.precision in ROUNDED_BITS or (scheme is not None and not scheme.is_float)
    return HEAD_BITS if is_coded and not config.exact else None


def choose_max_len(config: EngineConfig, model: CheckpointFacts) -> int:
    """Chooses the maximum prompt plus output, in tokens. Raises ConfigError if the settings exceed the model's limit.

    Contexts beyond `usual_length` also change how a longrope model computes shorter ones, so they are opt-in.
    """
    if config.max_model_length > model.max_model_length:
        raise ConfigError(
            f"max_model_length is {config.max_model_length}, but the model was made for {model.max_model_length} "
            "tokens; lower it",
            param="max_model_length",
        )
    return config.max_model_length or model.usual_length


def choose_block_count(config: EngineConfig, max_len: int, block_bytes: int, kv_bytes: int) -> int:
    """Returns the number of KV blocks: as configured, or as many as running sequences need and `kv_bytes` holds."""
    wanted = config.max_running_count * -(-max_len // config.block_size)
    return config.block_count or min(wanted, max(1, kv_bytes // max(1, block_bytes)))


def host_kv_bytes(config: EngineConfig) -> int:
    """Returns the size limit of a KV cache in CPU memory, in bytes, beside weights in memory of this process."""
    return kv_bytes_of(config, available_bytes())


def kv_bytes_of(config: EngineConfig, left: int | None) -> int:
    """Returns the size limit of a KV cache in CPU memory, in bytes. `left` are the bytes that the weights leave; None
    where the system does not say."""
    if config.kv_cache_bytes:
        return config.kv_cache_bytes
    return UNKNOWN_KV_BYTES if left is None else int(max(0, left) * CPU_KV_SHARE)
