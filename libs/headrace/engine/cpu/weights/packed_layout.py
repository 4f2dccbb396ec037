"""Checks that packed weights match the model's shape, because kernels trust the shapes when they read."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.cpu.weights.key_factors import MAX_EXPONENT, are_key_factors
from headrace.engine.cpu.weights.packed_weights import (
    PackedWeights,
    Table,
    factor_names,
    norm_names,
    router_bias_names,
    sink_names,
)
from headrace.engine.kernels.packed_weight import GROUPS, PANEL, PackedWeight, panel_bytes
from headrace.engine.kernels.storage import BLOCKS, CODED, Storage

PLAIN: dict[Storage, np.dtype[Any]] = {
    Storage.F32: np.dtype(np.float32),
    Storage.BF16: np.dtype(np.int16),
    Storage.F16: np.dtype(np.float16),
}


def check_layout(weights: PackedWeights, config: DecoderConfig) -> None:
    """Raises ValueError if an array is missing, unknown, or has the wrong shape or type for the model."""
    vector_sizes = norm_names(config) | factor_names(config) | router_bias_names(config) | sink_names(config)
    _same_names("vectors", weights.vectors, vector_sizes)
    for name, size in vector_sizes.items():
        _check_array(name, weights.vectors[name], (size,), np.dtype(np.float32))
    for name in factor_names(config):
        if not are_key_factors(weights.vectors[name]):
            raise ValueError(f"{name} are not powers of two from 1 to {2**MAX_EXPONENT}")
    _check_table(weights.embedding, config.vocabulary_size, config.hidden_size)
    sizes = _split_sizes(matrix_sizes(config), weights.matrices)
    _same_names("matrices", weights.matrices, sizes)
    for name, (out_size, in_size) in sizes.items():
        _check_matrix(name, weights.matrices[name], out_size, in_size)


def matrix_sizes(config: DecoderConfig) -> dict[str, tuple[int, int]]:
    """Returns the output and input sizes of every matrix of a model, by its name in PackedWeights."""
    hidden, attended = config.hidden_size, config.head_count * config.head_size
    sizes = {"head": (config.vocabulary_size, hidden)} if config.has_head else {}
    for index in range(config.layer_count):
        sizes |= {
            f"{index}.qkv": (attended + 2 * config.kv_head_count * config.head_size, hidden),
            f"{index}.output": (hidden, attended),
            **_feed_forward_sizes(config, index),
        }
    return sizes


def _feed_forward_sizes(config: DecoderConfig, index: int) -> dict[str, tuple[int, int]]:
    hidden, experts = config.hidden_size, config.experts
    if experts is None or index in experts.dense_layers:
        return _block_sizes(f"{index}", hidden, config.intermediate_size)
    sizes = {f"{index}.router": (sum(experts.router_rows.values()), hidden)}
    for name, inner in experts.experts:
        sizes |= _block_sizes(f"{index}.{name}", hidden, inner)
    return sizes


def _block_sizes(prefix: str, hidden: int, inner: int) -> dict[str, tuple[int, int]]:
    return {f"{prefix}.gate_up": (2 * (-(-inner // PANEL) * PANEL), hidden), f"{prefix}.down": (hidden, inner)}


def _split_sizes(
    sizes: Mapping[str, tuple[int, int]], matrices: Mapping[str, PackedWeight]
) -> dict[str, tuple[int, int]]:
    """Returns the sizes of the parts of those matrices that blocks of several kinds make up. See PackedWeights."""
    split = dict(sizes)
    for name, (out_size, in_size) in sizes.items():
        parts = {part: matrices[part].out_size for part in (name, f"{name}.1", f"{name}.2") if part in matrices}
        if name.endswith(".qkv") and sum(parts.values()) == out_size and all(size > 0 for size in parts.values()):
            split |= {part: (size, in_size) for part, size in parts.items()}
        block = name.removesuffix("gate_up")
        if name.endswith(".gate_up") and f"{block}up" in matrices:
            split[name] = split[f"{block}up"] = (sizes[f"{block}down"][1], in_size)
    return split


def _check_table(table: Table, vocabulary_size: int, hidden_size: int) -> None:
    if table.storage in BLOCKS:
        columns = BLOCKS[table.storage].columns
        if hidden_size % columns:
            raise ValueError(f"the embedding is held as {table.storage.name}, which has blocks of {columns}")
        size = panel_bytes(vocabulary_size, hidden_size, table.storage, columns)
        _check_array("embedding", table.numbers, (size,), np.dtype(np.uint8))
        return
    if table.storage not in PLAIN:
        raise ValueError(f"the embedding is held as {table.storage.name}")
    _check_array("embedding", table.numbers, (vocabulary_size, hidden_size), PLAIN[table.storage])


def _check_matrix(name: str, matrix: PackedWeight, out_size: int, in_size: int) -> None:
    if (matrix.out_size, matrix.in_size) != (out_size, in_size):
        raise ValueError(f"{name} is [{matrix.out_size}, {matrix.in_size}], not [{out_size}, {in_size}]")
    if matrix.storage in BLOCKS:
        fits = matrix.group == BLOCKS[matrix.storage].columns and in_size % matrix.group == 0 and matrix.order is None
    elif matrix.storage in CODED:
        fits = matrix.group in GROUPS and in_size % matrix.group == 0
    else:
        fits = matrix.storage in PLAIN and matrix.group == in_size
    if not fits:
        raise ValueError(f"{name} is held as {matrix.storage.name} in groups of {matrix.group}")
    size = panel_bytes(out_size, in_size, matrix.storage, matrix.group)
    _check_array(f"{name}.panels", matrix.panels, (size,), np.dtype(np.uint8))
    if matrix.bias is not None:
        _check_array(f"{name}.bias", matrix.bias, (out_size,), np.dtype(np.float32))
    if matrix.order is not None:
        _check_array(f"{name}.order", matrix.order, (in_size,), np.dtype(np.int32))
        if matrix.order.min() < 0 or matrix.order.max() >= in_size:
            raise ValueError(f"{name}.order names inputs that {name} does not have")


def _check_array(name: str, array: NDArray[np.generic], shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(f"{name} is {array.dtype} {list(array.shape)}, not {dtype} {list(shape)}")


def _same_names(kind: str, found: Mapping[str, object], expected: Mapping[str, object]) -> None:
    if found.keys() != expected.keys():
        raise ValueError(f"these {kind} are in one of file and model only: {sorted(found.keys() ^ expected.keys())}")
