"""The architectures that Headrace supports."""

from difflib import get_close_matches

from headrace.engine.checkpoints.families.composed.apertus import APERTUS
from headrace.engine.checkpoints.families.composed.arcee import ARCEE
from headrace.engine.checkpoints.families.composed.cohere import COHERE
from headrace.engine.checkpoints.families.composed.cohere2 import COHERE2
from headrace.engine.checkpoints.families.composed.exaone4 import EXAONE4
from headrace.engine.checkpoints.families.composed.nanochat import NANOCHAT
from headrace.engine.checkpoints.families.composed.nemotron import NEMOTRON
from headrace.engine.checkpoints.families.composed.olmo2 import OLMO2
from headrace.engine.checkpoints.families.composed.olmo3 import OLMO3
from headrace.engine.checkpoints.families.composed.stablelm import STABLELM
from headrace.engine.checkpoints.families.composed.starcoder2 import STARCODER2
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.gemma2 import GEMMA2
from headrace.engine.checkpoints.families.decoders.gemma3 import GEMMA3
from headrace.engine.checkpoints.families.decoders.llama import LLAMA
from headrace.engine.checkpoints.families.decoders.mistral import MISTRAL
from headrace.engine.checkpoints.families.decoders.mixtral import MIXTRAL
from headrace.engine.checkpoints.families.decoders.phi3 import PHI3
from headrace.engine.checkpoints.families.decoders.qwen2 import QWEN2
from headrace.engine.checkpoints.families.decoders.qwen3 import QWEN3
from headrace.engine.checkpoints.families.decoders.qwen3_moe import QWEN3_MOE
from headrace.engine.checkpoints.families.encoders.bert import BERT
from headrace.engine.checkpoints.families.encoders.distilbert import DISTILBERT
from headrace.engine.checkpoints.families.encoders.encoder_family import EncoderFamily
from headrace.engine.checkpoints.families.encoders.gte import GTE
from headrace.engine.checkpoints.families.encoders.jina_embeddings_v3 import JINA_EMBEDDINGS_V3
from headrace.engine.checkpoints.families.encoders.modernbert import MODERNBERT
from headrace.engine.checkpoints.families.encoders.mpnet import MPNET
from headrace.engine.checkpoints.families.encoders.nomic_bert import NOMIC_BERT
from headrace.engine.checkpoints.families.encoders.roberta import ROBERTA, XLM_ROBERTA
from headrace.engine.checkpoints.families.experts.dots1 import DOTS1
from headrace.engine.checkpoints.families.experts.ernie4_5_moe import ERNIE4_5_MOE
from headrace.engine.checkpoints.families.experts.glm4_moe import GLM4_MOE
from headrace.engine.checkpoints.families.experts.gpt_oss import GPT_OSS
from headrace.engine.checkpoints.families.experts.granite_moe import GRANITE_MOE, GRANITE_MOE_SHARED
from headrace.engine.checkpoints.families.experts.hunyuan_moe import HUNYUAN_MOE
from headrace.engine.checkpoints.families.experts.llama4 import LLAMA4, LLAMA4_MULTIMODAL
from headrace.engine.checkpoints.families.experts.minimax_m2 import MINIMAX_M2
from headrace.engine.checkpoints.families.experts.olmoe import OLMOE
from headrace.engine.checkpoints.families.experts.phi_moe import PHI_MOE, PHI_MOE_PUBLISHED
from headrace.engine.checkpoints.families.experts.qwen2_moe import QWEN2_MOE
from headrace.engine.checkpoints.families.fused.ernie4_5 import ERNIE4_5
from headrace.engine.checkpoints.families.fused.gemma3_multimodal import GEMMA3_MULTIMODAL
from headrace.engine.checkpoints.families.fused.glm4 import GLM, GLM4
from headrace.engine.checkpoints.families.fused.granite import GRANITE
from headrace.engine.checkpoints.families.fused.hunyuan import HUNYUAN
from headrace.engine.checkpoints.families.fused.mistral3 import MINISTRAL3, MISTRAL3
from headrace.engine.checkpoints.families.fused.seed_oss import SEED_OSS
from headrace.engine.checkpoints.families.fused.smollm3 import SMOLLM3
from headrace.engine.checkpoints.families.grouped.falcon import FALCON
from headrace.engine.checkpoints.families.grouped.gpt_neox import GPT_NEOX
from headrace.engine.checkpoints.families.latent.deepseek2 import DEEPSEEK2
from headrace.engine.checkpoints.families.latent.deepseek3 import DEEPSEEK3, GLM4_MOE_LITE
from headrace.engine.checkpoints.families.states.falcon_h1 import FALCON_H1
from headrace.engine.checkpoints.families.states.granite_hybrid import GRANITE_HYBRID
from headrace.engine.checkpoints.families.states.lfm2 import LFM2
from headrace.engine.checkpoints.families.states.lfm2_moe import LFM2_MOE
from headrace.engine.checkpoints.families.states.mamba2 import MAMBA2
from headrace.engine.checkpoints.families.states.nemotron_h import NEMOTRON_H
from headrace.engine.checkpoints.families.states.qwen3_next import (
    QWEN3_5,
    QWEN3_5_MOE,
    QWEN3_5_MOE_MULTIMODAL,
    QWEN3_5_MULTIMODAL,
    QWEN3_NEXT,
)
from headrace.engine.checkpoints.families.varied.gemma3n import GEMMA3N, GEMMA3N_MULTIMODAL
from headrace.engine.checkpoints.families.varied.gemma4 import (
    GEMMA4,
    GEMMA4_MULTIMODAL,
    GEMMA4_UNIFIED,
    GEMMA4_UNIFIED_MULTIMODAL,
)
from headrace.errors.tree import Unsupported

