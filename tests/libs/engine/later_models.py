"""Settings of tiny checkpoints of the families that came later, by name."""

from typing import Any

WINDOW = 24
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 128}
FACTORS = {
    "embedding_multiplier": 3.0,
    "residual_multiplier": 0.22,
    "attention_multiplier": 0.2,
    "logits_scaling": 2.5,
}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
TEXT = {
    "vocab_size": 199,
    "hidden_size": 64,
    "intermediate_size": 100,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "head_dim": 32,
    "initializer_range": 0.2,
    "pad_token_id": None,
    "eos_token_id": None,
    "bos_token_id": None,
}
EXPERTS = {"moe_intermediate_size": 40, "num_experts_per_tok": 3, "num_experts": 6}
WINDOWS = ["sliding_attention", "sliding_attention", "full_attention"]

FUSED: dict[str, dict[str, Any]] = {
    "smollm3": {"model_type": "smollm3", "no_rope_layer_interval": 2, "rope_parameters": YARN},
    "smollm3_windows": {
        "model_type": "smollm3",
        "no_rope_layers": [1, 0, 0],
        "use_sliding_window": True,
        "sliding_window": WINDOW,
        "attention_bias": True,
        "tie_word_embeddings": False,
    },
    "granite": {"model_type": "granite", **FACTORS, "rms_norm_eps": 1e-3},
    "granite_biased": {
        "model_type": "granite",
        **FACTORS,
        "attention_bias": True,
        "mlp_bias": True,
        "tie_word_embeddings": False,
    },
    "granite_hybrid": {
        "model_type": "granitemoehybrid",
        **FACTORS,
        "num_local_experts": 0,
        "shared_intermediate_size": 80,
        "layer_types": ["full_attention"] * 3,
        "position_embedding_type": "rope",
    },
    "granite_hybrid_unrotated": {
        "model_type": "granitemoehybrid",
        **FACTORS,
        "num_local_experts": 0,
        "shared_intermediate_size": 80,
        "layer_types": ["full_attention"] * 3,
        "tie_word_embeddings": False,
    },
    "glm": {"model_type": "glm", "head_dim": 32},
    "glm4": {"model_type": "glm4", "head_dim": 32},
    "glm4_unbiased": {"model_type": "glm4", "head_dim": 16, "attention_bias": False, "tie_word_embeddings": False},
    "seed_oss": {"model_type": "seed_oss", "head_dim": 32},
    "seed_oss_biased": {
        "model_type": "seed_oss",
        "head_dim": 16,
        "attention_out_bias": True,
        "mlp_bias": True,
        "tie_word_embeddings": False,
    },
    "ernie4_5": {"model_type": "ernie4_5", "head_dim": 32},
    "ernie4_5_biased": {"model_type": "ernie4_5", "head_dim": 16, "use_bias": True, "tie_word_embeddings": False},
    "ministral3": {
        "model_type": "ministral3",
        "head_dim": 32,
        "rope_parameters": {**YARN, "original_max_position_embeddings": 512, "llama_4_scaling_beta": 0.1},
    },
    "mistral3": {
        "model_type": "mistral3",
        "text_config": {**TEXT, "model_type": "mistral", "sliding_window": None},
        "vision_config": {**VISION, "model_type": "pixtral"},
        "tie_word_embeddings": False,
    },
    "gemma3_multimodal": {
        "model_type": "gemma3",
        "text_config": {
            **TEXT,
            "model_type": "gemma3_text",
            "query_pre_attn_scalar": 20,
            "sliding_window": WINDOW,
            "layer_types": WINDOWS,
        },
        "vision_config": {**VISION, "model_type": "siglip_vision_model"},
        "mm_tokens_per_image": 4,
    },
    "qwen2_moe": {**EXPERTS, "model_type": "qwen2_moe", "shared_expert_intermediate_size": 64},
    "qwen2_moe_sparse": {
        **EXPERTS,
        "model_type": "qwen2_moe",
        "shared_expert_intermediate_size": 48,
        "norm_topk_prob": True,
        "decoder_sparse_step": 2,
        "qkv_bias": False,
    },
    "glm4_moe": {
        **EXPERTS,
        "model_type": "glm4_moe",
        "n_routed_experts": 6,
        "n_shared_experts": 2,
        "routed_scaling_factor": 2.5,
        "use_qk_norm": True,
        "attention_bias": True,
    },
    "glm4_moe_groups": {
        **EXPERTS,
        "model_type": "glm4_moe",
        "n_routed_experts": 8,
        "n_group": 4,
        "topk_group": 2,
        "first_k_dense_replace": 0,
    },
    "dots1": {
        **EXPERTS,
        "model_type": "dots1",
        "n_routed_experts": 6,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
        "norm_topk_prob": True,
        "max_window_layers": 3,
    },
    "ernie4_5_moe": {
        **EXPERTS,
        "model_type": "ernie4_5_moe",
        "moe_num_experts": 6,
        "moe_k": 3,
        "moe_num_shared_experts": 2,
        "tie_word_embeddings": False,
    },
    "gpt_oss": {
        "model_type": "gpt_oss",
        "num_local_experts": 6,
        "num_experts_per_tok": 3,
        "sliding_window": WINDOW,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "rope_parameters": {**YARN, "truncate": False},
        "experts_implementation": "eager",
    },
    "phi4_mini": {
        "model_type": "phi3",
        "num_attention_heads": 4,
        "original_max_position_embeddings": 512,
        "partial_rotary_factor": 0.75,
        "rope_parameters": {
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "short_factor": [1.0, 1.1, 1.3, 1.6, 2.0, 2.5],
            "long_factor": [1.2, 1.7, 2.5, 4.0, 6.0, 8.0],
        },
    },
}
"""Families that the fused kernels compute."""

