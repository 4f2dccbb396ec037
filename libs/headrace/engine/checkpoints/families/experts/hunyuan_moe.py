"""Hunyuan-A13B (Tencent, 2025): Hunyuan with experts beside a shared one of the same size."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, ExpertRouting, SharedExpert
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.experts.shared_blocks import PROJECTIONS
from headrace.engine.checkpoints.families.fused.hunyuan import HUNYUAN_NAMES, adapt_hunyuan
from headrace.errors.tree import Unsupported


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    if raw.get("use_cla"):
        raise Unsupported("use_cla is not supported in HunYuanMoEV1ForCausalLM: keys and values that layers share")
    if _one(raw, "num_shared_expert", 1) != 1:
        raise Unsupported("num_shared_expert is not supported in HunYuanMoEV1ForCausalLM, other than 1")
    inner = _one(raw, "moe_intermediate_size", config.intermediate_size)
    experts = ExpertConfig(
        count=_one(raw, "num_experts", 1),
        routing=ExpertRouting(_one(raw, "moe_topk", 1), normalizes_weights=True),
        intermediate_size=inner,
        dense_layers=frozenset(),
        module="mlp",
        projections=PROJECTIONS,
        shared=SharedExpert("shared_mlp", inner),
    )
    adapted = adapt_hunyuan(config, raw)
    return replace(adapted, experts=experts, module_names=(*HUNYUAN_NAMES, ("mlp.gate", "mlp.gate.wg")))


def _one(raw: Mapping[str, Any], name: str, default: int) -> int:
    """Reads a number that files also have as a list of one for each layer. Raises Unsupported where layers differ."""
    value = raw.get(name)
    values = set(value) if isinstance(value, list) else {default if value is None else value}
    if len(values) != 1:
        raise Unsupported(f"{name} is not supported in HunYuanMoEV1ForCausalLM where layers differ: {sorted(values)}")
    return int(values.pop())


HUNYUAN_MOE = Family("HunYuanMoEV1ForCausalLM", _adapt, {"rms_norm_eps": 1e-5})
