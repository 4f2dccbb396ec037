"""Gemma 3's text model (Kamath et al., 2025), saved as a part of a model that reads images."""

from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.gemma3 import GEMMA3

GEMMA3_MULTIMODAL = Family(
    "Gemma3ForConditionalGeneration",
    GEMMA3.adapt,
    {
        **GEMMA3.defaults,
        "vocab_size": 262208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 131072,
    },
    activation_key=GEMMA3.activation_key,
    activations=GEMMA3.activations,
    is_nested=True,
)
