"""Nomic BERT (Nussbaum et al., 2024): BERT with rotating heads, gates, and no biases but those of norms.

config.json is in the form of transformers or in that of the model's own code, whose keys are GPT-2's.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig, EncoderNames
from headrace.engine.checkpoints.facts.scoring_modules import ScoringModules
from headrace.engine.checkpoints.families.encoders.encoder_family import EncoderFamily
from headrace.engine.checkpoints.families.encoders.encoder_rotation import rotating
from headrace.errors.tree import Unsupported

_NAMES = EncoderNames(
    root="nomic_bert",
    position_embeddings="",
    embedding_norm="emb_ln",
    layer="encoder.layers",
    qkv="attn.Wqkv",
    attention_output="attn.out_proj",
    attention_norm="norm1",
    gate="mlp.fc12",
    up="mlp.fc11",
    down="mlp.fc2",
    output_norm="norm2",
)


_USUAL: dict[str, Any] = {
    "activation_function": "swiglu",
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "moe_every_n_layers": 0,
    "parallel_block": False,
    "prenorm": False,
    "qkv_proj_bias": False,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "use_rms_norm": False,
}
"""Values of the code's keys that other models of it have otherwise."""
_TRAINED_LENGTH = 2048
"""Positions beyond which the code changes the frequencies of all."""


def _adapt(config: EncoderConfig, raw: Mapping[str, Any]) -> EncoderConfig:
    for key, usual in _USUAL.items():
        if raw.get(key) not in (None, usual):
            raise Unsupported(f"{key} {raw[key]} is not supported in NomicBert: only {usual}")
    max_len = config.max_model_length
    if "n_embd" in raw:
        max_len = min(max_len, int(raw.get("max_trained_positions") or _TRAINED_LENGTH))
    rotated = rotating(config, raw, raw.get("rotary_emb_base") or 1000.0)
    modules = (_NAMES.qkv, _NAMES.attention_output, _NAMES.gate, _NAMES.up, _NAMES.down)
    return replace(rotated, is_gated=True, unbiased=frozenset(modules), max_model_length=max_len)


NOMIC_BERT = EncoderFamily(
    "NomicBert",
    _adapt,
    keys={
        "hidden_size": "n_embd",
        "intermediate_size": "n_inner",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
        "max_position_embeddings": "n_positions",
        "layer_norm_eps": "layer_norm_epsilon",
    },
    defaults={"hidden_act": "silu"},
    names=_NAMES,
    scoring=ScoringModules(dense="nomic_bert.pooler.dense", output="classifier"),
)
