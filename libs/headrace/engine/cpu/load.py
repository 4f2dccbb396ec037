"""Loads a decoder that runs its steps on the fused kernels."""

from dataclasses import dataclass
from pathlib import Path

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.files.gguf_path import is_gguf
from headrace.engine.checkpoints.model_limits import (
    ROUNDED_STORAGE,
    choose_block_count,
    describe_precision,
    kv_bytes_of,
    rounding_of,
)
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.cpu.adapters.packed_adapters import PackedAdapters
from headrace.engine.cpu.decoder import LANES, CpuDecoder, can_fuse
from headrace.engine.cpu.runner import CpuRunner
from headrace.engine.cpu.weights.kept_choice import choice_key, choice_path, read_choice, write_choice
from headrace.engine.cpu.weights.packed_cache import PackedWeightsCache
from headrace.engine.cpu.weights.packed_key import Packing, packed_path
from headrace.engine.cpu.weights.packed_weights import PackedWeights
from headrace.engine.kernels.choice.kernel_choice import KernelChoice, choose_kernels
from headrace.engine.kernels.choice.shared_context import shared_context
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.kv_arena import KvArena, KvShape
from headrace.engine.kernels.packed_weight import PackedWeight
from headrace.engine.kernels.storage import Storage
from headrace.engine.memory.aligned import give_back_freed
from headrace.engine.memory.host_cores import usable_core_count
from headrace.engine.memory.host_memory import available_bytes
from headrace.engine.step.loaded_model import LoadedModel
from headrace.errors.tree import InvalidCheckpoint


def can_run_on_cpu(model: DecoderConfig, config: EngineConfig) -> tuple[bool, str]:
    """Whether the fused kernels can run `model` with the settings in `config`, and the reason if they cannot."""
    fits, reason = settings_fit(config)
    if not fits:
        return False, reason
    if misfit := model.misfit:
        return False, misfit
    if config.block_size % LANES:
        return False, f"blocks of {config.block_size} tokens are not a multiple of {LANES}"
    return can_fuse(model, config.packed_folder)


def settings_fit(config: EngineConfig) -> tuple[bool, str]:
    """Whether the settings leave the fused kernels the choice, and the reason if they do not."""
    if config.kernels != "auto":
        return False, f"the settings ask for {config.kernels}"
    if config.device.partition(":")[0] != "cpu":
        return False, f"the device is {config.device}"
    return True, "ok"


def plain_precision(config: EngineConfig) -> str:
    """Returns the precision of plain weights in the fused kernels, which compute in float32 whatever it is."""
    return config.precision if config.precision in ROUNDED_STORAGE else "float32"


@dataclass(frozen=True, slots=True)
class PreparedDecoder:
    """A decoder with its weights, before it has memory for keys and values."""

    decoder: CpuDecoder
    weights: PackedWeights
    context: KernelContext
    kernels: KernelChoice
    precision: str


def load_decoder(source: Path, model: DecoderConfig, config: EngineConfig, max_len: int) -> PreparedDecoder:
    """Loads the weights of a decoder for the fused kernels. Raises InvalidCheckpoint or Unsupported."""
    packing = _choose_packing(source, config)
    path = _packed_path(source, model, config, packing)
    weights = _load_weights(source, model, config, packing, path)
    decoder = CpuDecoder(model, max_len, weights, exact=config.exact)
    context = shared_context(config.thread_count or usable_core_count())
    kernels = _choose_kernels(context, weights, path, exact=config.exact)
    kinds = ", ".join(weights.block_kinds)
    is_named = bool(kinds) and is_gguf(source)
    usual = describe_precision(config, model, plain_precision(config))
    precision = f"GGUF blocks ({kinds})" if is_named else usual
    return PreparedDecoder(decoder, weights, context, kernels, precision)


