"""All operations on rows, each as a function of [rows, size] alone."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.activation import Activation
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, ExpertRouting, SharedExpert
from headrace.engine.torch.operators.operators import Operators

Operation = Callable[[Tensor], Tensor]
ACTIVATIONS: tuple[Activation, ...] = ("silu", "gelu", "gelu_tanh", "relu")


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def operations(operators: Operators, size: int, dtype: torch.dtype = torch.float32) -> dict[str, Operation]:
    """Each takes [rows, size]."""
    weight, bias = (numbers(size, seed=seed).to(dtype) for seed in (1, 2))
    product = operators.linear(numbers(45, size, seed=3).to(dtype), numbers(45, seed=4).to(dtype))
    found: dict[str, Operation] = {
        "linear": product,
        "linear plus residual": lambda x: product.add_to_residual(x, x[:, :1].expand(-1, 45).contiguous()),
        "rms_norm": operators.rms_norm(weight, 1e-5),
        "layer_norm": operators.layer_norm(weight, bias, 1e-5),
        "soft_cap": lambda x: operators.soft_cap(x.clone(), 1.5),
    }
    for name, mixture in mixtures(size).items():
        added = numbers(mixture.count, seed=5) if mixture.routing.bias_name else None
        found[f"route {name}"] = partial(route, operators, mixture, added, 0)
        found[f"chosen {name}"] = partial(route, operators, mixture, added, 1)
    for name in ACTIVATIONS:
        found[name] = partial(activate, operators, name)
        found[f"gate {name}"] = partial(gate, operators, name)
    return found


def mixtures(size: int) -> dict[str, ExpertConfig]:
    """Mixtures of experts whose routers have `size` outputs, by what they differ in."""
    usual = ExpertRouting(min(3, size), normalizes_weights=True)
    shared = SharedExpert("shared", 8)
    found = {
        "normalized": mixture_of(size, usual),
        "without": mixture_of(size, replace(usual, normalizes_weights=False)),
        "sigmoid": mixture_of(size, replace(usual, score="sigmoid", scale=2.5, least_sum=1e-20)),
        "biased": mixture_of(size, replace(usual, bias_name="bias", least_sum=1e-12), shared),
    }
    if size > 4:
        gated = replace(shared, gate="gate")
        found["without, gated"] = mixture_of(size - 1, replace(usual, normalizes_weights=False), gated)
    if size % 2 == 0 and size > 5:
        grouped = replace(usual, group_count=2, chosen_group_count=1, score="sigmoid", bias_name="bias")
        found["grouped"] = mixture_of(size, grouped)
    return found


def mixture_of(count: int, routing: ExpertRouting, shared: SharedExpert | None = None) -> ExpertConfig:
    return ExpertConfig(count, routing, 8, frozenset(), "mlp", ("gate", "up", "down"), shared)


def route(
    operators: Operators, mixture: ExpertConfig, bias: torch.Tensor | None, part: int, x: torch.Tensor
) -> torch.Tensor:
    return operators.route(x, mixture, bias)[part]


def activate(operators: Operators, name: Activation, x: torch.Tensor) -> torch.Tensor:
    return operators.activate(x.clone(), name)


def gate(operators: Operators, name: Activation, x: torch.Tensor) -> torch.Tensor:
    return operators.gate(torch.cat([x, x.flip(1)], dim=1), name)