COMPOSED: dict[str, dict[str, Any]] = {
    "olmoe": {"model_type": "olmoe", "num_experts": 6, "num_experts_per_tok": 2, "tie_word_embeddings": False},
    "olmo2": {"model_type": "olmo2", "tie_word_embeddings": False},
    "olmo2_grouped": {"model_type": "olmo2", "attention_bias": True, "num_key_value_heads": 1},
    "olmo3": {
        "model_type": "olmo3",
        "sliding_window": WINDOW,
        "layer_types": WINDOWS,
        "rope_parameters": {
            "full_attention": YARN,
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    },
    "cohere": {"model_type": "cohere", "logit_scale": 0.3},
    "cohere_biased": {"model_type": "cohere", "attention_bias": True, "tie_word_embeddings": False},
    "cohere2": {"model_type": "cohere2", "sliding_window": WINDOW, "layer_types": WINDOWS},
    "exaone4": {"model_type": "exaone4", "sliding_window": WINDOW, "layer_types": WINDOWS},
    "exaone4_full": {"model_type": "exaone4", "sliding_window": None, "layer_types": ["full_attention"] * 3},
    "starcoder2": {"model_type": "starcoder2", "sliding_window": WINDOW},
    "starcoder2_unbiased": {"model_type": "starcoder2", "use_bias": False, "tie_word_embeddings": False},
    "stablelm": {"model_type": "stablelm", "use_qkv_bias": True, "num_attention_heads": 2},
    "stablelm_parallel": {"model_type": "stablelm", "use_parallel_residual": True, "tie_word_embeddings": False},
    "nemotron": {"model_type": "nemotron", "head_dim": 32},
    "nemotron_biased": {"model_type": "nemotron", "attention_bias": True, "mlp_bias": True},
    "arcee": {"model_type": "arcee", "rope_parameters": YARN},
    "apertus": {"model_type": "apertus", "rope_parameters": YARN, "dtype": "float32"},
    "apertus_biased": {"model_type": "apertus", "attention_bias": True, "dtype": "float32"},
}
"""Families whose blocks torch computes."""
LATER_FAMILIES = FUSED | COMPOSED
