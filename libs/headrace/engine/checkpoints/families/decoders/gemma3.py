"""The text models of Gemma 3 (Kamath et al., 2025): Gemma 2 with normalized queries and keys instead of soft caps, and
lower rotary frequencies in layers without a window. EmbeddingGemma's tokens see those after them too."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.gemma2 import GEMMA_DEFAULTS, adapt_gemma
from headrace.engine.checkpoints.families.decoders.rope_parameters import read_rope_scaling
from headrace.errors.tree import Unsupported


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    if raw.get("attn_logit_softcapping") is not None:
        raise Unsupported("attn_logit_softcapping is not supported in Gemma3ForCausalLM")
    sees_all = bool(raw.get("use_bidirectional_attention"))
    if sees_all:
        # config.json has the tokens on both sides together.
        raw = {**raw, "sliding_window": int(raw["sliding_window"]) // 2 + 1}
    adapted = adapt_gemma(config, raw, full_period=int(raw["sliding_window_pattern"]))
    return replace(adapted, query_key_norm=True, local_rope_theta=_local_rope_theta(raw), sees_all=sees_all)


def _local_rope_theta(raw: Mapping[str, Any]) -> float:
    local = (raw.get("rope_parameters") or {}).get("sliding_attention") or {}
    if read_rope_scaling(local) is not None:
        raise Unsupported("rotary scaling of layers with a window is not supported")
    return float(local.get("rope_theta") or raw["rope_local_base_freq"])


GEMMA3 = Family(
    "Gemma3ForCausalLM",
    _adapt,
    {**GEMMA_DEFAULTS, "rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window_pattern": 6},
    activation_key="hidden_activation",
    activations=("gelu_pytorch_tanh",),
)
