"""Loads one rank's part of a model."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from headrace.engine.checkpoints.adapters.target_modules import target_modules
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.layout.model_shape import model_shape
from headrace.engine.checkpoints.layout.stored_names import ModuleNaming
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.model_limits import ROUNDED_BITS, choose_block_count, choose_max_len
from headrace.engine.checkpoints.packing.weight_forms import WeightForms
from headrace.engine.checkpoints.weight_record import WeightRecord
from headrace.engine.checkpoints.weight_source import open_weights
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.gpu.choose_backend import choose_backend
from headrace.engine.memory.host_cores import usable_core_count
from headrace.engine.parallel.blocks.block_part import BlockPart, exchange_parts
from headrace.engine.parallel.collective import Collective, Store
from headrace.engine.parallel.joining.collective_backend import choose_collective_backend
from headrace.engine.parallel.joining.loaded_ranks import await_loaded
from headrace.engine.parallel.joining.rank_device import sharer_count
from headrace.engine.parallel.shards.adapter_shard import AdapterShard, local_name
from headrace.engine.parallel.shards.place import ShardPlace
from headrace.engine.parallel.shards.shard_config import shard_config
from headrace.engine.parallel.shards.sharded_weights import ShardedWeights
from headrace.engine.parallel.stage_model import StageModel
from headrace.engine.parallel.summed_layer import summed
from headrace.engine.torch.adapters.adapter_set import AdapterSet
from headrace.engine.torch.backends.backend import Backend
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.decoder.decoder_part import DecoderPart
from headrace.engine.torch.device.current_device import on_device
from headrace.engine.torch.device_setup import build_attention, kv_bytes, settle_threads


@dataclass(frozen=True, slots=True)
class LoadedStage:
    """A rank that is ready, and facts about the whole group."""

    model: StageModel
    backend: Backend
    block_count: int
    parameter_count: int
    """Parameters of the whole model."""
    memory: HeldMemory
    """Memory of all ranks."""
    block_parts: tuple[BlockPart, ...]
    """Part of each rank in a KV block; none if blocks cannot be copied."""


def load_stage(
    source: Path,
    config: EngineConfig,
    place: ShardPlace,
    device: torch.device,
    store: Store,
    is_connected: Callable[[], bool],
) -> LoadedStage:
    """Loads a rank's part, together with all other ranks, for which it waits as long as `is_connected` says so. Raises
    InvalidCheckpoint, Unsupported or ConfigError, and InternalError if the group ends meanwhile."""
    whole = read_model_config(source)
    with on_device(device):
        return _load(source, whole, config, place, device, store, is_connected)


def _load(
    source: Path,
    whole: DecoderConfig,
    config: EngineConfig,
    place: ShardPlace,
    device: torch.device,
    store: Store,
    is_connected: Callable[[], bool],
) -> LoadedStage:
    part = shard_config(whole, place)
    thread_count = config.thread_count or threads_of_a_rank(place)
    backend = choose_backend(config, part, device, "several processes share it", thread_count)
    settle_threads(config, backend.operators)
    with torch.inference_mode():
        bits = ROUNDED_BITS.get(config.precision)
        files = open_weights(source, whole.quantization, bits, naming=ModuleNaming.of(whole))
        shards = ShardedWeights(files, whole, place)
        weights = WeightRecord(shards)
        decoder = Decoder(
            part,
            weights,
            backend.operators,
            backend.dtype,
            device,
            part=_ends(whole, place),
            forms=WeightForms(backend.forms.head_bits),
        )
        adapters = _load_adapters(config, whole, part, place, shards, backend)
    await_loaded(store, place, is_connected)
    collective = Collective(place, device, store, choose_collective_backend(config, device.type))
    if place.tensor_count > 1:
        decoder.replace_layers([summed(layer, collective) for layer in decoder.layers])
    decoder.join(backend.join(decoder.layers))
    max_len = choose_max_len(config, whole)
    with torch.inference_mode():
        agreed = collective.least(_block_count(config, backend, max_len, place))
        settled = config.model_copy(update={"block_count": agreed})
        attention = build_attention(settled, backend, decoder, max_len)
    memory = HeldMemory(*collective.total(weights.byte_count, attention.byte_count))
    model = StageModel(whole, place, decoder, attention, collective, backend.dtype, device, adapters)
    parts = exchange_parts(store, place, model.block_store)
    return LoadedStage(model, backend, attention.block_count, model_shape(whole).parameter_count, memory, parts)


def _load_adapters(
    config: EngineConfig,
    whole: DecoderConfig,
    part: DecoderConfig,
    place: ShardPlace,
    weights: ShardedWeights,
    backend: Backend,
) -> AdapterSet | None:
    """Loads this rank's part of each adapter. Raises InvalidCheckpoint or Unsupported."""
    if not config.adapters:
        return None
    targets = {(target.layer, local_name(name)): target for name, target in target_modules(part).items()}
    cut = AdapterShard(weights, place.layers(whole.layer_count), targets)
    return AdapterSet.load(config.adapters, whole, backend.operators, backend.dtype, backend.device, cut)


def threads_of_a_rank(place: ShardPlace) -> int:
    """Returns the threads of each rank where all are on one machine and share its cores."""
    return max(1, usable_core_count() // place.world_size)


def _ends(config: DecoderConfig, place: ShardPlace) -> DecoderPart:
    rows = place.part_of(config.vocabulary_size)
    return DecoderPart(place.begins, place.ends, slice(rows.start, rows.stop))


def _block_count(config: EngineConfig, backend: Backend, max_len: int, place: ShardPlace) -> int:
    """Returns the blocks that this rank has room for."""
    room = kv_bytes(config, backend.device) // sharer_count(config, place, backend.device)
    return choose_block_count(config, max_len, backend.attention.block_bytes, room)
