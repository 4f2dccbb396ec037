"""Nemotron-H, Nemotron Nano 2 and Nemotron 3 (NVIDIA, 2025): each layer has one block, a state space of Mamba-2,
attention without rotation, a feed-forward block without gates, or a mixture of such blocks, which Nemotron 3 Super and
Ultra have within a latent vector."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, LatentSpace, SharedExpert
from headrace.engine.checkpoints.facts.states.state_config import StateConfig
from headrace.engine.checkpoints.facts.states.state_space import StateSpace
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.experts.shared_blocks import CORRECTION, deepseek_experts
from headrace.errors.tree import Unsupported

ATTENTION, SPACE, FEEDING, EXPERTS = "full_attention", "linear_attention", "mlp", "moe"
KINDS = {"*": ATTENTION, "M": SPACE, "-": FEEDING, "E": EXPERTS, "attention": ATTENTION, "mamba": SPACE}
"""Kinds of layers as transformers 5 names them, by those of published models."""
NAMES = (
    ("embed_tokens", "embeddings"),
    ("norm", "norm_f"),
    ("input_layernorm", "norm"),
    *((f"self_attn.{name}_proj", f"mixer.{name}_proj") for name in "qkvo"),
    *((f"mlp.{name}_proj", f"mixer.{name}_proj") for name in ("up", "down")),
)


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    listed = raw.get("layer_types") or raw.get("layers_block_type") or raw["hybrid_override_pattern"]
    kinds = [KINDS.get(kind, kind) for kind in listed]
    if others := sorted(set(kinds) - {ATTENTION, SPACE, FEEDING, EXPERTS}):
        raise Unsupported(f"layers of kind {others[0]!r} are not supported in {config.architecture}")
    space = StateSpace(
        module="mixer",
        head_count=int(raw["mamba_num_heads"]),
        head_size=int(raw["mamba_head_dim"]),
        state_size=int(raw["ssm_state_size"]),
        group_count=int(raw["n_groups"]),
        width=int(raw["conv_kernel"]),
        has_convolution_bias=bool(raw["use_conv_bias"]),
        has_bias=bool(raw["use_bias"]),
        norm_epsilon=float(raw["layer_norm_epsilon"]),
    )
    layers, attention_layers = (
        tuple(index for index, kind in enumerate(kinds) if kind == wanted) for wanted in (SPACE, ATTENTION)
    )
    return replace(
        config,
        layer_count=len(kinds),
        windows=(None,) * len(kinds),
        unrotated_layers=frozenset(range(len(kinds))),
        rms_norm_epsilon=float(raw["layer_norm_epsilon"]),
        activation="relu_squared",
        qkv_bias=False,
        output_bias=False,
        module_names=NAMES,
        experts=_experts(kinds, raw) if EXPERTS in kinds else None,
        blocks=BlockFacts(is_gated=False, has_single_blocks=True, states=StateConfig(layers, attention_layers, space)),
    )


def _experts(kinds: list[str], raw: Mapping[str, Any]) -> ExpertConfig:
    shared_size, latent_size = int(raw["moe_shared_expert_intermediate_size"]), raw.get("moe_latent_size")
    return replace(
        deepseek_experts(raw, f"gate.{CORRECTION}"),
        dense_layers=frozenset(index for index, kind in enumerate(kinds) if kind != EXPERTS),
        module="mixer",
        shared=SharedExpert("shared_experts", shared_size) if raw["n_shared_experts"] else None,
        is_gated=False,
        latent=None if latent_size is None else LatentSpace(int(latent_size), "fc1_latent_proj", "fc2_latent_proj"),
    )


NEMOTRON_H = Family(
    "NemotronHForCausalLM",
    _adapt,
    {
        "num_hidden_layers": 1,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "layer_norm_epsilon": 1e-5,
        "mamba_num_heads": 128,
        "mamba_head_dim": 64,
        "ssm_state_size": 128,
        "n_groups": 8,
        "conv_kernel": 4,
        "use_conv_bias": True,
        "use_bias": False,
        "n_routed_experts": 8,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 7688,
        "moe_shared_expert_intermediate_size": 7688,
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.0,
        "first_k_dense_replace": 0,
    },
    activation_key="mlp_hidden_act",
    activations=("relu2",),
)
