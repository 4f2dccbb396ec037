"""The architectures that Headrace supports."""

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
from headrace.engine.checkpoints.families.encoders.mpnet import MPNET
from headrace.engine.checkpoints.families.encoders.roberta import ROBERTA, XLM_ROBERTA
from headrace.errors.tree import Unsupported

FAMILIES = {
    family.architecture: family for family in (LLAMA, MISTRAL, MIXTRAL, QWEN2, QWEN3, QWEN3_MOE, PHI3, GEMMA2, GEMMA3)
}

ENCODER_FAMILIES = {
    architecture: family
    for family in (BERT, ROBERTA, XLM_ROBERTA, DISTILBERT, MPNET)
    for architecture in family.architectures
}
HEADLESS = {f"{stem}Model": f"{stem}ForCausalLM" for stem in ("Llama", "Mistral", "Qwen2", "Qwen3")}
"""Decoders saved without a head, because they compute embeddings."""


def find_family(architecture: str) -> Family:
    """Returns the decoder family. Raises Unsupported, listing the supported ones."""
    if architecture in ENCODER_FAMILIES:
        raise Unsupported(f"architecture {architecture} makes embeddings and no text: it can be served, no more")
    family = FAMILIES.get(HEADLESS.get(architecture, architecture))
    if family is None:
        raise _unsupported(architecture)
    return family


def find_encoder_family(architecture: str) -> EncoderFamily:
    """Returns the encoder family. Raises Unsupported, listing the supported ones."""
    if architecture not in ENCODER_FAMILIES:
        raise _unsupported(architecture)
    return ENCODER_FAMILIES[architecture]


def _unsupported(architecture: str) -> Unsupported:
    encoders = [name for name in ENCODER_FAMILIES if name.endswith("Model")]
    return Unsupported(
        f"architecture {architecture} is not supported: only {', '.join(FAMILIES)} for text, "
        f"{', '.join(encoders)} for embeddings"
    )
