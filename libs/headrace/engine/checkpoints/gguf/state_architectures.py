"""GGUF's architectures of families with layers that keep a state, see `gguf_architecture.py`."""

from collections.abc import Mapping
from typing import Any

from headrace.engine.checkpoints.gguf.expert_architectures import check_sigmoid
from headrace.engine.checkpoints.gguf.gguf_architecture import LAYER_NAMES, GgufArchitecture
from headrace.engine.checkpoints.gguf.gguf_metadata import GgufMetadata

_NAMES = {
    **LAYER_NAMES,
    "conv.in_proj": "shortconv.in_proj",
    "conv.conv": "shortconv.conv",
    "conv.out_proj": "shortconv.out_proj",
}
_EXPERT_NAMES = {**_NAMES, "feed_forward.gate": "ffn_gate_inp", "feed_forward.expert_bias": "exp_probs_b.bias"}
_TOP_NAMES = {"model.norm": "token_embd_norm"}


def _lfm2(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Reads which layers attend off their numbers of KV heads: the others have none. Feed-forward blocks have the size
    that the file says."""
    counts = metadata.integers("attention.head_count_kv")
    layers = counts * (metadata.integer("block_count") if len(counts) == 1 else 1)
    return {
        "num_key_value_heads": max(counts),
        "layer_types": ["full_attention" if count else "conv" for count in layers],
        "conv_L_cache": metadata.integer("shortconv.l_cache"),
        "block_auto_adjust_ff_dim": False,
        "norm_eps": metadata.number("attention.layer_norm_rms_epsilon"),
    }


def _lfm2_moe(metadata: GgufMetadata) -> Mapping[str, Any]:
    check_sigmoid(metadata)
    return {
        **_lfm2(metadata),
        "num_experts": metadata.integer("expert_count"),
        "num_experts_per_tok": metadata.integer("expert_used_count"),
        "moe_intermediate_size": metadata.integer("expert_feed_forward_length"),
        "num_dense_layers": metadata.integer("leading_dense_block_count", 0),
        "routed_scaling_factor": metadata.number("expert_weights_scale", 1.0),
        "norm_topk_prob": metadata.flag("expert_weights_norm", default=True),
    }


STATE_ARCHITECTURES = {
    "lfm2": GgufArchitecture("Lfm2ForCausalLM", _NAMES, _TOP_NAMES, describe=_lfm2),
    "lfm2moe": GgufArchitecture("Lfm2MoeForCausalLM", _EXPERT_NAMES, _TOP_NAMES, describe=_lfm2_moe),
}
"""Architectures by their GGUF names."""
