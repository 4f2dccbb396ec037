"""Shapes with experts as GGUF files, cut to so many layers that they fit a small machine: gpt-oss-20b with experts of
MXFP4, and Qwen3-30B-A3B with the kinds of Q4_K_M."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind
from tests.benchmarks.peers.gguf_checkpoint import write_facts, write_vocabulary
from tests.libs.engine.gguf_blocks import q4_k_m, random_blocks

MXFP4_EXPONENTS = (117, 121)
"""Exponents of scales, the latter excluded: weights of some 0.02."""
COMMON: dict[str, Any] = {"rms_norm_eps": 1e-5, "head_dim": 64, "max_position_embeddings": 32768}
EXPERT_SHAPES: dict[str, dict[str, Any]] = {
    "gpt-oss-20b.4-layers": COMMON
    | {
        "model_type": "gpt-oss",
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "moe_intermediate_size": 2880,
        "num_hidden_layers": 4,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "num_experts": 32,
        "num_experts_per_tok": 4,
        "sliding_window": 128,
        "vocab_size": 201088,
    },
    "qwen3-30b-a3b.6-layers": COMMON
    | {
        "model_type": "qwen3moe",
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "moe_intermediate_size": 768,
        "num_hidden_layers": 6,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "vocab_size": 151936,
    },
}


@dataclass(frozen=True, slots=True)
class _Layers:
    """Tensors of the layers of one shape."""

    writer: gguf.GGUFWriter
    config: dict[str, Any]
    generator: np.random.Generator

    def blocks(self, name: str, kind: Kind, *shape: int) -> None:
        *outer, columns = shape
        make = _mxfp4 if kind is Kind.MXFP4 else random_blocks
        rows = make(kind, int(np.prod(outer)), columns, self.generator)
        self.writer.add_tensor(name, rows.reshape(*outer, -1), raw_dtype=kind)

    def numbers(self, name: str, *shape: int, mean: float = 0.0) -> None:
        drawn = self.generator.standard_normal(shape, np.float32) * np.float32(0.02) + np.float32(mean)
        self.writer.add_tensor(name, drawn)

    def add(self, index: int, kind_of: Callable[[str], Kind], *, has_biases: bool) -> None:
        config, prefix = self.config, f"blk.{index}"
        hidden, inner, count = config["hidden_size"], config["moe_intermediate_size"], config["num_experts"]
        query = config["num_attention_heads"] * config["head_dim"]
        kv = config["num_key_value_heads"] * config["head_dim"]
        for name, shape in (
            ("attn_q", (query, hidden)),
            ("attn_k", (kv, hidden)),
            ("attn_v", (kv, hidden)),
            ("attn_output", (hidden, query)),
            ("ffn_gate_exps", (count, inner, hidden)),
            ("ffn_up_exps", (count, inner, hidden)),
            ("ffn_down_exps", (count, hidden, inner)),
        ):
            self.blocks(f"{prefix}.{name}.weight", kind_of(name), *shape)
            if has_biases:
                self.numbers(f"{prefix}.{name}.bias", *shape[:-1])
        self.numbers(f"{prefix}.ffn_gate_inp.weight", count, hidden)
        if has_biases:
            self.numbers(f"{prefix}.ffn_gate_inp.bias", count)


def write_experts(path: Path, config: dict[str, Any]) -> None:
    """Random weights of the shape, and a vocabulary of made-up words."""
    is_gpt_oss = config["model_type"] == "gpt-oss"
    writer = gguf.GGUFWriter(path, config["model_type"])
    write_facts(writer, config)
    write_vocabulary(writer, config["vocab_size"])
    writer.add_expert_count(config["num_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    layers, count = _Layers(writer, config, np.random.default_rng(1)), config["num_hidden_layers"]
    tables = (Kind.Q8_0, Kind.Q8_0) if is_gpt_oss else (Kind.Q4_K, Kind.Q6_K)
    for name, kind in zip(("token_embd", "output"), tables, strict=True):
        layers.blocks(f"{name}.weight", kind, config["vocab_size"], config["hidden_size"])
    norms = ["attn_norm", "post_attention_norm" if is_gpt_oss else "ffn_norm"]
    if is_gpt_oss:
        writer.add_sliding_window(config["sliding_window"])
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(32.0)
        writer.add_rope_scaling_orig_ctx_len(4096)
    layers.numbers("output_norm.weight", config["hidden_size"], mean=1.0)
    for index in range(count):
        for norm in norms:
            layers.numbers(f"blk.{index}.{norm}.weight", config["hidden_size"], mean=1.0)
        if is_gpt_oss:
            layers.numbers(f"blk.{index}.attn_sinks.weight", config["num_attention_heads"])
            layers.add(index, _gpt_oss_kind, has_biases=True)
            continue
        for norm in ("attn_q_norm", "attn_k_norm"):
            layers.numbers(f"blk.{index}.{norm}.weight", config["head_dim"], mean=1.0)
        layers.add(index, partial(_qwen_kind, index, count), has_biases=False)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _gpt_oss_kind(name: str) -> Kind:
    return Kind.MXFP4 if "exps" in name else Kind.Q8_0


def _qwen_kind(index: int, count: int, name: str) -> Kind:
    return q4_k_m(name.removesuffix("_exps"), index, count)


def _mxfp4(kind: Kind, rows: int, columns: int, generator: np.random.Generator) -> np.ndarray:
    """uint8 [rows, bytes]: blocks of numbers with a mean of 0."""
    span, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = generator.integers(0, 256, (rows * columns // span, size), np.uint8)
    blocks[:, 0] = generator.integers(*MXFP4_EXPONENTS, len(blocks), np.uint8)
    return blocks.reshape(rows, -1)
