"""GGUF files of latent attention as llama.cpp's converter writes them now, and as it did first."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind
from tests.libs.engine.gguf_experts import merge_experts
from tests.libs.engine.gguf_files import close_writer, load_arrays

SIGMOIDS = ("deepseek_v3", "glm4_moe_lite")


def convert_latent(folder: Path, path: Path, *, splits: bool, kind: Kind = Kind.F32) -> Path:
    """Converts a Hugging Face folder. `splits`: whether products of keys and of values are tensors of their own, and
    sizes have the ending `_mla`. Experts have `kind`."""
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(path, "deepseek2")
    add_metadata(writer, config, splits=splits)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.DEEPSEEK2, config["num_hidden_layers"])
    for name, values in merge_experts(load_arrays(folder)).items():
        if splits and name.endswith("kv_b_proj.weight"):
            add_split(writer, name.split(".")[2], values, config)
            continue
        target = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert target is not None, name
        if "_exps" in target and kind != Kind.F32:
            writer.add_tensor(target, gguf.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(target, values)
    close_writer(writer)
    return path


def add_split(writer: gguf.GGUFWriter, layer: str, values: np.ndarray, config: dict[str, Any]) -> None:
    heads = values.reshape(config["num_attention_heads"], -1, values.shape[-1])
    keys, rest = np.split(heads, [config["qk_nope_head_dim"]], axis=1)
    writer.add_tensor(f"blk.{layer}.attn_k_b.weight", np.ascontiguousarray(keys.transpose(0, 2, 1)))
    writer.add_tensor(f"blk.{layer}.attn_v_b.weight", np.ascontiguousarray(rest))


def add_metadata(writer: gguf.GGUFWriter, config: dict[str, Any], *, splits: bool) -> None:
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_leading_dense_block_count(config.get("first_k_dense_replace") or 1)
    writer.add_kv_lora_rank(config["kv_lora_rank"])
    if config["q_lora_rank"]:
        writer.add_q_lora_rank(config["q_lora_rank"])
    rotary_size = config["qk_rope_head_dim"]
    sizes = config["qk_nope_head_dim"] + rotary_size, config["v_head_dim"]
    if splits:
        writer.add_head_count_kv(1)
        writer.add_key_length(config["kv_lora_rank"] + rotary_size)
        writer.add_value_length(config["kv_lora_rank"])
        writer.add_key_length_mla(sizes[0])
        writer.add_value_length_mla(sizes[1])
    else:
        writer.add_head_count_kv(config["num_attention_heads"])
        writer.add_key_length(sizes[0])
        writer.add_value_length(sizes[1])
    writer.add_expert_count(config["n_routed_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_expert_shared_count(config["n_shared_experts"])
    writer.add_expert_weights_scale(config["routed_scaling_factor"])
    writer.add_expert_weights_norm(bool(config["norm_topk_prob"]))
    if config["model_type"] in SIGMOIDS:
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        writer.add_expert_group_count(config["n_group"])
        writer.add_expert_group_used_count(config["topk_group"])
    rope = config["rope_parameters"]
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(rotary_size)
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])
