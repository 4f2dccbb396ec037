"""GTE (Zhang et al., 2024): BERT with rotating heads and gates."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig, EncoderNames
from headrace.engine.checkpoints.facts.scoring_modules import ScoringModules
from headrace.engine.checkpoints.families.encoders.encoder_family import EncoderFamily
from headrace.engine.checkpoints.families.encoders.encoder_rotation import rotating

_UP = "mlp.up_gate_proj"


def _adapt(config: EncoderConfig, raw: Mapping[str, Any]) -> EncoderConfig:
    return replace(rotating(config, raw, 160_000.0), is_gated=True, has_ups_first=True, unbiased=frozenset({_UP}))


GTE = EncoderFamily(
    "Gte",
    _adapt,
    defaults={"type_vocab_size": 1},
    names=EncoderNames(
        root="gte",
        position_embeddings="",
        qkv="attention.qkv_proj",
        attention_output="attention.o_proj",
        attention_norm="attn_ln",
        up=_UP,
        down="mlp.down_proj",
        output_norm="mlp_ln",
    ),
    scoring=ScoringModules(dense="gte.pooler.dense", output="classifier"),
)
