"""The text models of Mistral Small 3 and Ministral 3 (Mistral AI, 2025), saved as parts of models that read images.

Ministral 3 scales the queries behind its first training length, so contexts end there.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.sliding_window import same_window
from headrace.errors.tree import Unsupported

TEXT_MODELS = ("mistral", "ministral3")


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    kind = raw.get("model_type", TEXT_MODELS[0])
    if kind not in TEXT_MODELS:
        raise Unsupported(
            f"text model {kind!r} is not supported in {config.architecture}: only {', '.join(TEXT_MODELS)}"
        )
    return adapt_ministral3(config, raw)


def adapt_ministral3(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    """Applies Mistral's facts, and the length up to which queries are not scaled."""
    rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    first_length = rope.get("original_max_position_embeddings") if rope.get("llama_4_scaling_beta") else None
    return replace(
        config,
        qkv_bias=False,
        output_bias=False,
        mlp_bias=False,
        windows=same_window(raw, config.layer_count),
        max_model_length=min(config.max_model_length, int(first_length or config.max_model_length)),
    )


MISTRAL3 = Family("Mistral3ForConditionalGeneration", _adapt, {"rms_norm_eps": 1e-5}, is_nested=True)
MINISTRAL3 = Family("Ministral3ForCausalLM", adapt_ministral3, {"rms_norm_eps": 1e-5, "head_dim": 128})
