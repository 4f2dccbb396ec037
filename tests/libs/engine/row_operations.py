"""All operations on rows, each as a function of [rows, size] alone."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.activation import Activation
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
        "route": lambda x: operators.route(x, min(3, size), normalizes=True)[0],
        "route without": lambda x: operators.route(x, min(3, size), normalizes=False)[0],
        "chosen": lambda x: operators.route(x, min(3, size), normalizes=False)[1],
    }
    for name in ACTIVATIONS:
        found[name] = partial(activate, operators, name)
        found[f"gate {name}"] = partial(gate, operators, name)
    return found


def activate(operators: Operators, name: Activation, x: torch.Tensor) -> torch.Tensor:
    return operators.activate(x.clone(), name)


def gate(operators: Operators, name: Activation, x: torch.Tensor) -> torch.Tensor:
    return operators.gate(torch.cat([x, x.flip(1)], dim=1), name)
