"""The searches of AWQ: they lose less than rounding where inputs differ in size, and never more on what they saw."""

import pytest
import torch
from torch import Tensor

from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.quantization.awq_search import limit, search_scales

OUT, IN, GROUP = 48, 128, 32


def outlier_inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    """A weight, and inputs of which a few are a hundred times as large as the rest: what AWQ was made for."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(500, IN, generator=generator)
    inputs[:, ::29] *= 100
    return torch.randn(OUT, IN, generator=generator), inputs


def loss(weight: Tensor, inputs: Tensor, scales: Tensor) -> float:
    rounded = round_to_nearest.quantize(weight * scales, 4, GROUP, symmetric=False).dequantize() / scales
    return float(((rounded - weight) @ inputs.T).square().sum())


def moments(inputs: Tensor) -> Tensor:
    return inputs.T @ inputs / len(inputs)


def test_scales_protect_the_inputs_that_matter() -> None:
    weight, inputs = outlier_inputs()
    scales = search_scales([weight], [moments(inputs)], GROUP)
    assert scales[::29].min() > scales[1::29].max()
    assert loss(weight, inputs, scales) < 0.3 * loss(weight, inputs, torch.ones(IN))


@pytest.mark.parametrize("seed", range(5))
def test_scales_never_lose_more_than_none(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    weight, inputs = torch.randn(OUT, IN, generator=generator), torch.randn(50, IN, generator=generator)
    scales = search_scales([weight], [moments(inputs)], GROUP)
    assert loss(weight, inputs, scales) <= 1.0001 * loss(weight, inputs, torch.ones(IN))


def test_several_weights_are_weighed_together() -> None:
    """Each with inputs of its own, as experts have: the one that nothing goes into does not count."""
    weight, inputs = outlier_inputs()
    other, _ = outlier_inputs(1)
    alone = search_scales([weight], [moments(inputs)], GROUP)
    assert torch.equal(search_scales([weight, other], [moments(inputs), torch.zeros(IN, IN)], GROUP), alone)


def test_inputs_that_never_occurred_leave_scales_finite() -> None:
    weight, inputs = outlier_inputs()
    inputs[:, 5] = 0
    for seen in (moments(inputs), torch.zeros(IN, IN)):
        scales = search_scales([weight], [seen], GROUP)
        assert torch.isfinite(scales).all()
        assert (scales > 0).all()


def test_limits_cut_only_where_that_loses_less() -> None:
    weight, inputs = outlier_inputs()
    weight[:, 3] *= 6
    inputs[:, 3] *= 0.01
    cut = limit(weight, moments(inputs), GROUP)
    assert (cut.abs() <= weight.abs()).all()
    was_largest = weight[:, :GROUP].abs().argmax(dim=1) == 3
    assert (cut[was_largest, 3].abs() < weight[was_largest, 3].abs()).float().mean() > 0.8

    def group_losses(values: Tensor) -> Tensor:
        error = round_to_nearest.quantize(values, 4, GROUP, symmetric=False).dequantize() - weight
        parts = zip(error.split(GROUP, 1), inputs.split(GROUP, 1), strict=True)
        return torch.stack([(part @ rows.T).square().sum(dim=1) for part, rows in parts], 1)

    assert (group_losses(cut) <= 1.0001 * group_losses(weight)).all()
