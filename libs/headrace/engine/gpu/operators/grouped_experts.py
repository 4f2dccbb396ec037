"""A mixture of experts on a GPU: all experts of a projection in one launch, and nothing that the host waits for."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from headrace.engine.checkpoints.facts.activation import Activation
from headrace.engine.gpu.operators.triton_linear import TritonLinear
from headrace.engine.torch.layers.expert_mlp import ExpertMlp, Mixture
from headrace.engine.torch.layers.gated_mlp import GatedMlp
from headrace.engine.torch.layers.linear import Linear
from headrace.engine.triton.products.expert_codes import ExpertCodes
from headrace.engine.triton.products.expert_rows import sort_by_expert
from headrace.engine.triton.products.grouped_matmul import gate_grouped, multiply_grouped
from headrace.engine.triton.products.quantized_product import tile_of
from headrace.engine.triton.split_sum import SplitRows, sum_splits


@dataclass(frozen=True, slots=True)
class GroupedExperts:
    """Experts with packed weights. A row's outputs are summed in the order of its scores, so its result does not depend
    on the choices of other rows."""

    router: Linear
    route: Callable[[Tensor], tuple[Tensor, Tensor]]
    """Maps router scores to the weights and the indices of the chosen experts, both [rows, chosen]."""
    gate_up: ExpertCodes
    down: ExpertCodes
    activation: Activation

    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps [rows, hidden] to the same shape."""
        return sum_splits(self.split(inputs), None) if len(inputs) else inputs

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return sum_splits(self.split(inputs), residual.contiguous()) if len(inputs) else residual

    def split(self, inputs: Tensor) -> SplitRows:
        """Maps at least one row to its outputs of the chosen experts, whose sum is left to the next kernel."""
        rows = inputs.contiguous()
        return self._split(rows, self.router(rows))

    def mix(self, inputs: Tensor, scores: Tensor) -> Tensor:
        """Computes with the experts that `scores` [rows, experts] choose: [rows, hidden] to the same shape."""
        return sum_splits(self._split(inputs.contiguous(), scores), None) if len(inputs) else inputs

    def _split(self, rows: Tensor, scores: Tensor) -> SplitRows:
        shares, chosen = self.route(scores)
        tile = tile_of(-(-chosen.numel() // self.gate_up.expert_count), rows.device, rows.dtype)
        choices = sort_by_expert(chosen.contiguous(), self.gate_up.expert_count, tile.row_count)
        gated = gate_grouped(self.gate_up, rows, choices, self.activation, tile)
        return SplitRows(multiply_grouped(self.down, gated, choices, shares, tile), None, rows.dtype)


def group_experts(experts: ExpertMlp, activation: Activation) -> Mixture:
    """Groups experts whose weights are packed and alike. Others stay as they are."""
    gate_ups, downs = [], []
    for expert in experts.experts:
        match expert:
            case GatedMlp(TritonLinear(has_bias=False) as gate_up, TritonLinear(has_bias=False) as down):
                gate_ups.append(gate_up.weight)
                downs.append(down.weight)
            case _:
                return experts
    packed = ExpertCodes.of(gate_ups), ExpertCodes.of(downs)
    if packed[0] is None or packed[1] is None:
        return experts
    return GroupedExperts(experts.router, experts.route, packed[0], packed[1], activation)
