"""Routing parameters of a mixture of experts, as the kernels take them."""

from headrace.engine.checkpoints.facts.expert_config import ExpertConfig
from headrace.engine.kernels.structures import Routing

SOFTMAX, SIGMOID = 0, 1
NO_SHARED, SHARED, GATED_SHARED = 0, 1, 2


def routing_of(experts: ExpertConfig, bias: int | None = None) -> Routing:
    """Returns the parameters. `bias`: address of fp32 numbers [experts] that the choice adds to scores, or None."""
    routing, shared = experts.routing, experts.shared
    return Routing(
        expert_count=experts.count,
        chosen_count=routing.chosen_count,
        group_count=routing.group_count,
        chosen_group_count=routing.chosen_group_count,
        bias=bias,
        scale=routing.scale,
        least_sum=routing.least_sum,
        normalizes=routing.normalizes_weights,
        score=SIGMOID if routing.score == "sigmoid" else SOFTMAX,
        shared=NO_SHARED if shared is None else GATED_SHARED if shared.gate else SHARED,
    )
