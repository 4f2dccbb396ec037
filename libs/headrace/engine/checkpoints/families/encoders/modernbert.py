"""ModernBERT (Warner et al., 2024): norms before blocks, gates, rotating heads, and windows in two of three layers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig, EncoderNames
from headrace.engine.checkpoints.facts.pooling import Pooling
from headrace.engine.checkpoints.facts.scoring_modules import ScoringFunction, ScoringModules
from headrace.engine.checkpoints.families.encoders.encoder_family import SCORING, EncoderFamily
from headrace.engine.checkpoints.families.encoders.encoder_rotation import plain_theta
from headrace.errors.tree import Unsupported

_FULL, _SLIDING = "full_attention", "sliding_attention"
_OLD_THETAS = {_FULL: ("global_rope_theta", 160_000.0), _SLIDING: ("local_rope_theta", 10_000.0)}
_FUNCTIONS: dict[str, ScoringFunction] = {"gelu": "gelu", "relu": "relu", "tanh": "tanh"}
_BIASES = {
    "attention_bias": ("attn.Wqkv", "attn.Wo"),
    "mlp_bias": ("mlp.Wi", "mlp.Wo"),
    "norm_bias": ("norm", "attn_norm", "mlp_norm", "final_norm"),
}
"""Modules that have a bias where config.json says so."""


def _adapt(config: EncoderConfig, raw: Mapping[str, Any]) -> EncoderConfig:
    kinds = _layer_kinds(config, raw)
    near = int(raw["local_attention"]) // 2 + 1
    return replace(
        config,
        position_count=1,
        normalizes_inputs=True,
        is_gated=True,
        thetas=tuple(_theta(kind, raw) for kind in kinds),
        windows=tuple(near if kind == _SLIDING else None for kind in kinds),
        unbiased=frozenset(name for key, names in _BIASES.items() if not raw.get(key) for name in names),
        scoring=_scoring(raw) if config.architecture.endswith(SCORING) else None,
    )


def _layer_kinds(config: EncoderConfig, raw: Mapping[str, Any]) -> list[str]:
    period = int(raw.get("global_attn_every_n_layers") or 3)
    usual = [_SLIDING if index % period else _FULL for index in range(config.layer_count)]
    kinds = [str(kind) for kind in raw.get("layer_types") or usual]
    if len(kinds) != config.layer_count or not {_FULL, _SLIDING}.issuperset(kinds):
        raise ValueError(f"layer_types is {kinds} for {config.layer_count} layers")
    return kinds


def _theta(kind: str, raw: Mapping[str, Any]) -> float:
    old, usual = _OLD_THETAS[kind]
    return plain_theta((raw.get("rope_parameters") or {}).get(kind) or {}, raw, raw.get(old) or usual)


def _scoring(raw: Mapping[str, Any]) -> ScoringModules:
    pooling = Pooling(raw.get("classifier_pooling") or "cls")
    name = str(raw.get("classifier_activation") or "gelu")
    if name not in _FUNCTIONS:
        raise Unsupported(f"classifier_activation {name} is not supported in ModernBert: only {', '.join(_FUNCTIONS)}")
    return ScoringModules("head.dense", _FUNCTIONS[name], "head.norm", "classifier", pooling)


MODERNBERT = EncoderFamily(
    "ModernBert",
    _adapt,
    keys={"hidden_act": "hidden_activation", "layer_norm_eps": "norm_eps"},
    defaults={"type_vocab_size": 0, "layer_norm_eps": 1e-5, "local_attention": 128},
    names=EncoderNames(
        root="model",
        word_embeddings="embeddings.tok_embeddings",
        position_embeddings="",
        embedding_norm="embeddings.norm",
        layer="layers",
        qkv="attn.Wqkv",
        attention_output="attn.Wo",
        attention_norm="attn_norm",
        up="mlp.Wi",
        down="mlp.Wo",
        output_norm="mlp_norm",
        final_norm="final_norm",
    ),
)
