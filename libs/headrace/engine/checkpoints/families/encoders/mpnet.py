"""MPNet (Song et al., 2020): RoBERTa without segments, plus an attention bias for relative distances."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig, EncoderNames
from headrace.engine.checkpoints.families.encoders.encoder_family import EncoderFamily
from headrace.engine.checkpoints.families.encoders.roberta import count_from_padding


def _adapt(config: EncoderConfig, raw: Mapping[str, Any]) -> EncoderConfig:
    return replace(count_from_padding(config, raw), bucket_count=int(raw["relative_attention_num_buckets"]))


MPNET = EncoderFamily(
    "MPNet",
    _adapt,
    defaults={
        "type_vocab_size": 0,
        "pad_token_id": 1,
        "layer_norm_eps": 1e-12,
        "relative_attention_num_buckets": 32,
    },
    names=EncoderNames(
        root="mpnet",
        query="attention.attn.q",
        key="attention.attn.k",
        value="attention.attn.v",
        attention_output="attention.attn.o",
        attention_norm="attention.LayerNorm",
    ),
)
