"""Mixtures of experts as llama.cpp's converter writes them: metadata, one tensor for a projection of all experts."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import gguf
import numpy as np

UNQUANTIZED = ("ffn_gate_inp", "exp_probs_b")
"""Parts of names of tensors that stay in fp32."""
PROJECTIONS = {".w1.weight": ".gate_proj.weight", ".w3.weight": ".up_proj.weight", ".w2.weight": ".down_proj.weight"}
"""Names that the converter gives to the projections of LFM2's experts."""
SIGMOIDS = ("glm4_moe", "dots1", "minimax_m2", "lfm2_moe")


def add_experts(writer: gguf.GGUFWriter, config: Mapping[str, Any]) -> None:
    """Adds the metadata of the experts that config.json describes, if there are any."""
    experts = first_of(config, "n_routed_experts", "moe_num_experts", "num_experts", "num_local_experts")
    if not experts:
        return
    writer.add_expert_count(experts)
    writer.add_expert_used_count(first_of(config, "moe_k", "moe_topk", "num_experts_per_tok"))
    for names, add in _metadata(writer).items():
        if (value := first_of(config, *names)) is not None:
            add(value)
    if config["model_type"] in ("minimax_m2", "hunyuan_v1_moe", "llama4_text"):
        writer.add_expert_feed_forward_length(config["intermediate_size"])
    if config["model_type"] in SIGMOIDS:
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def first_of(config: Mapping[str, Any], *names: str) -> Any:
    """The value of the first key that config.json has."""
    return next((config[name] for name in names if config.get(name) is not None), None)


def _metadata(writer: gguf.GGUFWriter) -> dict[tuple[str, ...], Callable[[Any], None]]:
    """Methods by the keys of config.json whose values they write."""
    return {
        ("moe_intermediate_size",): writer.add_expert_feed_forward_length,
        ("shared_expert_intermediate_size", "shared_intermediate_size"): writer.add_expert_shared_feed_forward_length,
        ("n_shared_experts", "moe_num_shared_experts"): writer.add_expert_shared_count,
        ("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers"): writer.add_leading_dense_block_count,
        ("moe_layer_interval", "interleave_moe_layer_step"): writer.add_interleave_moe_layer_step,
        ("n_group",): writer.add_expert_group_count,
        ("topk_group",): writer.add_expert_group_used_count,
        ("routed_scaling_factor",): writer.add_expert_weights_scale,
        ("norm_topk_prob",): writer.add_expert_weights_norm,
        ("num_nextn_predict_layers",): writer.add_nextn_predict_layers,
    }


def merge_experts(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A projection of all experts becomes one tensor [experts, out, in], and a matrix of one row a vector."""
    merged: dict[str, Any] = {}
    for name, values in split_gates(tensors).items():
        if found := re.fullmatch(r"(.*\.experts)\.(\d+)(\..*)", name):
            projection = PROJECTIONS.get(found[3], found[3]) if "feed_forward" in name else found[3]
            merged.setdefault(found[1] + projection, {})[int(found[2])] = values
        else:
            merged[name.replace("correction_bias", "correction.bias").replace("expert_bias", "expert_bias.bias")] = (
                values[0] if values.shape[:-1] == (1,) else values
            )
    return {
        name: np.stack([found[index] for index in range(len(found))]) if isinstance(found, dict) else found
        for name, found in merged.items()
    }


def split_gates(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Gates and the other inputs of Granite's and Llama 4's experts become tensors of their own."""
    split: dict[str, np.ndarray] = {}
    for name, values in tensors.items():
        if name.endswith("feed_forward.experts.gate_up_proj"):
            for part, half in zip(("gate", "up"), np.split(values.swapaxes(1, 2), 2, axis=1), strict=True):
                split[name.replace("gate_up_proj", f"{part}_proj.weight")] = np.ascontiguousarray(half)
        elif name.endswith("feed_forward.experts.down_proj"):
            split[f"{name}.weight"] = np.ascontiguousarray(values.swapaxes(1, 2))
        elif found := re.fullmatch(r"model\.layers\.(\d+)\.(block_sparse_moe|shared_mlp)\.input_linear\.weight", name):
            kind = "shexp" if found[2] == "shared_mlp" else "exps"
            for part, half in zip(("gate", "up"), np.split(values, 2, axis=-2), strict=True):
                split[f"blk.{found[1]}.ffn_{part}_{kind}.weight"] = half
        else:
            split[name] = values
    return split
