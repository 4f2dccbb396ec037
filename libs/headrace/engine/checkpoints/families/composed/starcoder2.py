"""StarCoder 2 (Lozhkov et al., 2024): layer norm with biases, and a feed-forward block without gates."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.sliding_window import same_window

BLOCKS = BlockFacts(centers_norms=True, biased_norms=True, is_gated=False)
NAMES = (("mlp.up_proj", "mlp.c_fc"), ("mlp.down_proj", "mlp.c_proj"))


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    has_bias = bool(raw["use_bias"])
    return replace(
        config,
        blocks=BLOCKS,
        module_names=NAMES,
        activation="gelu_tanh",
        qkv_bias=has_bias,
        output_bias=has_bias,
        mlp_bias=has_bias,
        rms_norm_epsilon=float(raw["norm_epsilon"]),
        windows=same_window(raw, config.layer_count),
    )


STARCODER2 = Family(
    "Starcoder2ForCausalLM",
    _adapt,
    {"use_bias": True, "norm_epsilon": 1e-5, "tie_word_embeddings": True},
    activations=("gelu_pytorch_tanh",),
)
