"""The choice of the backend for a device."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch

from headrace.engine.checkpoints.facts.activation import Activation
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.model_limits import choose_head_bits
from headrace.engine.checkpoints.packing.weight_forms import WeightForms
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.gpu.attention.paged_storage import choose_paged_storage
from headrace.engine.gpu.attention.triton_plan import plan_on_triton
from headrace.engine.gpu.graphs.build_graphs import build_graphs
from headrace.engine.gpu.operators.gpu_operators import choose_gpu_operators
from headrace.engine.gpu.operators.gpu_sampler import choose_gpu_sampler
from headrace.engine.gpu.operators.triton_use import can_use_triton
from headrace.engine.kernels.storage import Storage
from headrace.engine.torch.backends.attention_plan import kv_shape
from headrace.engine.torch.backends.backend import Backend
from headrace.engine.torch.backends.host_backend import host_backend
from headrace.engine.torch.backends.layered_plan import plan_layers
from headrace.engine.torch.backends.torch_backend import torch_backend
from headrace.engine.torch.decoder.decoder_layer import DecoderLayer
from headrace.engine.torch.decoder.joined_layers import JoinedLayers
from headrace.engine.torch.device_setup import choose_precision
from headrace.engine.torch.operators.kernel_operators import KernelOperators
from headrace.errors.tree import ConfigError

_log = logging.getLogger(__name__)


def choose_backend(
    config: EngineConfig, model: DecoderConfig, device: torch.device, reason: str, thread_count: int | None = None
) -> Backend:
    """Chooses the backend of a decoder. `reason` says why the fused kernels do not run the model; `thread_count` is for
    the CPU kernels, and one per core where unset. Raises ConfigError for settings that cannot be met."""
    dtype = choose_precision(config, model, device)
    storage, misfit = choose_paged_storage(config, model, dtype, device)
    if storage is None:
        _check_kv_precision(config, dtype, reason, misfit)
    if device.type == "cpu" and config.kernels != "triton":
        backend = host_backend(config, model, dtype, device, thread_count)
    else:
        backend = _gpu_backend(config, model, dtype, device, storage)
    if storage is None and not isinstance(backend.operators, KernelOperators):
        _log.info("attention gathers keys and values", extra={"reason": misfit})
    graphs = partial(build_graphs, config, device, misfit if storage is None else "")
    return replace(backend, graphs=graphs)


def _gpu_backend(
    config: EngineConfig, model: DecoderConfig, dtype: torch.dtype, device: torch.device, storage: Storage | None
) -> Backend:
    """Puts the kernels for GPUs in the place of torch's operations, and of its attention where they can keep keys and
    values in `storage`."""
    backend = replace(
        torch_backend(config, model, dtype, device),
        operators=choose_gpu_operators(device, config.kernels),
        sampler=choose_gpu_sampler(device, config.kernels),
        forms=WeightForms(choose_head_bits(config, model) if can_use_triton(device, config.kernels)[0] else None),
    )
    if storage is None:
        return backend
    attention = plan_layers(model, lambda part: plan_on_triton(kv_shape(config, part, storage), device))
    return replace(backend, attention=attention, join=partial(join_layers, model.activation))


def join_layers(activation: Activation, layers: Sequence[DecoderLayer]) -> JoinedLayers | None:
    """Joins the layers of a decoder whose attention runs on the kernels in Triton."""
    # Imports Triton, which only GPUs need.
    from headrace.engine.gpu.layers.fused_layers import fuse_layers

    return fuse_layers(layers, activation)


def _check_kv_precision(config: EngineConfig, dtype: torch.dtype, reason: str, misfit: str) -> None:
    """Raises ConfigError if keys and values cannot be kept as the settings say."""
    computed = str(dtype).removeprefix("torch.")
    if config.kv_precision not in ("auto", computed):
        raise ConfigError(
            f"kv_precision is {config.kv_precision!r}, but torch keeps keys and values as it computes, in {computed}, "
            f"which auto means here; the fused kernels cannot run this model: {reason}; nor can those for GPUs: "
            f"{misfit}"
        )
