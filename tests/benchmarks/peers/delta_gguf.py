"""Shapes of Qwen3.5 as GGUF files: gated delta rules and attention, with the kinds of Q4_K_M."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind
from tests.benchmarks.peers.gguf_checkpoint import write_facts, write_vocabulary
from tests.libs.engine.gguf_blocks import q4_k_m, random_blocks

PERIOD = 4
"""Distance of layers that attend."""
COMMON: dict[str, Any] = {
    "model_type": "qwen35",
    "head_dim": 256,
    "rotary_size": 64,
    "vocab_size": 248320,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 262144,
    "state_size": 128,
    "key_heads": 16,
    "taps": 4,
}
SMALL = {"hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 24, "value_heads": 16}
LARGE = {"hidden_size": 2560, "intermediate_size": 9216, "num_hidden_layers": 32, "value_heads": 32}
DELTA_SHAPES: dict[str, dict[str, Any]] = {
    "qwen3.5-0.8b": COMMON | SMALL | {"num_attention_heads": 8, "num_key_value_heads": 2},
    "qwen3.5-4b": COMMON | LARGE | {"num_attention_heads": 16, "num_key_value_heads": 4},
}


def write_delta(path: Path, config: dict[str, Any]) -> None:
    """Random weights of the shape, and a vocabulary of made-up words."""
    writer = gguf.GGUFWriter(path, config["model_type"])
    write_facts(writer, config)
    write_vocabulary(writer, config["vocab_size"])
    writer.add_rope_dimension_count(config["rotary_size"])
    writer.add_rope_dimension_sections([11, 11, 10, 0])
    writer.add_full_attention_interval(PERIOD)
    writer.add_ssm_conv_kernel(config["taps"])
    writer.add_ssm_state_size(config["state_size"])
    writer.add_ssm_group_count(config["key_heads"])
    writer.add_ssm_time_step_rank(config["value_heads"])
    writer.add_ssm_inner_size(config["value_heads"] * config["state_size"])
    hidden, generator = config["hidden_size"], np.random.default_rng(1)
    # The head is tied, and of the kind that llama-quantize gives to heads.
    table = random_blocks(Kind.Q6_K, config["vocab_size"], hidden, generator)
    writer.add_tensor("token_embd.weight", table, raw_dtype=Kind.Q6_K)
    writer.add_tensor("output_norm.weight", np.ones(hidden, np.float32))
    for index in range(config["num_hidden_layers"]):
        for name, size in _matrices(config, index).items():
            kind = q4_k_m(name, index, config["num_hidden_layers"])
            writer.add_tensor(f"blk.{index}.{name}.weight", random_blocks(kind, *size, generator), raw_dtype=kind)
        for name, values in _vectors(config, index, generator).items():
            writer.add_tensor(f"blk.{index}.{name}", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _attends(index: int) -> bool:
    return (index + 1) % PERIOD == 0


def _matrices(config: dict[str, Any], index: int) -> dict[str, tuple[int, int]]:
    """Sizes [out, in] of the matrices of a layer, by their names."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    found = {"ffn_gate": (inner, hidden), "ffn_up": (inner, hidden), "ffn_down": (hidden, inner)}
    if _attends(index):
        query, kv = (config[key] * config["head_dim"] for key in ("num_attention_heads", "num_key_value_heads"))
        found |= {"attn_q": (2 * query, hidden), "attn_k": (kv, hidden), "attn_v": (kv, hidden)}
        return found | {"attn_output": (hidden, query)}
    keys, values = (config[key] * config["state_size"] for key in ("key_heads", "value_heads"))
    heads = config["value_heads"]
    found |= {"attn_qkv": (2 * keys + values, hidden), "attn_gate": (values, hidden), "ssm_out": (hidden, values)}
    return found | {"ssm_alpha": (heads, hidden), "ssm_beta": (heads, hidden)}


def _vectors(config: dict[str, Any], index: int, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """Plain tensors of a layer, by their names."""
    hidden, head, size = config["hidden_size"], config["head_dim"], config["state_size"]

    def near(value: float, *shape: int) -> np.ndarray:
        return (value + 0.02 * generator.standard_normal(shape)).astype(np.float32)

    norms = {"attn_norm.weight": near(1, hidden), "post_attention_norm.weight": near(1, hidden)}
    if _attends(index):
        return norms | {"attn_q_norm.weight": near(1, head), "attn_k_norm.weight": near(1, head)}
    channels, heads = (2 * config["key_heads"] + config["value_heads"]) * size, config["value_heads"]
    found = {"ssm_norm.weight": near(1, size), "ssm_conv1d.weight": near(0.25, channels, config["taps"])}
    return norms | found | {"ssm_a": near(-1, heads), "ssm_dt.bias": near(0, heads)}
