"""Architectures that Headrace does not support, by name: what they need, and the nearest that it does support."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AbsentFamily:
    """An architecture that is refused."""

    reason: str
    """Blocks that it needs, for people."""
    nearest: str
    """Architecture of models of the same size and use."""


_HUNYUAN = AbsentFamily("its queries and keys are normalized after they rotate", "Qwen3MoeForCausalLM")
_LLAMA4 = AbsentFamily(
    "its attention ends at chunks of the text, and the inputs of its experts are scaled", "Glm4MoeForCausalLM"
)
ABSENT_FAMILIES = {
    "HunYuanMoEV1ForCausalLM": _HUNYUAN,
    "Llama4ForCausalLM": _LLAMA4,
    "Llama4ForConditionalGeneration": _LLAMA4,
}
ABSENT_GGUF = {
    "hunyuan-moe": _HUNYUAN.reason,
    "llama4": _LLAMA4.reason,
    "phimoe": "its files do not tell which scores of experts are close; serve its folder of safetensors",
}
"""Reasons for which GGUF's architectures are refused, by their names."""
