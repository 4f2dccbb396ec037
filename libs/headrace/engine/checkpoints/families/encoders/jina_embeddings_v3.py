"""Jina Embeddings 3 (Sturua et al., 2024) without its adapters: XLM-RoBERTa with rotating heads."""

from collections.abc import Mapping
from typing import Any

from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig, EncoderNames
from headrace.engine.checkpoints.families.encoders.encoder_family import EncoderFamily
from headrace.engine.checkpoints.families.encoders.encoder_rotation import rotating
from headrace.errors.tree import Unsupported


def _adapt(config: EncoderConfig, raw: Mapping[str, Any]) -> EncoderConfig:
    if raw.get("lora_adaptations"):
        raise Unsupported("adapters for tasks are not supported in JinaEmbeddingsV3: save the model with one merged")
    return rotating(config, raw, 20_000.0)


JINA_EMBEDDINGS_V3 = EncoderFamily(
    "JinaEmbeddingsV3",
    _adapt,
    defaults={"layer_norm_eps": 1e-5, "type_vocab_size": 1},
    names=EncoderNames(
        root="roberta",
        position_embeddings="",
        embedding_norm="emb_ln",
        layer="encoder.layers",
        qkv="mixer.Wqkv",
        attention_output="mixer.out_proj",
        attention_norm="norm1",
        up="mlp.fc1",
        down="mlp.fc2",
        output_norm="norm2",
    ),
)
