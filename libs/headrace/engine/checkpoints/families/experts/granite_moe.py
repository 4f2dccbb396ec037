"""Granite 3 with experts (IBM, 2024), and Granite 4's with a shared one: the factors of Granite 3, and experts whose
matrices checkpoints stack into one tensor for each layer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, ExpertRouting, SharedExpert, StackedExperts
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.experts.shared_blocks import PROJECTIONS
from headrace.engine.checkpoints.families.fused.granite import GRANITE_DEFAULTS, adapt_granite

MODULE, SHARED = "block_sparse_moe", "shared_mlp"
NAMES = (
    (f"{MODULE}.gate", f"{MODULE}.router.layer"),
    (f"{MODULE}.{SHARED}.gate_up_proj", f"{SHARED}.input_linear"),
    (f"{MODULE}.{SHARED}.down_proj", f"{SHARED}.output_linear"),
)
FUSES_GATES = "fuses_shared_gates"
"""Key that the reader of GGUF sets: there, the shared expert's gate and up projections are apart."""
STACKED = StackedExperts("input_linear.weight", "output_linear.weight", is_transposed=False, is_interleaved=False)


def adapt_granite_moe(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    """Applies the facts of Granite's experts. The softmax over the chosen ones is read as that over all of them, scaled
    to a sum of one: both are the same."""
    shared_size = int(raw.get("shared_intermediate_size") or 0)
    experts = ExpertConfig(
        count=int(raw["num_local_experts"]),
        routing=ExpertRouting(int(raw["num_experts_per_tok"]), normalizes_weights=True),
        intermediate_size=config.intermediate_size,
        dense_layers=frozenset(),
        module=MODULE,
        projections=PROJECTIONS,
        shared=SharedExpert(SHARED, shared_size, fuses_gates=bool(raw[FUSES_GATES])) if shared_size else None,
        stacked=STACKED,
    )
    return replace(adapt_granite(config, raw), mlp_bias=False, module_names=NAMES, experts=experts)


GRANITE_MOE_DEFAULTS = {**GRANITE_DEFAULTS, "num_local_experts": 8, "num_experts_per_tok": 2, FUSES_GATES: True}
GRANITE_MOE = Family("GraniteMoeForCausalLM", adapt_granite_moe, GRANITE_MOE_DEFAULTS)
GRANITE_MOE_SHARED = Family("GraniteMoeSharedForCausalLM", adapt_granite_moe, GRANITE_MOE_DEFAULTS)
