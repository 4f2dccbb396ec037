"""Names of a decoder's tensors in checkpoints of families, or of models without a head, that have others than Llama."""

from dataclasses import dataclass, field
from typing import Protocol, Self

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import StackedExperts

PREFIX = "model."
EMBEDDING = "embed_tokens"
NESTED_PREFIXES = ("language_model.model.", "model.language_model.", PREFIX)
"""Prefixes of the decoder in models that also read images, in the spellings of transformers 4 and 5."""
BACKBONE = "backbone."
"""Prefix of published models of Mamba-2 and Nemotron-H."""
NEOX, TRANSFORMER = "gpt_neox.", "transformer."
"""Prefixes of GPT-NeoX, and of Falcon."""
HEADS = {"language_model.model.": "language_model.lm_head", NEOX: "embed_out"}
"""Names of the head by prefix, where it is not `lm_head`."""
LAYERS = {TRANSFORMER: "h"}
"""Names of the list of layers by prefix, where it is not `layers`."""


def is_head(name: str) -> bool:
    """Whether a stored module is the output head."""
    return name in ("lm_head", *HEADS.values())


class TensorNames(Protocol):
    """Names of the tensors of a checkpoint."""

    def __contains__(self, name: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class ModuleNaming:
    """Names that a checkpoint may have, as far as the configuration tells."""

    modules: tuple[tuple[str, str], ...] = ()
    """See `DecoderConfig.module_names`."""
    prefixes: tuple[str, ...] = (PREFIX,)
    """Prefixes to look for, in this order."""
    stacked: StackedExperts | None = None
    """Layout of experts that are stacked."""
    first_experts: str = ""
    """Block, within the list of layers, whose tensors tell whether they are, where both occur."""

    @classmethod
    def of(cls, config: DecoderConfig) -> Self:
        prefixes = NESTED_PREFIXES if config.is_nested else (PREFIX, BACKBONE, NEOX, TRANSFORMER)
        prefixes = prefixes if config.has_head else (*prefixes, "")
        experts = config.experts
        if experts is None:
            return cls(config.module_names, prefixes)
        first = next((index for index in range(config.layer_count) if index not in experts.dense_layers), 0)
        return cls(config.module_names, prefixes, experts.stacked, f"{first}.{experts.module}")


USUAL_NAMING = ModuleNaming()


@dataclass(frozen=True, slots=True)
class StoredNames:
    """Names in one checkpoint."""

    prefix: str = PREFIX
    modules: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, naming: ModuleNaming, names: TensorNames) -> Self:
        """Finds the prefix that the tensors `names` have: the first one, if none has an embedding."""
        modules = dict(naming.modules)
        embedding = modules.get(EMBEDDING, EMBEDDING)
        found = (prefix for prefix in naming.prefixes if f"{prefix}{embedding}.weight" in names)
        return cls(next(found, naming.prefixes[0]), modules)

    def stacked(self, naming: ModuleNaming, names: TensorNames) -> StackedExperts | None:
        """Returns the layout of stacked experts among the tensors `names`. None: each expert's are apart."""
        layout = naming.stacked
        if layout is None or not layout.may_be_apart:
            return layout
        return layout if f"{self.prefix}layers.{naming.first_experts}.{layout.gate_up}" in names else None

    @property
    def are_usual(self) -> bool:
        return self.prefix == PREFIX and not self.modules

    def stored(self, name: str) -> str:
        """Returns the stored name of a tensor, such as model.norm.weight, or of a module such as lm_head."""
        if not name.startswith(PREFIX):
            head, dot, kind = name.partition(".")
            return (HEADS.get(self.prefix, head) if head == "lm_head" else head) + dot + kind
        return self.prefix + self._renamed(name.removeprefix(PREFIX))

    def _renamed(self, name: str) -> str:
        """Renames a module, or the module of a tensor."""
        layer, _, part = name.partition(".")[2].partition(".")
        if not name.startswith("layers."):
            module, dot, kind = name.partition(".")
            return self.modules.get(module, module) + dot + kind
        layers = f"{LAYERS.get(self.prefix, 'layers')}.{layer}"
        if part in self.modules:
            return f"{layers}.{self.modules[part]}"
        module, dot, kind = part.rpartition(".")
        return f"{layers}.{self.modules.get(module, module)}{dot}{kind}"
