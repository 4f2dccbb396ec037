"""Operations on rows: right, and the same bits in any batch, on every instruction set, and without kernels."""

import math

import pytest
import torch
from tests.libs.engine.row_operations import ACTIVATIONS, mixture_of, mixtures, numbers, operations
from torch.nn import functional

from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, ExpertRouting
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Instructions, available
from headrace.engine.torch.operators.kernel_operators import KernelOperators
from headrace.engine.torch.operators.operators import Operators
from headrace.engine.torch.operators.single_row_operators import SingleRowOperators

SIZES = (1, 7, 16, 24, 40, 96, 100, 331)
ROW_COUNT = 37
PARTS = ((0, 1), (0, 2), (3, 6), (0, 5), (7, 20), (0, 33), (2, 37), (36, 37))


def make(instructions: Instructions | None, thread_count: int = 2) -> Operators:
    """Makes operators with the kernels of an instruction set. None: those for a machine without kernels."""
    return SingleRowOperators() if instructions is None else KernelOperators(KernelContext(thread_count, instructions))


@pytest.fixture(params=[*available(), None], ids=lambda each: "none" if each is None else each.name)
def operators(request: pytest.FixtureRequest) -> Operators:
    return make(request.param)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", SIZES)
def test_a_row_has_the_same_bits_in_any_company(operators: Operators, size: int, dtype: torch.dtype) -> None:
    inputs = numbers(ROW_COUNT, size).to(dtype) * 3
    inputs[5], inputs[6] = inputs[5] * 1e-3, 0
    for name, operation in operations(operators, size, dtype).items():
        whole = operation(inputs.clone())
        for start, end in PARTS:
            found = operation(inputs[start:end].clone())
            assert found.dtype == whole.dtype
            assert torch.equal(found, whole[start:end]), (name, start, end)


def routed(scores: torch.Tensor, mixture: ExpertConfig) -> tuple[torch.Tensor, torch.Tensor]:
    """Shares and experts by the definition, row by row."""
    routing, count = mixture.routing, mixture.count
    added = numbers(count, seed=5).double() if routing.bias_name else torch.zeros(count).double()
    shares, chosen = [], []
    for row in scores:
        weights = row[:count].sigmoid() if routing.score == "sigmoid" else row[:count].softmax(0)
        ranks = (weights + added).tolist()
        size = count // routing.group_count
        groups = [ranks[start : start + size] for start in range(0, count, size)]
        best = sorted(range(len(groups)), key=lambda index: -sum(sorted(groups[index])[-2:]))
        kept = set(best[: routing.chosen_group_count])
        order = sorted((index for index in range(count) if index // size in kept), key=lambda index: -ranks[index])
        own = weights[order[: routing.chosen_count]]
        own = (own / own.sum() if routing.normalizes_weights else own) * routing.scale
        shared = [] if mixture.shared is None else [row[-1].sigmoid() if mixture.shared.gate else torch.tensor(1.0)]
        shares.append([*own.tolist(), *map(float, shared)])
        chosen.append([*order[: routing.chosen_count], *[count] * len(shared)])
    return torch.tensor(shares, dtype=torch.float64), torch.tensor(chosen)


@pytest.mark.parametrize("size", SIZES)
def test_all_instruction_sets_give_the_same_bits(size: int) -> None:
    inputs = numbers(ROW_COUNT, size) * 3
    first, *others = (operations(make(each, threads), size) for each in available() for threads in (1, 3))
    for name, operation in first.items():
        expected = operation(inputs.clone())
        for other in others:
            assert torch.equal(other[name](inputs.clone()), expected), name


@pytest.mark.parametrize("size", SIZES)
def test_results_are_right(operators: Operators, size: int) -> None:
    inputs = numbers(ROW_COUNT, size) * 3
    exact, weight, bias = inputs.double(), numbers(size, seed=1).double(), numbers(size, seed=2).double()
    found = {name: operation(inputs.clone()) for name, operation in operations(operators, size).items()}
    product = functional.linear(exact, numbers(45, size, seed=3).double(), numbers(45, seed=4).double())
    expected = {
        "linear": product,
        "linear plus residual": product + exact[:, :1],
        "rms_norm": exact / (exact.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt() * weight,
        "layer_norm": functional.layer_norm(exact, (size,), weight, bias, 1e-5),
        "soft_cap": 1.5 * torch.tanh(exact / 1.5),
        "silu": functional.silu(exact),
        "gelu": functional.gelu(exact),
        "gelu_tanh": functional.gelu(exact, approximate="tanh"),
        "relu": functional.relu(exact),
    }
    for activation in ACTIVATIONS:
        expected[f"gate {activation}"] = expected[activation] * exact.flip(1)
    for name, mixture in mixtures(size).items():
        shares, chosen = routed(exact, mixture)
        expected[f"route {name}"] = shares
        assert torch.equal(found.pop(f"chosen {name}"), chosen), name
    assert found.keys() == expected.keys()
    for name, wanted in expected.items():
        absolute = 1e-6 * size if "linear" in name else 1e-5 if "gate" in name else 2e-6
        assert torch.allclose(found[name].double(), wanted, rtol=2e-5, atol=absolute), name


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu", "soft_cap"])
def test_functions_are_as_near_as_fp32_allows(name: str) -> None:
    """Over all magnitudes, the largest error by the size of the argument; and beyond all of them."""
    inputs = torch.linspace(-12, 12, 100_001)[:, None]
    exact = inputs.double()
    expected = {
        "gelu": functional.gelu(exact),
        "gelu_tanh": functional.gelu(exact, approximate="tanh"),
        "silu": functional.silu(exact),
        "soft_cap": 1.5 * torch.tanh(exact / 1.5),
    }[name]
    for each in available():
        operation = operations(make(each), 1)[name]
        assert ((operation(inputs) - expected).abs() / exact.abs().clamp_min(0.1)).max() < 3e-7
        ends = operation(torch.tensor([[-1e30], [1e30], [math.inf]]))[:, 0]
        wanted = [-1.5, 1.5, 1.5] if name == "soft_cap" else [0, torch.tensor(1e30).item(), math.inf]
        assert ends.tolist() == pytest.approx(wanted, abs=1e-8)


def test_what_is_not_a_number_is_not_hidden(operators: Operators) -> None:
    inputs = numbers(4, 24)
    inputs[1, 20], inputs[2, 3] = math.nan, math.nan
    for name, operation in operations(operators, 24).items():
        found = operation(inputs.clone()).double()
        assert torch.isfinite(found[[0, 3]]).all(), name
        assert name.startswith("chosen") or found[1].isnan().any() or "without" in name, name


def test_equal_scores_choose_the_first_expert() -> None:
    mixture = mixture_of(5, ExpertRouting(2, normalizes_weights=True))
    for each in available():
        _, chosen = make(each).route(torch.tensor([[1.0, 2.0, 2.0, 2.0, 0.0]]), mixture, None)
        assert chosen.tolist() == [[1, 2]]
