"""Facts that several families with experts have in common."""

from collections.abc import Mapping
from typing import Any

from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, ExpertRouting, SharedExpert

PROJECTIONS = ("gate_proj", "up_proj", "down_proj")
CORRECTION = "e_score_correction_bias"


def deepseek_experts(raw: Mapping[str, Any], bias_name: str) -> ExpertConfig:
    """Reads experts that are scored by sigmoids and chosen with a bias, within groups, as those of DeepSeek-V3 are."""
    inner = int(raw["moe_intermediate_size"])
    shared_count = int(raw.get("n_shared_experts") or 0)
    return ExpertConfig(
        count=int(raw["n_routed_experts"]),
        routing=ExpertRouting(
            int(raw["num_experts_per_tok"]),
            normalizes_weights=bool(raw["norm_topk_prob"]),
            score="sigmoid",
            group_count=int(raw.get("n_group") or 1),
            chosen_group_count=int(raw.get("topk_group") or 1),
            least_sum=1e-20,
            scale=float(raw["routed_scaling_factor"]),
            bias_name=bias_name,
        ),
        intermediate_size=inner,
        dense_layers=frozenset(range(int(raw["first_k_dense_replace"]))),
        module="mlp",
        projections=PROJECTIONS,
        shared=SharedExpert("shared_experts", shared_count * inner) if shared_count else None,
    )
