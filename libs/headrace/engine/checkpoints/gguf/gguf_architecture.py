"""Hugging Face equivalents of GGUF's architectures: config.json fields and tensor names.

The names are those of llama.cpp's converter, as listed in its `gguf` package.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.engine.checkpoints.gguf.gguf_metadata import GgufMetadata

LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp",
    "block_sparse_moe.gate": "ffn_gate_inp",
}
SANDWICH_NAMES = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
EXPERT_NAMES = {
    "gate_proj": "ffn_gate_exps",
    "up_proj": "ffn_up_exps",
    "down_proj": "ffn_down_exps",
    "w1": "ffn_gate_exps",
    "w3": "ffn_up_exps",
    "w2": "ffn_down_exps",
}
"""GGUF names of the experts' projections. One tensor holds a projection of all experts."""
GEMMA2_27B_LAYERS, GEMMA3_27B_LAYERS = 46, 62


@dataclass(frozen=True, slots=True)
class GgufArchitecture:
    """Properties that distinguish one architecture."""

    class_name: str
    """Name of the Hugging Face class."""
    layer_names: Mapping[str, str] = field(default_factory=lambda: LAYER_NAMES)
    """Hugging Face names of a layer's modules, mapped to those in GGUF."""
    top_names: Mapping[str, str] = field(default_factory=dict)
    """Hugging Face names of modules outside of layers, mapped to those in GGUF where these are unusual."""
    norm_offset: float = 0.0
    """Number that the converter added to the weights of all norms."""
    interleaves_heads: bool = False
    """Whether the two halves of each query and key head have interleaved rows."""
    biased_modules: Mapping[str, str] = field(default_factory=dict)
    """Keys of config.json, each with the module of a layer whose bias, if the file has one, makes it true."""
    optional_modules: Mapping[str, str] = field(default_factory=dict)
    """Keys of config.json, each with the module of a layer that makes it true if the file has it."""
    describe: Callable[[GgufMetadata], Mapping[str, Any]] = lambda _metadata: {}
    """Returns additional keys of config.json."""
    examine: Callable[[Mapping[str, tuple[int, ...]]], Mapping[str, Any]] = lambda _shapes: {}
    """Returns keys of config.json that only the names and shapes of tensors tell."""
    rotates_share: bool = False
    """Whether factors of frequencies say which pairs of a head rotate."""
    other_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Modules of a layer in GGUF, each with the names that differ in files that have it."""
    layer_numbers: Mapping[str, str] = field(default_factory=dict)
    """Hugging Face names of those numbers of a layer that files have in their metadata, each with its key."""


def _mixtral(metadata: GgufMetadata) -> Mapping[str, Any]:
    return {
        "num_local_experts": metadata.integer("expert_count"),
        "num_experts_per_tok": metadata.integer("expert_used_count"),
        "sliding_window": None,
    }


def _qwen3_moe(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Sets expert weights to sum to one, as in all existing models of the family; files do not say."""
    return {
        "num_experts": metadata.integer("expert_count"),
        "num_experts_per_tok": metadata.integer("expert_used_count"),
        "moe_intermediate_size": metadata.integer("expert_feed_forward_length"),
        "norm_topk_prob": True,
    }


def _phi3(metadata: GgufMetadata) -> Mapping[str, Any]:
    usual_size = metadata.integer("embedding_length") // metadata.integer("attention.head_count")
    head_size = metadata.integer("attention.key_length", usual_size)
    window = metadata.integer("attention.sliding_window", 0)
    return {
        "partial_rotary_factor": metadata.integer("rope.dimension_count", head_size) / head_size,
        "sliding_window": window or None,
    }


def _gemma2(metadata: GgufMetadata) -> Mapping[str, Any]:
    return {
        **_gemma(metadata, GEMMA2_27B_LAYERS),
        "attn_logit_softcapping": metadata.number("attn_logit_softcapping", 50.0),
        "final_logit_softcapping": metadata.number("final_logit_softcapping", 30.0),
    }


def _gemma3(metadata: GgufMetadata) -> Mapping[str, Any]:
    return {
        **_gemma(metadata, GEMMA3_27B_LAYERS),
        "rope_theta": metadata.number("rope.freq_base", 1e6),
        "rope_local_base_freq": metadata.number("rope.freq_base_swa", 1e4),
    }


def _gemma(metadata: GgufMetadata, large_layer_count: int) -> Mapping[str, Any]:
    """Derives the attention scale, which files do not state: it uses the head size, except in the largest model of each
    generation, which llama.cpp recognizes by its layer count."""
    head_size = metadata.integer("attention.key_length", 256)
    if metadata.integer("block_count") == large_layer_count:
        head_size = metadata.integer("embedding_length") // metadata.integer("attention.head_count")
    return {
        "query_pre_attn_scalar": head_size,
        "sliding_window": metadata.integer("attention.sliding_window", 4096),
        "head_dim": metadata.integer("attention.key_length", 256),
    }


_GEMMA_NAMES = {**LAYER_NAMES, **SANDWICH_NAMES}
MIXTRAL = GgufArchitecture("MixtralForCausalLM", interleaves_heads=True, describe=_mixtral)
ARCHITECTURES = {
    "llama": GgufArchitecture("LlamaForCausalLM", interleaves_heads=True),
    "qwen2": GgufArchitecture("Qwen2ForCausalLM"),
    "qwen3": GgufArchitecture("Qwen3ForCausalLM"),
    "qwen3moe": GgufArchitecture("Qwen3MoeForCausalLM", describe=_qwen3_moe),
    "phi3": GgufArchitecture("Phi3ForCausalLM", describe=_phi3),
    "gemma2": GgufArchitecture("Gemma2ForCausalLM", _GEMMA_NAMES, norm_offset=1.0, describe=_gemma2),
    "gemma3": GgufArchitecture("Gemma3ForCausalLM", _GEMMA_NAMES, norm_offset=1.0, describe=_gemma3),
}
"""Architectures by their GGUF names. Mixtral files use Llama's."""
