"""Tiny random checkpoints of all families, and what transformers makes of them."""

from pathlib import Path
from typing import Any

import torch
from tests.libs.engine.later_models import LATER_FAMILIES
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    LlamaForCausalLM,
    PreTrainedModel,
)

VOCAB_SIZE = 199

SHAPES: dict[str, dict[str, Any]] = {
    "grouped": {"num_attention_heads": 4, "num_key_value_heads": 2},
    "multi_head_untied": {"num_attention_heads": 4, "num_key_value_heads": 4, "tie_word_embeddings": False},
    "multi_query_bias": {"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 24, "attention_bias": True},
    "llama3_rope": {
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "mlp_bias": True,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    },
}


WINDOW = 24
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0, 1.1, 1.3, 1.6, 2.0, 2.5],
    "long_factor": [1.2, 1.7, 2.5, 4.0, 6.0, 8.0],
}
"""Rotary scaling for 12 of the 16 elements of a head."""

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama"},
    "qwen2": {"model_type": "qwen2"},
    "qwen2_distilled": {"model_type": "qwen2", "tie_word_embeddings": False, "sliding_window": WINDOW},
    "qwen2_windows": {
        "model_type": "qwen2",
        "use_sliding_window": True,
        "sliding_window": WINDOW,
        "max_window_layers": 1,
        "num_key_value_heads": 1,
    },
    "qwen2_layer_types": {
        "model_type": "qwen2",
        "use_sliding_window": True,
        "sliding_window": WINDOW,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    },
    "qwen3": {"model_type": "qwen3", "head_dim": 24},
    "qwen3_untied_bias": {
        "model_type": "qwen3",
        "head_dim": 16,
        "attention_bias": True,
        "num_key_value_heads": 4,
        "tie_word_embeddings": False,
    },
    "mistral": {"model_type": "mistral", "sliding_window": WINDOW, "tie_word_embeddings": False},
    "mistral_full": {"model_type": "mistral", "sliding_window": None, "head_dim": 24, "num_key_value_heads": 1},
    "mistral_wide": {"model_type": "mistral", "sliding_window": 150},
    "phi3": {"model_type": "phi3", "tie_word_embeddings": False, "sliding_window": WINDOW},
    "phi3_short": {
        "model_type": "phi3",
        "original_max_position_embeddings": 384,
        "partial_rotary_factor": 0.75,
        "rope_parameters": LONGROPE,
    },
    "phi3_long": {
        "model_type": "phi3",
        "original_max_position_embeddings": 32,
        "partial_rotary_factor": 0.75,
        "rope_parameters": LONGROPE,
    },
    "gemma2": {
        "model_type": "gemma2",
        "head_dim": 24,
        "query_pre_attn_scalar": 20,
        "sliding_window": WINDOW,
        "attn_logit_softcapping": 5.0,
        "final_logit_softcapping": 7.0,
    },
    "gemma2_uncapped": {
        "model_type": "gemma2",
        "head_dim": 16,
        "num_key_value_heads": 1,
        "sliding_window": WINDOW,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "tie_word_embeddings": False,
    },
    "gemma3": {
        "model_type": "gemma3_text",
        "head_dim": 24,
        "query_pre_attn_scalar": 20,
        "sliding_window": WINDOW,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    },
    "mixtral": {"model_type": "mixtral", "num_local_experts": 5, "sliding_window": None},
    "mixtral_windows": {
        "model_type": "mixtral",
        "num_local_experts": 4,
        "num_experts_per_tok": 3,
        "sliding_window": WINDOW,
        "tie_word_embeddings": False,
    },
    "qwen3_moe": {
        "model_type": "qwen3_moe",
        "head_dim": 24,
        "num_experts": 8,
        "num_experts_per_tok": 3,
        "moe_intermediate_size": 40,
        "norm_topk_prob": True,
        "mlp_only_layers": [1],
    },
    "qwen3_moe_sparse": {
        "model_type": "qwen3_moe",
        "head_dim": 16,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 40,
        "norm_topk_prob": False,
        "decoder_sparse_step": 2,
        "tie_word_embeddings": False,
    },
}
"""One or more of each family, with three layers, four heads and two KV heads where nothing else is said."""

ROPES: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
    "yarn_tempered": {
        "rope_type": "yarn",
        "factor": 8.0,
        "original_max_position_embeddings": 64,
        "mscale": 1.0,
        "mscale_all_dim": 0.7,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
        "truncate": False,
    },
    "yarn_with_attention_factor": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 128,
        "attention_factor": 1.3,
    },
    "llama3": SHAPES["llama3_rope"]["rope_parameters"],
}


def make_oracle(folder: Path, shape: str, seed: int = 0) -> LlamaForCausalLM:
    """Saves a random Llama to `folder` and returns the model, in fp32."""
    return save_random(folder, {"model_type": "llama", "num_hidden_layers": 2, **SHAPES[shape]}, seed)


def make_family(folder: Path, name: str, **settings: Any) -> PreTrainedModel:
    """Saves a random model of FAMILIES or LATER_FAMILIES to `folder` and returns it, in fp32."""
    usual = {"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "pad_token_id": None}
    return save_random(folder, usual | (FAMILIES | LATER_FAMILIES)[name] | settings)


def save_random(folder: Path, settings: dict[str, Any], seed: int = 0) -> PreTrainedModel:
    torch.manual_seed(seed)
    usual: dict[str, Any] = {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": 64,
        "intermediate_size": 100,
        "max_position_embeddings": 512,
        "tie_word_embeddings": True,
        "initializer_range": 0.2,
        "eos_token_id": None,
        "bos_token_id": None,
    }
    maker = AutoModelForImageTextToText if "text_config" in settings else AutoModelForCausalLM
    model = maker.from_config(AutoConfig.for_model(**(usual | settings))).eval()
    kind = str(settings["model_type"])
    is_raised = kind.startswith(("gemma", "nemotron")) and not kind.startswith(("gemma3n", "gemma4"))
    for name, parameter in model.named_parameters():
        if name.endswith(("bias", "alpha_p", "alpha_n", "sinks")) or any(part in name for part in ("norm", ".ln_")):
            torch.nn.init.normal_(parameter, mean=float(name.endswith("weight") and not is_raised), std=0.2)
        if name.endswith(("router.scale", "per_expert_scale", "correct_output_scale")):
            torch.nn.init.normal_(parameter, mean=1.0, std=0.2)
    for name, buffer in model.named_buffers():
        if name.endswith("layer_scalar"):
            torch.nn.init.uniform_(buffer, 0.5, 1.5)
        if name.endswith("e_score_correction_bias"):
            torch.nn.init.normal_(buffer, std=0.2)
    model.save_pretrained(folder)
    return model


def make_prompts(lengths: tuple[int, ...], seed: int = 1) -> list[tuple[int, ...]]:
    generator = torch.Generator().manual_seed(seed)
    return [tuple(torch.randint(0, VOCAB_SIZE, (length,), generator=generator).tolist()) for length in lengths]


@torch.inference_mode()
def continue_greedily(model: PreTrainedModel, prompt: tuple[int, ...], count: int) -> list[int]:
    """The oracle's most likely continuation."""
    ids = torch.tensor([prompt])
    generated = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False, pad_token_id=0
    )
    return generated[0, len(prompt) :].tolist()
