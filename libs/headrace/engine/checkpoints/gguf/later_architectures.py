"""GGUF's architectures of the families that came later, see `gguf_architecture.py`."""

from collections.abc import Mapping
from typing import Any

from headrace.engine.checkpoints.gguf.gguf_architecture import LAYER_NAMES, SANDWICH_NAMES, GgufArchitecture
from headrace.engine.checkpoints.gguf.gguf_metadata import GgufMetadata
from headrace.errors.tree import Unsupported

_SANDWICH_NAMES = {**LAYER_NAMES, **SANDWICH_NAMES}
_QUERY_BIAS = {"attention_bias": "attn_q"}
WINDOW, WINDOW_PATTERN = "attention.sliding_window", "attention.sliding_window_pattern"
_XIELU = {f"mlp.act_fn.{name}": f"xielu.{name}" for name in ("alpha_p", "alpha_n", "beta", "eps")}
_SECOND_NORM = "attn_norm_2"
"""Norm of attention's inputs in those files of Falcon whose blocks have a norm each."""


def granite_factors(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Returns the factors of Granite 3 and 4. Raises Unsupported for models that do not rotate."""
    if not metadata.flag("rope.scaling.finetuned", default=True):
        raise Unsupported(
            f"{metadata.path}: Granite without rotation is not supported as GGUF: serve its folder of safetensors"
        )
    return block_factors(metadata)


def block_factors(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Returns the factors of all of Granite's models."""
    usual_size = metadata.integer("embedding_length") // metadata.integer("attention.head_count")
    return {
        "embedding_multiplier": metadata.number("embedding_scale", 1.0),
        "residual_multiplier": metadata.number("residual_scale", 1.0),
        "attention_multiplier": metadata.number("attention.scale", usual_size**-0.5),
        "logits_scaling": metadata.number("logit_scale", 1.0),
    }


def partial_rotation(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Returns the share of a head that rotates."""
    usual_size = metadata.integer("embedding_length") // metadata.integer("attention.head_count")
    head_size = metadata.integer("attention.key_length", usual_size)
    return {"partial_rotary_factor": metadata.integer("rope.dimension_count", head_size) / head_size}


def _mistral3(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Adds what Ministral 3 has beside YaRN's usual settings: the factor does not scale attention, and queries of long
    contexts are scaled. Mistral Small 3 has neither."""
    if metadata.text("rope.scaling.type", "none") != "yarn":
        return {}
    rope = {
        "rope_type": "yarn",
        "factor": metadata.number("rope.scaling.factor"),
        "original_max_position_embeddings": metadata.integer("rope.scaling.original_context_length"),
        "mscale": 1.0,
        "mscale_all_dim": metadata.number("rope.scaling.yarn_log_multiplier", 1.0),
        "llama_4_scaling_beta": metadata.number("attention.temperature_scale", 0.0),
    }
    return {"rope_scaling": rope}


def _olmo3(metadata: GgufMetadata) -> Mapping[str, Any]:
    windowed = metadata.numbers(WINDOW_PATTERN)
    return {
        "sliding_window": metadata.integer(WINDOW),
        "layer_types": ["sliding_attention" if each else "full_attention" for each in windowed],
    }


def _exaone4(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Sets the period of layers without a window to 4, as in all existing models of the family that have windows."""
    return {"sliding_window": metadata.integer("attention.sliding_window", 0) or None, "sliding_window_pattern": 4}


def _command_r(metadata: GgufMetadata) -> Mapping[str, Any]:
    return {"logit_scale": metadata.number("logit_scale")}


def _cohere2(metadata: GgufMetadata) -> Mapping[str, Any]:
    return {**_command_r(metadata), "sliding_window": metadata.integer("attention.sliding_window")}


def _starcoder2(metadata: GgufMetadata) -> Mapping[str, Any]:
    return {"sliding_window": metadata.integer("attention.sliding_window", 0) or None}


def _stablelm(metadata: GgufMetadata) -> Mapping[str, Any]:
    return {
        **partial_rotation(metadata),
        "use_parallel_residual": metadata.flag("use_parallel_residual", default=False),
    }


def _gpt_neox(metadata: GgufMetadata) -> Mapping[str, Any]:
    return {
        **partial_rotation(metadata),
        "use_parallel_residual": metadata.flag("use_parallel_residual", default=True),
        "groups_heads": False,
    }


def _falcon(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Describes all sizes in the form of the larger ones, which can have any number of KV heads."""
    return {
        "new_decoder_architecture": True,
        "num_kv_heads": metadata.integer("attention.head_count_kv", metadata.integer("attention.head_count")),
        "ffn_hidden_size": metadata.integer("feed_forward_length"),
        "groups_heads": False,
    }


def _falcon_norms(shapes: Mapping[str, tuple[int, ...]]) -> Mapping[str, Any]:
    return {"num_ln_in_parallel_attn": 2 if f"blk.0.{_SECOND_NORM}.weight" in shapes else 1}


def _gpt_oss(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Sets what files do not say to what all existing models of the family have: every second layer has a window, and
    YaRN does not round the bounds of its ramp."""
    rope = {
        "rope_type": "yarn",
        "factor": metadata.number("rope.scaling.factor"),
        "original_max_position_embeddings": metadata.integer("rope.scaling.original_context_length"),
        "truncate": False,
    }
    return {
        "num_local_experts": metadata.integer("expert_count"),
        "num_experts_per_tok": metadata.integer("expert_used_count"),
        "intermediate_size": metadata.integer("expert_feed_forward_length"),
        "sliding_window": metadata.integer("attention.sliding_window"),
        "rope_scaling": rope,
    }


OLMO3 = GgufArchitecture("Olmo3ForCausalLM", _SANDWICH_NAMES, describe=_olmo3)
LATER_ARCHITECTURES = {
    "mistral3": GgufArchitecture("Ministral3ForCausalLM", interleaves_heads=True, describe=_mistral3),
    "arcee": GgufArchitecture("ArceeForCausalLM", interleaves_heads=True),
    "apertus": GgufArchitecture("ApertusForCausalLM", biased_modules=_QUERY_BIAS, layer_numbers=_XIELU),
    "smollm3": GgufArchitecture("SmolLM3ForCausalLM", interleaves_heads=True),
    "granite": GgufArchitecture("GraniteForCausalLM", interleaves_heads=True, describe=granite_factors),
    "glm4": GgufArchitecture("Glm4ForCausalLM", _SANDWICH_NAMES, describe=partial_rotation, biased_modules=_QUERY_BIAS),
    "seed_oss": GgufArchitecture(
        "SeedOssForCausalLM",
        {**LAYER_NAMES, "post_attention_layernorm": "post_attention_norm"},
        biased_modules={**_QUERY_BIAS, "attention_out_bias": "attn_output", "mlp_bias": "ffn_down"},
    ),
    "hunyuan-dense": GgufArchitecture("HunYuanDenseV1ForCausalLM", biased_modules=_QUERY_BIAS),
    "ernie4_5": GgufArchitecture("Ernie4_5ForCausalLM", biased_modules={"use_bias": "attn_q"}),
    "gpt-oss": GgufArchitecture(
        "GptOssForCausalLM",
        {**LAYER_NAMES, "post_attention_layernorm": "post_attention_norm"},
        biased_modules=_QUERY_BIAS,
        describe=_gpt_oss,
    ),
    "olmo2": GgufArchitecture("Olmo2ForCausalLM", _SANDWICH_NAMES),
    "exaone4": GgufArchitecture("Exaone4ForCausalLM", _SANDWICH_NAMES, describe=_exaone4),
    "command-r": GgufArchitecture("CohereForCausalLM", describe=_command_r),
    "cohere2": GgufArchitecture("Cohere2ForCausalLM", describe=_cohere2),
    "starcoder2": GgufArchitecture(
        "Starcoder2ForCausalLM", describe=_starcoder2, biased_modules={"use_bias": "attn_q"}
    ),
    "stablelm": GgufArchitecture("StableLmForCausalLM", describe=_stablelm, biased_modules={"use_qkv_bias": "attn_q"}),
    "gptneox": GgufArchitecture(
        "GPTNeoXForCausalLM", describe=_gpt_neox, biased_modules={"attention_bias": "attn_qkv"}
    ),
    "falcon": GgufArchitecture(
        "FalconForCausalLM",
        other_names={_SECOND_NORM: {"input_layernorm": _SECOND_NORM, "post_attention_layernorm": "attn_norm"}},
        biased_modules={"bias": "attn_qkv"},
        describe=_falcon,
        examine=_falcon_norms,
    ),
    "nemotron": GgufArchitecture(
        "NemotronForCausalLM",
        norm_offset=1.0,
        describe=partial_rotation,
        biased_modules={**_QUERY_BIAS, "mlp_bias": "ffn_down"},
    ),
}
"""Architectures by their GGUF names. OLMo 3's files use OLMo 2's."""