def load_cpu(source: Path, model: DecoderConfig, config: EngineConfig, max_len: int) -> LoadedModel:
    """Loads a decoder for the fused kernels. Raises InvalidCheckpoint or Unsupported."""
    # Asked before there are weights: the system counts mapped ones as available, and those just packed not.
    available = available_bytes()
    prepared = load_decoder(source, model, config, max_len)
    decoder, weights = prepared.decoder, prepared.weights
    adapters = PackedAdapters(config.adapters, model, weights) if config.adapters else None
    if adapters is not None:
        decoder.add_adapters(adapters)
    byte_count = weights.byte_count + (0 if adapters is None else adapters.byte_count)
    storage = _choose_kv_storage(config, coded=weights.is_coded)
    shape = KvShape(model.layer_count, model.kv_head_count, model.head_size, config.block_size, storage)
    left = None if available is None else available - byte_count
    block_count = choose_block_count(config, max_len, shape.block_bytes, kv_bytes_of(config, left))
    runner = CpuRunner(decoder, KvArena(shape, block_count), prepared.context, prepared.kernels, adapters)
    memory = HeldMemory(byte_count, block_count * shape.block_bytes)
    return LoadedModel(runner, block_count, weights.parameter_count, "cpu", prepared.precision, memory)


def _choose_kv_storage(config: EngineConfig, *, coded: bool) -> Storage:
    """Chooses the format of keys and values in the fused kernels. Default: 8 bits if the weights are `coded` in 8 bits
    or fewer and nothing must be exact; otherwise the precision of plain weights, where the settings name one, or fp32,
    which loses nothing."""
    if config.kv_precision == "auto":
        return Storage.S8 if coded and not config.exact else ROUNDED_STORAGE.get(config.precision, Storage.F32)
    return {"bfloat16": Storage.BF16, "int8": Storage.S8, "fp8": Storage.FP8}.get(config.kv_precision, Storage.F32)


def _choose_kernels(context: KernelContext, weights: PackedWeights, path: Path | None, *, exact: bool) -> KernelChoice:
    """Chooses the kernels, or takes the choice that an earlier start left beside the packed weights."""
    layer = _measured(weights)
    if path is None or not path.is_file():
        return choose_kernels(context, layer, exact=exact)
    kept, key = choice_path(path), choice_key(context)
    choice = read_choice(kept, key)
    if choice is None:
        choice = choose_kernels(context, layer, exact=exact)
        write_choice(kept, key, choice)
    return choice


def _measured(weights: PackedWeights) -> list[PackedWeight]:
    """Returns the matrices of the first layer; of its experts, which are all alike, those of the first."""
    first = {name: matrix for name, matrix in weights.matrices.items() if name.startswith("0.")}
    return [matrix for name, matrix in first.items() if ".experts." not in name or ".experts.0." in name]


def _choose_packing(source: Path, config: EngineConfig) -> Packing:
    keeps_blocks = config.precision == "auto" and is_gguf(source)
    return Packing(rounding_of(config), config.exact, keeps_blocks)


def _packed_path(source: Path, model: DecoderConfig, config: EngineConfig, packing: Packing) -> Path | None:
    """Returns where packed weights are kept; None if they are not. Raises InvalidCheckpoint."""
    if config.packed_folder is None:
        return None
    try:
        return packed_path(config.packed_folder.expanduser(), source, model, packing)
    except OSError as error:
        raise InvalidCheckpoint(f"{source} cannot be listed: {error}; give this user permission to read it") from error


def _load_weights(
    source: Path, model: DecoderConfig, config: EngineConfig, packing: Packing, path: Path | None
) -> PackedWeights:
    """Loads the weights from the file an earlier start left at `path`, or from the checkpoint if there is none."""
    if path is None:
        return _read_weights(source, model, packing)
    cache = PackedWeightsCache(path.parent, config.packed_max_bytes)
    weights = cache.load(path, model)
    if weights is None:
        weights = _read_weights(source, model, packing)
        cache.save(path, weights)
    return weights


def _read_weights(source: Path, model: DecoderConfig, packing: Packing) -> PackedWeights:
    # Importing torch takes more than a second and 200 MB, and a start with packed weights does not need it.
    from headrace.engine.cpu.weights.packed_reader import read_packed_weights

    weights = read_packed_weights(
        source, model, packing.rounding, exact=packing.exact, keeps_blocks=packing.keeps_blocks
    )
    give_back_freed()
    return weights
