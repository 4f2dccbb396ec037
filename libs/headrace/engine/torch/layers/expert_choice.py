"""Choice of experts, and their weights."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, ExpertRouting

BELOW = 1e4
"""Distance from the largest score at which another has no part in a softmax."""
ONE = ExpertRouting(1, normalizes_weights=False)
"""Choice of the expert with the largest score. Its weight is its share of a softmax over all."""


def chosen_experts(scores: Tensor, experts: ExpertConfig, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Returns the weights and indices (int64) of the experts that compute each row of fp32 `scores` [rows, experts],
    both [rows, places], the shared one last. `bias` [experts]: added to scores for the choice alone."""
    routing, count = experts.routing, experts.count
    weights = _weights(scores[:, :count], routing)
    ranks = weights if bias is None else weights + bias
    if routing.group_count > 1:
        ranks = _within_groups(ranks, routing)
    chosen = torch.topk(ranks, routing.chosen_count, dim=-1).indices
    shares = weights.gather(1, chosen)
    if routing.normalizes_weights:
        shares = shares / shares.sum(dim=-1, keepdim=True).clamp(min=routing.least_sum)
    shares = shares * routing.scale if routing.scale != 1 else shares
    if experts.shared is None:
        return shares, chosen
    own = torch.sigmoid(scores[:, count:]) if experts.shared.gate else torch.ones_like(shares[:, :1])
    return torch.cat([shares, own], 1), torch.cat([chosen, torch.full_like(chosen[:, :1], count)], 1)


def _weights(scores: Tensor, routing: ExpertRouting) -> Tensor:
    return torch.sigmoid(scores) if routing.score == "sigmoid" else torch.softmax(scores, dim=-1)


def _within_groups(ranks: Tensor, routing: ExpertRouting) -> Tensor:
    """Gives all experts outside the groups with the largest sums of two the lowest rank."""
    grouped = ranks.view(len(ranks), routing.group_count, -1)
    sums = grouped.topk(2, dim=-1).values.sum(dim=-1)
    kept = torch.zeros_like(sums).scatter_(1, sums.topk(routing.chosen_group_count, dim=-1).indices, 1.0)
    return grouped.masked_fill(kept.unsqueeze(-1) == 0, float("-inf")).view_as(ranks)


@dataclass(frozen=True, slots=True)
class OutputChoice:
    """Chooses the experts with the largest scores before these become weights, as in Llama 4: sigmoids of two large
    scores may be equal."""

    route: Callable[[Tensor, ExpertConfig, Tensor | None], tuple[Tensor, Tensor]]
    """Operation that chooses, see Operators."""
    experts: ExpertConfig

    def __call__(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Maps router scores [rows, experts] to the weights and the indices of the experts, both [rows, places]."""
        outputs, shared = scores[:, : self.experts.count], scores[:, self.experts.count :]
        chosen = torch.topk(outputs, self.experts.routing.chosen_count, dim=-1).indices
        left = torch.full_like(outputs, -BELOW).scatter_(1, chosen, outputs.gather(1, chosen))
        return self.route(torch.cat([left, shared], 1), self.experts, None)


@dataclass(frozen=True, slots=True)
class SparseMixer:
    """Chooses the expert with the largest score, then that with the largest of the others, and so on: SparseMixer (Liu
    et al., 2023), as in Phi-3.5-MoE. The weight of each is its share of a softmax over all that come close to it and
    were not chosen before."""

    route: Callable[[Tensor, ExpertConfig, Tensor | None], tuple[Tensor, Tensor]]
    """Operation that chooses, see Operators."""
    experts: ExpertConfig

    def __call__(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Maps router scores [rows, experts] to the weights and the indices of the experts, both [rows, chosen]."""
        single = replace(self.experts, routing=ONE)
        left, shares, chosen = scores, [], []
        for _ in range(self.experts.routing.chosen_count):
            share, place = self.route(self._close(scores, left), single, None)
            shares.append(share)
            chosen.append(place)
            left = left.scatter(1, place, float("-inf"))
        return torch.cat(shares, 1), torch.cat(chosen, 1)

    def _close(self, scores: Tensor, left: Tensor) -> Tensor:
        """Puts scores far below the largest one that is left: of experts that were chosen before, and of experts
        further from it than the share."""
        largest = left.amax(dim=1, keepdim=True)
        distance = (largest - scores) / scores.abs().maximum(largest)
        is_far = (distance > self.experts.routing.sparse_share) | (left == float("-inf"))
        return torch.where(is_far, largest - BELOW, scores)
