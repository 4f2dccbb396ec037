"""The facts about a mixture of experts."""

from dataclasses import dataclass
from typing import Literal

ExpertScore = Literal["softmax", "sigmoid"]


@dataclass(frozen=True, slots=True)
class ExpertRouting:
    """Choice of a token's experts, and their weights. Default values are Mixtral's."""

    chosen_count: int
    """Number of experts that compute each token."""
    normalizes_weights: bool
    """Whether the chosen experts' weights are scaled to sum to one."""
    score: ExpertScore = "softmax"
    """Function that makes weights of the router's outputs: over all experts, or of each alone."""
    ranks_outputs: bool = False
    """Whether experts are chosen by the router's outputs, not by weights, which are equal where sigmoids saturate."""
    scales_inputs: bool = False
    """Whether an expert's inputs are multiplied by its weight, not its outputs, as in Llama 4."""
    group_count: int = 1
    """Groups of consecutive experts, of which those with the largest two scores stay (DeepSeek-V3, 2024)."""
    chosen_group_count: int = 1
    scale: float = 1.0
    """Factor of all weights, after they are normalized."""
    least_sum: float = 0.0
    """Smallest sum by which weights are divided where they are normalized."""
    bias_name: str = ""
    """Name, within the block, of the numbers that are added to scores for the choice alone. Empty: there are none."""
    bias_row_count: int = 0
    """Rows that these numbers have in checkpoints. 0: they are no matrix."""
    sparse_share: float = 0.0
    """Share of the largest score within which others count in its softmax, where experts are chosen and weighted one
    after the other (SparseMixer, Liu et al., 2023). 0: they are chosen together."""


@dataclass(frozen=True, slots=True)
class SharedExpert:
    """The expert that computes each token, beside the chosen ones."""

    module: str
    """Name, within the block, in checkpoints."""
    intermediate_size: int
    gate: str = ""
    """Name, within the block, of its gate. Empty: its weight is one."""
    fuses_gates: bool = False
    """Whether checkpoints fuse its gate and up projections into one matrix, as `gate_up_proj`."""


@dataclass(frozen=True, slots=True)
class LatentSpace:
    """The vectors within which the chosen experts compute, where they are not hidden states: one product makes such a
    vector, and another takes the sum of their outputs back (Nemotron 3 Super, 2026)."""

    size: int
    down: str
    """Name, within the block, of the product from hidden states."""
    up: str
    """Name of the product to hidden states."""


@dataclass(frozen=True, slots=True)
class StackedExperts:
    """Names and layout of tensors that hold the weights of all experts of a layer, one entry for each."""

    gate_up: str
    """Name, within the block, of plain weights of gates and ups. Biases, codes and scales add to it."""
    down: str
    is_transposed: bool
    """Whether an entry of plain weights is [in, out]."""
    is_interleaved: bool
    """Whether gates and ups alternate. Otherwise all gates come first."""
    may_be_apart: bool = False
    """Whether some checkpoints of the family have each expert's weights apart."""


@dataclass(frozen=True, slots=True)
class ExpertConfig:
    """The mixture of experts that replaces a layer's single feed-forward block."""

    count: int
    routing: ExpertRouting
    intermediate_size: int
    dense_layers: frozenset[int]
    """Layers that keep a single feed-forward block."""
    module: str
    """Name of the block in checkpoints."""
    projections: tuple[str, str, str]
    """Names of an expert's gate, up and down projections in checkpoints."""
    shared: SharedExpert | None = None
    """None: there is none."""
    has_router_bias: bool = False
    """Whether the router's product has a bias."""
    stacked: StackedExperts | None = None
    """None: checkpoints have each expert's weights apart."""
    is_gated: bool = True
    """Whether experts have gates. Otherwise an activation lies between their up and down projections."""
    latent: LatentSpace | None = None
    """None: experts read and make hidden states."""

    @property
    def place_count(self) -> int:
        """Experts that compute each token, the shared one included."""
        return self.routing.chosen_count + (self.shared is not None)

    @property
    def router_rows(self) -> dict[str, int]:
        """Names, within the block, of what the router's rows are in checkpoints, with their numbers."""
        gate = self.shared.gate if self.shared else ""
        return {"gate": self.count} | ({gate: 1} if gate else {})

    def width(self, name: str, hidden_size: int) -> int:
        """Returns the size of what an expert reads and makes. The shared one does so with hidden states."""
        is_shared = self.shared is not None and name == self.shared.module
        return hidden_size if self.latent is None or is_shared else self.latent.size

    def gate_up_names(self, name: str) -> tuple[str, ...]:
        """Names the gate and up projections of an expert, or their fused one."""
        is_fused = self.shared is not None and name == self.shared.module and self.shared.fuses_gates
        return ("gate_up_proj",) if is_fused else self.projections[:2]

    @property
    def experts(self) -> list[tuple[str, int]]:
        """Names, within the block, of all experts, the shared one last, with their intermediate sizes."""
        chosen = [(f"experts.{number}", self.intermediate_size) for number in range(self.count)]
        return [*chosen, (self.shared.module, self.shared.intermediate_size)] if self.shared else chosen
