"""Architectures that Headrace does not support, by name: what they need, and the nearest that it does support."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AbsentFamily:
    """An architecture that is refused."""

    reason: str
    """Blocks that it needs, for people."""
    nearest: str
    """Architecture of models of the same size and use."""


_LLAMA4 = AbsentFamily(
    "its attention ends at chunks of the text, and the inputs of its experts are scaled", "Glm4MoeForCausalLM"
)
_FALCON = AbsentFamily("its checkpoints fuse the heads of each group into one matrix", "LlamaForCausalLM")
_NANOCHAT = AbsentFamily("its norms have no weights, and its embedding is normalized", "LlamaForCausalLM")
_NEOX = AbsentFamily("its attention and feed-forward block have a norm each of the same inputs", "StableLmForCausalLM")
ABSENT_FAMILIES = {
    "FalconForCausalLM": _FALCON,
    "GPTNeoXForCausalLM": _NEOX,
    "NanoChatForCausalLM": _NANOCHAT,
    "Llama4ForCausalLM": _LLAMA4,
    "Llama4ForConditionalGeneration": _LLAMA4,
}
ABSENT_GGUF = {
    "falcon": _FALCON.reason,
    "gptneox": _NEOX.reason,
    "llama4": _LLAMA4.reason,
    "phimoe": "its files do not tell which scores of experts are close; serve its folder of safetensors",
}
"""Reasons for which GGUF's architectures are refused, by their names."""
