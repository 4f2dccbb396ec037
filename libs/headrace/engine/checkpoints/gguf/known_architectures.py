"""GGUF's architectures that Headrace reads, by their names in files."""

from headrace.engine.checkpoints.gguf.delta_architectures import DELTA_ARCHITECTURES
from headrace.engine.checkpoints.gguf.expert_architectures import EXPERT_ARCHITECTURES
from headrace.engine.checkpoints.gguf.gguf_architecture import ARCHITECTURES, MIXTRAL, GgufArchitecture
from headrace.engine.checkpoints.gguf.gguf_metadata import GgufMetadata
from headrace.engine.checkpoints.gguf.latent_architectures import ARCHITECTURE, latent_architecture
from headrace.engine.checkpoints.gguf.later_architectures import LATER_ARCHITECTURES, OLMO3, WINDOW
from headrace.engine.checkpoints.gguf.state_architectures import STATE_ARCHITECTURES
from headrace.engine.checkpoints.gguf.varied_architectures import VARIED_ARCHITECTURES
from headrace.errors.tree import Unsupported

KNOWN_ARCHITECTURES = (
    ARCHITECTURES
    | LATER_ARCHITECTURES
    | EXPERT_ARCHITECTURES
    | STATE_ARCHITECTURES
    | DELTA_ARCHITECTURES
    | VARIED_ARCHITECTURES
)

ABSENT = {"phimoe": "its files do not tell which scores of experts are close; serve its folder of safetensors"}
"""Reasons for which other architectures are refused, by their names."""


def find_architecture(metadata: GgufMetadata) -> GgufArchitecture:
    """Returns the architecture of a file. Raises Unsupported, listing the supported ones."""
    name = metadata.architecture
    if name in ABSENT:
        raise Unsupported(f"{metadata.path}: GGUF architecture {name!r} is not supported: {ABSENT[name]}")
    if name == ARCHITECTURE:
        return latent_architecture(metadata)
    if name not in KNOWN_ARCHITECTURES:
        known = ", ".join((*KNOWN_ARCHITECTURES, ARCHITECTURE))
        raise Unsupported(f"{metadata.path}: GGUF architecture {name!r} is not supported: only {known}")
    if name == "llama" and metadata.integer("expert_count", 0):
        return MIXTRAL
    if name == "olmo2" and metadata.has(WINDOW):
        return OLMO3
    return KNOWN_ARCHITECTURES[name]
