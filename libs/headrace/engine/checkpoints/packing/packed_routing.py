"""Routing parameters of a mixture of experts, as the kernels take them."""

from headrace.engine.checkpoints.facts.expert_config import ExpertConfig
from headrace.engine.kernels.expert_kinds import ScoreKind, SharedKind
from headrace.engine.kernels.structures import Routing


def pack_routing(experts: ExpertConfig, bias: int | None = None) -> Routing:
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
        score=ScoreKind[routing.score.upper()],
        shared=SharedKind.NONE if shared is None else SharedKind.GATED if shared.gate else SharedKind.PLAIN,
    )
