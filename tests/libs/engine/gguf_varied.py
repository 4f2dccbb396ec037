"""GGUF files of Gemma 3n and 4 as llama.cpp's converter would write them."""

import json
import re
from pathlib import Path
from statistics import NormalDist
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind
from tests.libs.engine.gguf_files import close_writer, load_arrays

ARCHITECTURES = {"gemma4_text": gguf.MODEL_ARCH.GEMMA4, "gemma3n_text": gguf.MODEL_ARCH.GEMMA3N}
SUFFIXED = ("layer_scalar", "correct_output_scale", "experts.gate_up_proj", "experts.down_proj")
"""Ends of names to which the converter adds `.weight`."""
WIDTH = 32
"""Inputs of a block of Q8_0: other matrices stay plain."""


def convert_varied(folder: Path, path: Path, kind: Kind = Kind.F32) -> Path:
    """Converts a Hugging Face folder. Vectors, routers and matrices that are not made of blocks stay in fp32."""
    config = json.loads((folder / "config.json").read_text())
    architecture = ARCHITECTURES[config["model_type"]]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[architecture])
    add_metadata(writer, config)
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])
    for name, values in merge_streams(load_arrays(folder)).items():
        target = written_name(names, name)
        is_plain = values.ndim == 1 or values.shape[-1] % WIDTH or "ffn_gate_inp" in target or kind == Kind.F32
        if is_plain:
            writer.add_tensor(target, values)
        else:
            writer.add_tensor(target, gguf.quantize(values, kind), raw_dtype=kind)
    close_writer(writer)
    return path


def written_name(names: gguf.TensorNameMap, name: str) -> str:
    layer = re.fullmatch(r"model\.layers\.(\d+)\.router\.(scale|per_expert_scale)", name)
    if layer is not None:
        part = "ffn_gate_inp" if layer[2] == "scale" else "ffn_down_exps"
        return f"blk.{layer[1]}.{part}.scale"
    target = names.get_name(f"{name}.weight" if name.endswith(SUFFIXED) else name, try_suffixes=(".weight", ".bias"))
    assert target is not None, name
    return str(target)


def merge_streams(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Matrices around streams become one tensor [streams - 1, hidden, hidden]."""
    merged = {name: values for name, values in tensors.items() if not re.search(r"altup_\w*projections", name)}
    for kind in ("altup_projections", "altup_unembed_projections"):
        parts = sorted(name for name in tensors if f".{kind}." in name)
        if parts:
            merged[f"model.{kind}.weight"] = np.stack([tensors[name] for name in parts])
    return merged


def add_metadata(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    """Adds what config.json says of both families."""
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config["layer_types"]])
    writer.add_shared_kv_layers(config["num_kv_shared_layers"])
    writer.add_embedding_length_per_layer_input(config["hidden_size_per_layer_input"])
    writer.add_rope_freq_base(config["rope_parameters"]["full_attention"]["rope_theta"])
    writer.add_rope_freq_base_swa(config["rope_parameters"]["sliding_attention"]["rope_theta"])
    if config["final_logit_softcapping"]:
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if config["model_type"] == "gemma4_text":
        add_gemma4(writer, config)
    else:
        add_gemma3n(writer, config)


def add_gemma4(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    """Adds heads of both kinds, inner sizes and experts."""
    full = config["per_layer_config"]["1"]
    writer.add_key_length(full["head_dim"])
    writer.add_key_length_swa(config["head_dim"])
    usual = config["num_key_value_heads"]
    if "num_key_value_heads" in full:
        kinds = config["layer_types"]
        writer.add_head_count_kv([usual if kind[0] == "s" else full["num_key_value_heads"] for kind in kinds])
    else:
        writer.add_head_count_kv(usual)
    sizes = [config["intermediate_size"]] * config["num_hidden_layers"]
    if config["use_double_wide_mlp"]:
        first = len(sizes) - config["num_kv_shared_layers"]
        writer.add_feed_forward_length(sizes[:first] + [2 * size for size in sizes[first:]])
    else:
        writer.add_feed_forward_length(sizes[0])
    if config["enable_moe_block"]:
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["top_k_experts"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    share = config["rope_parameters"]["full_attention"]["partial_rotary_factor"]
    turning = int(full["head_dim"] * share / 2)
    factors = [1.0] * turning + [1e30] * (full["head_dim"] // 2 - turning)
    writer.add_tensor("rope_freqs.weight", np.array(factors, np.float32))


def add_gemma3n(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    """Adds streams, inner sizes and the deviations of sparse gates."""
    writer.add_key_length(config["head_dim"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_altup_num_inputs(config["altup_num_inputs"])
    writer.add_altup_active_idx(config["altup_active_idx"])
    normal, shares = NormalDist(), config["activation_sparsity_pattern"]
    writer.add_activation_sparsity_scale([normal.inv_cdf(share) if share else -float("inf") for share in shares])
