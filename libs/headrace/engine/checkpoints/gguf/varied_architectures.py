"""GGUF's architectures of the families whose layers differ, see `gguf_architecture.py`."""

import re
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

from headrace.engine.checkpoints.gguf.gguf_architecture import LAYER_NAMES, SANDWICH_NAMES, GgufArchitecture
from headrace.engine.checkpoints.gguf.gguf_metadata import GgufMetadata
from headrace.errors.tree import InvalidCheckpoint

_KINDS = ("full_attention", "sliding_attention")
_KEYS = re.compile(r"blk\.(\d+)\.attn_k\.weight")
_INPUT_NAMES = {
    "per_layer_input_gate": "inp_gate",
    "per_layer_projection": "proj",
    "post_per_layer_input_norm": "post_norm",
}
_NAMES = {**LAYER_NAMES, **SANDWICH_NAMES, **_INPUT_NAMES}


def _shared(metadata: GgufMetadata) -> dict[str, Any]:
    """Describes what both families have."""
    pattern = metadata.numbers("attention.sliding_window_pattern")
    return {
        "layer_types": [_KINDS[bool(has_window)] for has_window in pattern],
        "sliding_window": metadata.integer("attention.sliding_window"),
        "num_kv_shared_layers": metadata.integer("attention.shared_kv_layers", 0),
        "hidden_size_per_layer_input": metadata.integer("embedding_length_per_layer_input", 0),
    }


def _gemma4(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Describes heads of layers with a window and of all others, and experts if there are any."""
    found = _shared(metadata)
    counts = metadata.integers("attention.head_count_kv")
    counts = counts * len(found["layer_types"]) if len(counts) == 1 else counts
    if len(counts) != len(found["layer_types"]):
        raise InvalidCheckpoint(f"{metadata.path}: head_count_kv has {len(counts)} entries, and layers are others")
    kinds = list(zip(found["layer_types"], counts, strict=True))
    full = {str(index): count for index, (kind, count) in enumerate(kinds) if kind == _KINDS[0]}
    size = metadata.integer("attention.key_length")
    inner_sizes = metadata.integers("feed_forward_length")
    expert_count = metadata.integer("expert_count", 0)
    return found | {
        "head_dim": metadata.integer("attention.key_length_swa"),
        "num_key_value_heads": next((count for kind, count in kinds if kind == _KINDS[1]), counts[0]),
        "per_layer_config": {index: {"head_dim": size, "num_key_value_heads": count} for index, count in full.items()},
        "intermediate_size": min(inner_sizes),
        "use_double_wide_mlp": len(set(inner_sizes)) > 1,
        "rope_parameters": {"sliding_attention": {"rope_theta": metadata.number("rope.freq_base_swa", 1e4)}},
        "final_logit_softcapping": metadata.number("final_logit_softcapping", 0.0) or None,
        "enable_moe_block": expert_count > 0,
        "num_experts": expert_count,
        "top_k_experts": metadata.integer("expert_used_count", 0),
        "moe_intermediate_size": max(metadata.integers("expert_feed_forward_length", 0)),
    }


def _gemma3n(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Describes gates by the share of a normal distribution below the number of deviations that a file has."""
    normal = NormalDist()
    sizes = metadata.integers("feed_forward_length")
    return _shared(metadata) | {
        "intermediate_size": sizes if len(sizes) > 1 else sizes[0],
        "rope_local_base_freq": metadata.number("rope.freq_base_swa", 1e4),
        "final_logit_softcapping": metadata.number("final_logit_softcapping", 30.0),
        "altup_num_inputs": metadata.integer("altup.num_inputs"),
        "altup_active_idx": metadata.integer("altup.active_idx"),
        "activation_sparsity_pattern": [normal.cdf(each) for each in metadata.numbers("activation_sparsity_scale")],
    }


def _examined(shapes: Mapping[str, tuple[int, ...]]) -> Mapping[str, Any]:
    """Finds the sizes that files have in tensors alone, and whether layers make values of keys."""
    found: dict[str, Any] = {}
    if "per_layer_token_embd.weight" in shapes:
        found["vocab_size_per_layer_input"] = shapes["per_layer_token_embd.weight"][0]
    if "blk.0.laurel_l.weight" in shapes:
        found["laurel_rank"] = shapes["blk.0.laurel_l.weight"][0]
    layers = [match[1] for name in shapes if (match := _KEYS.fullmatch(name))]
    return found | {"attention_k_eq_v": any(f"blk.{layer}.attn_v.weight" not in shapes for layer in layers)}


VARIED_ARCHITECTURES = {
    "gemma4": GgufArchitecture(
        "Gemma4ForCausalLM",
        {
            **_NAMES,
            ".layer_scalar": "layer_output_scale.weight",
            "experts.gate": "ffn_gate_inp",
            "router.scale": "ffn_gate_inp.scale",
            "router.per_expert_scale": "ffn_down_exps.scale",
            "post_feedforward_layernorm_1": "post_ffw_norm_1",
            "pre_feedforward_layernorm_2": "pre_ffw_norm_2",
            "post_feedforward_layernorm_2": "post_ffw_norm_2",
        },
        describe=_gemma4,
        examine=_examined,
        rotates_share=True,
    ),
    "gemma3n": GgufArchitecture(
        "Gemma3nForCausalLM",
        {
            **_NAMES,
            "altup.modality_router": "altup_router",
            "altup.router_norm": "altup_router_norm",
            "altup.prediction_coefs": "altup_predict_coef",
            "altup.correction_coefs": "altup_correct_coef",
            "altup.correct_output_scale": "altup_correct_scale.weight",
            "laurel.linear_left": "laurel_l",
            "laurel.linear_right": "laurel_r",
            "laurel.post_laurel_norm": "laurel_post_norm",
        },
        describe=_gemma3n,
        examine=_examined,
    ),
}
"""Architectures by their GGUF names."""
