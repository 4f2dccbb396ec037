"""nanochat (Karpathy, 2025): norms without weights, also of the embedding and of heads after they rotate, and squared
ReLU without gates. Its rotary pairs turn the other way."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.gemma2 import read_cap

NORMS = ("embedding_norm", "input_layernorm", "post_attention_layernorm", "q_norm", "k_norm", "norm")
BLOCKS = BlockFacts(is_gated=False, normalizes_embedding=True, weightless_norms=frozenset(NORMS))
NAMES = (("mlp.up_proj", "mlp.fc1"), ("mlp.down_proj", "mlp.fc2"))


def _adapt(config: DecoderConfig, raw: Mapping[str, Any]) -> DecoderConfig:
    return replace(
        config,
        blocks=BLOCKS,
        module_names=NAMES,
        activation="relu_squared",
        query_key_norm=True,
        norms_rotated=True,
        turns_backwards=True,
        logit_soft_cap=read_cap(raw, "final_logit_softcapping"),
        mlp_bias=False,
    )


NANOCHAT = Family(
    "NanoChatForCausalLM",
    _adapt,
    {"max_position_embeddings": 2048, "final_logit_softcapping": 15.0},
    activations=("relu2",),
)
