"""The architectures that Headrace runs."""

from headrace.engine.models.family import Family
from headrace.engine.models.gemma2 import GEMMA2
from headrace.engine.models.gemma3 import GEMMA3
from headrace.engine.models.llama import LLAMA
from headrace.engine.models.mistral import MISTRAL
from headrace.engine.models.mixtral import MIXTRAL
from headrace.engine.models.phi3 import PHI3
from headrace.engine.models.qwen2 import QWEN2
from headrace.engine.models.qwen3 import QWEN3
from headrace.engine.models.qwen3_moe import QWEN3_MOE
from headrace.errors.tree import Unsupported

FAMILIES = {
    family.architecture: family for family in (LLAMA, MISTRAL, MIXTRAL, QWEN2, QWEN3, QWEN3_MOE, PHI3, GEMMA2, GEMMA3)
}


def find_family(architecture: str) -> Family:
    """Raises Unsupported, naming those that are supported."""
    if architecture not in FAMILIES:
        raise Unsupported(f"Architecture {architecture} is not supported: only {', '.join(FAMILIES)}.")
    return FAMILIES[architecture]
