"""Shapes of models with states as GGUF files: LFM2, of short convolutions and attention, with the kinds of Q4_K_M."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind
from tests.benchmarks.peers.gguf_checkpoint import write_facts, write_vocabulary
from tests.libs.engine.gguf_blocks import q4_k_m, random_blocks

ATTENTION_LAYERS = frozenset({2, 5, 8, 10, 12, 14})
"""Places among the 16 layers of each published size; the others are convolutions."""
KV_HEADS = [8 if index in ATTENTION_LAYERS else 0 for index in range(16)]
COMMON: dict[str, Any] = {
    "model_type": "lfm2",
    "num_hidden_layers": 16,
    "num_key_value_heads": KV_HEADS,
    "head_dim": 64,
    "vocab_size": 65536,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 32768,
    "taps": 3,
}
STATE_SHAPES: dict[str, dict[str, Any]] = {
    "lfm2-350m": COMMON | {"hidden_size": 1024, "intermediate_size": 4608, "num_attention_heads": 16},
    "lfm2-1.2b": COMMON | {"hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32},
}


def write_states(path: Path, config: dict[str, Any]) -> None:
    """Random weights of the shape, and a vocabulary of made-up words."""
    writer = gguf.GGUFWriter(path, config["model_type"])
    write_facts(writer, config)
    write_vocabulary(writer, config["vocab_size"])
    writer.add_shortconv_l_cache(config["taps"])
    hidden, generator = config["hidden_size"], np.random.default_rng(1)
    # The head is tied, and of the kind that llama-quantize gives to heads.
    writer.add_tensor(
        "token_embd.weight", random_blocks(Kind.Q6_K, config["vocab_size"], hidden, generator), raw_dtype=Kind.Q6_K
    )
    writer.add_tensor("token_embd_norm.weight", np.ones(hidden, np.float32))
    for index in range(config["num_hidden_layers"]):
        for name, size in _matrices(config, index).items():
            kind = q4_k_m(name, index, config["num_hidden_layers"])
            blocks = random_blocks(kind, *size, generator)
            writer.add_tensor(f"blk.{index}.{name}.weight", blocks, raw_dtype=kind)
        for name, shape in _vectors(config, index).items():
            drawn = generator.standard_normal(shape, np.float32) * np.float32(0.02) + np.float32(1)
            writer.add_tensor(f"blk.{index}.{name}.weight", drawn)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _matrices(config: dict[str, Any], index: int) -> dict[str, tuple[int, int]]:
    """Sizes [out, in] of the matrices of a layer, by their names."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    found = {"ffn_gate": (inner, hidden), "ffn_up": (inner, hidden), "ffn_down": (hidden, inner)}
    if index not in ATTENTION_LAYERS:
        return found | {"shortconv.in_proj": (3 * hidden, hidden), "shortconv.out_proj": (hidden, hidden)}
    query, kv = config["num_attention_heads"] * config["head_dim"], KV_HEADS[index] * config["head_dim"]
    projections = {"attn_q": (query, hidden), "attn_k": (kv, hidden), "attn_v": (kv, hidden)}
    return found | projections | {"attn_output": (hidden, query)}


def _vectors(config: dict[str, Any], index: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the plain tensors of a layer, by their names."""
    hidden, head = (config["hidden_size"],), (config["head_dim"],)
    norms = {"attn_norm": hidden, "ffn_norm": hidden}
    if index in ATTENTION_LAYERS:
        return norms | {"attn_q_norm": head, "attn_k_norm": head}
    return norms | {"shortconv.conv": (config["hidden_size"], config["taps"])}
