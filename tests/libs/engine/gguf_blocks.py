"""Random blocks of GGUF whose numbers look like weights, and the kinds that llama.cpp's Q4_K_M gives to tensors.

The `gguf` package cannot quantize to K-quants, so the fields of a block are drawn and put together here.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind
from tests.libs.engine.gguf_files import close_writer, open_writer

SIZE = 0.02
"""Standard deviation of the weights."""
CODE_DEVIATIONS = {4: 4.6, 5: 9.2, 6: 18.5, 8: 74.0}
"""Standard deviation of a code of so many bits of which all are as likely."""
BITS = {Kind.Q4_0: 4, Kind.Q4_1: 4, Kind.Q5_0: 5, Kind.Q5_1: 5, Kind.Q8_0: 8, Kind.Q4_K: 4, Kind.Q5_K: 5, Kind.Q6_K: 6}
KINDS = tuple(BITS)
K_SCALES = (32, 64)
"""Least and largest integer scale of a group of Q4_K and Q5_K, the latter excluded."""

KindOf = Callable[[str, int, int], Kind]
"""Returns the kind of a tensor, from its name without the layer, its layer, and how many layers there are."""


def random_blocks(kind: Kind, rows: int, columns: int, generator: np.random.Generator) -> np.ndarray:
    """uint8 [rows, bytes]: blocks of numbers with a mean of 0."""
    span, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = generator.integers(0, 256, (rows * columns // span, size), np.uint8)
    middle = (1 << BITS[kind]) / 2 - 0.5
    unit = SIZE / CODE_DEVIATIONS[BITS[kind]]
    if kind in (Kind.Q4_K, Kind.Q5_K):
        scales = generator.integers(*K_SCALES, (len(blocks), 8), np.uint8)
        blocks[:, 4:16] = pack_k_scales(scales, scales)
        unit /= sum(K_SCALES) / 2
    if kind == Kind.Q6_K:
        unit /= 74
    drawn = (unit * generator.uniform(0.8, 1.2, (len(blocks), 1))).astype(np.float16)
    at = 208 if kind == Kind.Q6_K else 0
    blocks[:, at : at + 2] = drawn.view(np.uint8)
    if kind in (Kind.Q4_1, Kind.Q5_1):
        blocks[:, 2:4] = (-middle * drawn.astype(np.float32)).astype(np.float16).view(np.uint8)
    if kind in (Kind.Q4_K, Kind.Q5_K):
        blocks[:, 2:4] = (middle * drawn.astype(np.float32)).astype(np.float16).view(np.uint8)
    return blocks.reshape(rows, -1)


def pack_k_scales(scales: np.ndarray, minima: np.ndarray) -> np.ndarray:
    """uint8 [blocks, 12] from eight scales and eight minima of 6 bits: the inverse of get_scale_min_k4."""
    first = scales[:, :4] | scales[:, 4:] >> 4 << 6
    second = minima[:, :4] | minima[:, 4:] >> 4 << 6
    return np.concatenate([first, second, scales[:, 4:] & 15 | (minima[:, 4:] & 15) << 4], axis=1)


def q4_k_m(name: str, layer: int, layer_count: int) -> Kind:
    """llama.cpp's mix, as its llama-quantize gives it to models of the Llama family."""
    takes_more = layer < layer_count // 8 or layer >= 7 * layer_count // 8 or (layer - layer_count // 8) % 3 == 2
    is_large = name == "output" or (name in ("attn_v", "ffn_down") and takes_more)
    return Kind.Q6_K if is_large else Kind.Q4_K


def model_tensors(
    config: dict[str, Any], kind_of: KindOf, seed: int = 1
) -> Iterator[tuple[str, np.ndarray, Kind | None]]:
    """Yields the name, the data and the kind of each tensor of a model; None for plain numbers. A tied embedding is of
    the kind of the head, as llama-quantize has it."""
    generator = np.random.default_rng(seed)
    hidden, inner, count = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    head = config.get("head_dim") or hidden // config["num_attention_heads"]
    query, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    sizes = {"attn_q": (query, hidden), "attn_k": (kv, hidden), "attn_v": (kv, hidden), "attn_output": (hidden, query)}
    sizes |= {"ffn_gate": (inner, hidden), "ffn_up": (inner, hidden), "ffn_down": (hidden, inner)}

    def tensor(name: str, size: tuple[int, int], kind: Kind) -> tuple[str, np.ndarray, Kind]:
        return f"{name}.weight", random_blocks(kind, *size, generator), kind

    is_tied = config.get("tie_word_embeddings", False)
    table = (config["vocab_size"], hidden)
    yield tensor("token_embd", table, kind_of("output" if is_tied else "token_embd", 0, count))
    if not is_tied:
        yield tensor("output", table, kind_of("output", 0, count))
    yield "output_norm.weight", np.ones(hidden, np.float32), None
    for layer in range(count):
        for name, size in sizes.items():
            yield tensor(f"blk.{layer}.{name}", size, kind_of(name, layer, count))
        for norm in ("attn_norm", "ffn_norm"):
            yield f"blk.{layer}.{norm}.weight", generator.uniform(0.5, 1.5, hidden).astype(np.float32), None


def write_model(path: Path, config: dict[str, Any], kind_of: KindOf, seed: int = 1) -> Path:
    """Writes a model without a vocabulary."""
    writer = open_writer(path, config)
    for name, data, kind in model_tensors(config, kind_of, seed):
        writer.add_tensor(name, data, raw_dtype=kind)
    close_writer(writer)
    return path
