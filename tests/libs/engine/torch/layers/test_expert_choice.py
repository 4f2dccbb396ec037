"""Experts that are chosen by other rules than their weights, against transformers."""

import pytest
import torch
from transformers import Llama4TextConfig
from transformers.models.llama4.modeling_llama4 import Llama4Router
from transformers.models.phimoe.modeling_phimoe import sparsemixer

from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, ExpertRouting
from headrace.engine.torch.layers.expert_choice import OutputChoice, SparseMixer, chosen_experts

NOISE = 0.2


def mixer() -> SparseMixer:
    routing = ExpertRouting(2, normalizes_weights=False, sparse_share=2 * NOISE)
    experts = ExpertConfig(6, routing, 8, frozenset(), "mlp", ("gate_proj", "up_proj", "down_proj"))
    return SparseMixer(chosen_experts, experts)


@pytest.mark.parametrize("shift", [-4.0, 0.0, 4.0], ids=["all below zero", "around zero", "all above zero"])
def test_weights_and_experts_are_those_of_transformers(shift: float) -> None:
    scores = torch.randn((200, 6), generator=torch.Generator().manual_seed(1)) + shift
    expected = sparsemixer(scores, jitter_eps=NOISE, training=False)
    shares, chosen = mixer()(scores)
    assert torch.equal(chosen, expected[1])
    torch.testing.assert_close(shares, expected[0])
    # Some experts have others close to them, and some are alone.
    assert (expected[0] < 0.9).any()
    assert (expected[0] == 1).any() or shift


def test_scores_that_are_all_alike_share_the_weight() -> None:
    shares, chosen = mixer()(torch.zeros((1, 6)))
    assert chosen[0].unique().numel() == 2
    torch.testing.assert_close(shares, torch.tensor([[1 / 6, 1 / 5]]))


@pytest.mark.parametrize("shift", [0.0, 30.0], ids=["apart", "saturated"])
def test_experts_are_chosen_before_sigmoids_make_them_equal(shift: float) -> None:
    scores = torch.randn((200, 6), generator=torch.Generator().manual_seed(1)) + shift
    router = Llama4Router(Llama4TextConfig(hidden_size=6, num_local_experts=6, num_experts_per_tok=2))
    router.weight.data = torch.eye(6)
    weights, _ = router(scores)
    routing = ExpertRouting(2, normalizes_weights=False, score="sigmoid", ranks_outputs=True)
    experts = ExpertConfig(6, routing, 8, frozenset(), "feed_forward", ("gate_proj", "up_proj", "down_proj"))
    shares, chosen = OutputChoice(chosen_experts, experts)(scores)
    torch.testing.assert_close(torch.zeros_like(scores).scatter(1, chosen, shares), weights)
    by_weight = chosen_experts(scores, experts, None)[1]
    assert torch.equal(by_weight.sort().values, chosen.sort().values) == (shift == 0)
