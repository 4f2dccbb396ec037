"""Shapes of the comparison as GGUF files: Q4_0 matrices and a head of 8 bits, or the kinds of Q4_K_M."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.quants import quantize
from tests.benchmarks.peers.shapes import projection_sizes
from tests.libs.engine.gguf_blocks import model_tensors, q4_k_m

_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def write_gguf(path: Path, config: dict[str, Any]) -> None:
    """Weights of the shape, and a vocabulary of made-up words."""
    architecture = config["model_type"]
    writer = gguf.GGUFWriter(path, architecture)
    write_facts(writer, config)
    write_vocabulary(writer, config["vocab_size"])
    rng = np.random.default_rng(1)
    types = gguf.GGMLQuantizationType

    def add(name: str, shape: tuple[int, int], kind: gguf.GGMLQuantizationType) -> None:
        weight = rng.standard_normal(shape, dtype=np.float32) * 0.02
        writer.add_tensor(name, quantize(weight, kind), raw_dtype=kind)

    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    tied = config.get("tie_word_embeddings", False)
    add("token_embd.weight", (vocabulary, hidden), types.Q8_0 if tied else types.Q4_0)
    if not tied:
        add("output.weight", (vocabulary, hidden), types.Q8_0)
    writer.add_tensor("output_norm.weight", np.ones(hidden, dtype=np.float32))
    head = config.get("head_dim") or hidden // config["num_attention_heads"]
    for index in range(config["num_hidden_layers"]):
        for name, size in projection_sizes(config).items():
            add(f"blk.{index}.{_NAMES[name]}.weight", size, types.Q4_0)
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{index}.{norm}.weight", np.ones(hidden, dtype=np.float32))
        if architecture == "qwen3":
            for norm in ("attn_q_norm", "attn_k_norm"):
                writer.add_tensor(f"blk.{index}.{norm}.weight", np.ones(head, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_q4_k_m(path: Path, config: dict[str, Any]) -> None:
    """Random blocks of the kinds that llama-quantize gives to Q4_K_M, and a vocabulary of made-up words."""
    writer = gguf.GGUFWriter(path, config["model_type"])
    write_facts(writer, config)
    write_vocabulary(writer, config["vocab_size"])
    for name, data, kind in model_tensors(config, q4_k_m):
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_facts(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)


def write_vocabulary(writer: gguf.GGUFWriter, size: int) -> None:
    """Byte-level BPE, as GPT-2 has it: the bytes, pairs that were merged, and made-up words."""
    letters = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in letters]
    bytes_ = [chr(byte) for byte in letters] + [chr(256 + index) for index in range(len(others))]
    tokens = ["<unk>", "<s>", "</s>", *bytes_, "ab", "cd"]
    tokens += [f"w{index}" for index in range(len(tokens), size)]
    control = gguf.TokenType.CONTROL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(tokens)
    writer.add_token_types([control] * 3 + [gguf.TokenType.NORMAL] * (size - 3))
    writer.add_token_merges(["a b", "c d"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