_USUAL = (LLAMA, MISTRAL, MIXTRAL, QWEN2, QWEN3, QWEN3_MOE, PHI3, GEMMA2, GEMMA3)
_FUSED = (
    SMOLLM3,
    GRANITE,
    GLM,
    GLM4,
    SEED_OSS,
    ERNIE4_5,
    MISTRAL3,
    MINISTRAL3,
    HUNYUAN,
    GEMMA3_MULTIMODAL,
)
_COMPOSED = (OLMO2, OLMO3, COHERE, COHERE2, EXAONE4, STARCODER2, STABLELM, NEMOTRON, APERTUS, ARCEE, NANOCHAT)
_GROUPED = (GPT_NEOX, FALCON)
_EXPERTS = (
    QWEN2_MOE,
    GLM4_MOE,
    DOTS1,
    ERNIE4_5_MOE,
    OLMOE,
    GRANITE_MOE,
    GRANITE_MOE_SHARED,
    MINIMAX_M2,
    PHI_MOE,
    PHI_MOE_PUBLISHED,
    GPT_OSS,
    HUNYUAN_MOE,
    LLAMA4,
    LLAMA4_MULTIMODAL,
)
_LATENT = (DEEPSEEK2, DEEPSEEK3, GLM4_MOE_LITE)
_STATES = (
    GRANITE_HYBRID,
    LFM2,
    LFM2_MOE,
    FALCON_H1,
    NEMOTRON_H,
    MAMBA2,
    QWEN3_NEXT,
    QWEN3_5,
    QWEN3_5_MOE,
    QWEN3_5_MULTIMODAL,
    QWEN3_5_MOE_MULTIMODAL,
)
_VARIED = (
    GEMMA3N,
    GEMMA3N_MULTIMODAL,
    GEMMA4,
    GEMMA4_MULTIMODAL,
    GEMMA4_UNIFIED,
    GEMMA4_UNIFIED_MULTIMODAL,
)
_ALL = (*_USUAL, *_FUSED, *_COMPOSED, *_GROUPED, *_EXPERTS, *_LATENT, *_STATES, *_VARIED)
FAMILIES = {family.architecture: family for family in _ALL}

_ENCODERS = (BERT, ROBERTA, XLM_ROBERTA, DISTILBERT, MPNET, MODERNBERT, NOMIC_BERT, GTE, JINA_EMBEDDINGS_V3)
ENCODER_FAMILIES = {architecture: family for family in _ENCODERS for architecture in family.architectures}
HEADLESS = {f"{stem}Model": f"{stem}ForCausalLM" for stem in ("Llama", "Mistral", "Qwen2", "Qwen3")} | {
    "Gemma3TextModel": "Gemma3ForCausalLM"
}
"""Decoders saved without a head, because they compute embeddings."""


def find_family(architecture: str) -> Family:
    """Returns the decoder family. Raises Unsupported, naming supported ones that are alike."""
    if architecture in ENCODER_FAMILIES:
        raise Unsupported(f"architecture {architecture} makes embeddings and no text: it can be served, no more")
    family = FAMILIES.get(HEADLESS.get(architecture, architecture))
    if family is None:
        raise _unsupported(architecture)
    return family


def find_encoder_family(architecture: str) -> EncoderFamily:
    """Returns the encoder family. Raises Unsupported, naming supported ones that are alike."""
    if architecture not in ENCODER_FAMILIES:
        raise _unsupported(architecture)
    return ENCODER_FAMILIES[architecture]


def _unsupported(architecture: str) -> Unsupported:
    known = (*FAMILIES, *ENCODER_FAMILIES)
    alike = get_close_matches(architecture, known, n=3) or [LLAMA.architecture]
    return Unsupported(
        f"architecture {architecture} is not supported; of the {len(known)} that are, those most alike by name are "
        f"{', '.join(alike)}: docs/guide/models.md lists all"
    )
