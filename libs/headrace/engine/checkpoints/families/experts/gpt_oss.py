"""gpt-oss (Agarwal et al., 2025): experts with clamped gates and biases, sinks in attention, a window in every second
layer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, ExpertRouting, StackedExperts
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.sliding_window import FULL, SLIDING, windows_of
from headrace.engine.checkpoints.families.experts.shared_blocks import PROJECTIONS
from headrace.errors.tree import Unsupported

GATES = {"swiglu_alpha": 1.702, "swiglu_limit": 7.0}
"""Numbers of the gates, which the kernels have as constants."""


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    for key, number in GATES.items():
        if float(raw[key]) != number:
            raise Unsupported(f"{key} {raw[key]} is not supported in GptOssForCausalLM: only {number}")
    layers = config.layer_count
    usual = [FULL if index % 2 else SLIDING for index in range(layers)]
    experts = ExpertConfig(
        count=int(raw["num_local_experts"]),
        # A softmax over the chosen ones alone is that over all, scaled to sum to one.
        routing=ExpertRouting(int(raw["num_experts_per_tok"]), normalizes_weights=True),
        intermediate_size=config.intermediate_size,
        dense_layers=frozenset(),
        module="mlp",
        projections=PROJECTIONS,
        has_router_bias=True,
        stacked=StackedExperts("experts.gate_up_proj", "experts.down_proj", is_transposed=True, is_interleaved=True),
    )
    has_bias = bool(raw["attention_bias"])
    return replace(
        config,
        activation="clamped_swish",
        qkv_bias=has_bias,
        output_bias=has_bias,
        mlp_bias=True,
        windows=windows_of(raw.get("layer_types") or usual, raw, layers),
        has_sinks=True,
        experts=experts,
        module_names=(("mlp.gate", "mlp.router"),),
    )


GPT_OSS = Family(
    "GptOssForCausalLM",
    _adapt,
    {
        **GATES,
        "rms_norm_eps": 1e-5,
        "attention_bias": True,
        "sliding_window": 128,
        "num_local_experts": 128,
        "num_experts_per_tok": 4,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 150_000.0,
            "factor": 32.0,
            "truncate": False,
            "original_max_position_embeddings": 4096,
        },
    },
)
