"""Each sampling parameter against a plain reference, and draws against their distribution."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.libs.engine.engine_running import request
from tests.libs.engine.needed_kernels import NO_KERNELS, needs_kernels

from headrace.engine.batching.sequence import Sequence
from headrace.engine.contract.reasoning_limit import ReasoningLimit
from headrace.engine.contract.request import SamplingParams
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import available, load_kernels
from headrace.engine.step import cpu_sampler
from headrace.engine.step.cpu_sampler import CpuSampler
from headrace.engine.step.sampler import Logits, Sampler
from headrace.engine.step.uniform import uniform
from headrace.engine.torch.sampling import torch_sampler
from headrace.engine.torch.sampling.adjusted_logits import adjust
from headrace.engine.torch.sampling.torch_sampler import TorchSampler

VOCAB_SIZE = 20


def make_sequence(
    prompt: tuple[int, ...] = (1, 2, 3),
    output: tuple[int, ...] = (),
    stop: frozenset[int] = frozenset(),
    **sampling: Any,
) -> Sequence:
    made = request("r", prompt, output, **sampling)
    return Sequence(made, 0, made.sampling.seed or 0, made.sampling.stop_token_ids | stop, 1000)


def make_logits(seed: int = 0, rows: int = 1, vocab_size: int = VOCAB_SIZE) -> torch.Tensor:
    return torch.randn(rows, vocab_size, generator=torch.Generator().manual_seed(seed)) * 2


@pytest.fixture(scope="module", params=["torch", "device", "kernels"])
def sampler(request: pytest.FixtureRequest) -> Iterator[Sampler]:
    """The samplers; `device` is that of torch as it samples on a GPU."""
    if request.param == "kernels":
        if load_kernels() is None:
            pytest.skip(NO_KERNELS)
        yield CpuSampler(KernelContext(2))
        return
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "device":
            patch.setattr(torch_sampler, "_is_on_host", lambda _: False)
        yield TorchSampler()


def as_held(sampler: Sampler, logits: torch.Tensor) -> Logits:
    """Logits as the runner that the sampler belongs to would have them."""
    return logits if isinstance(sampler, TorchSampler) else logits.contiguous().numpy()


def reference_distribution(logits: list[float], sampling: SamplingParams) -> list[float]:
    """Temperature, top-k, top-p, min-p, written down token by token."""
    exponentials = [math.exp(value / sampling.temperature) for value in logits]
    weights = [value / sum(exponentials) for value in exponentials]
    order = sorted(range(len(logits)), key=lambda token: -weights[token])
    kept = order[: sampling.top_k]
    total, cumulative, head = sum(weights[token] for token in kept), 0.0, []
    for token in kept:
        if cumulative < sampling.top_p * total or sampling.top_p >= 1:
            head.append(token)
        cumulative += weights[token]
    head = [token for token in head if weights[token] >= sampling.min_p * weights[order[0]]]
    total = sum(weights[token] for token in head)
    return [weights[token] / total if token in head else 0.0 for token in range(len(logits))]


@pytest.mark.slow
@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": 1.0},
        {"temperature": 0.5},
        {"temperature": 1.5, "top_k": 4},
        {"temperature": 1.0, "top_p": 0.8},
        {"temperature": 1.0, "min_p": 0.1},
        {"temperature": 1.3, "top_k": 8, "top_p": 0.9, "min_p": 0.05},
        {"temperature": 1.0, "top_k": 1},
        {"temperature": 1.0, "top_p": 1e-6},
    ],
)
def test_draws_follow_the_filtered_distribution(sampling: dict[str, Any], sampler: Sampler) -> None:
    draws = 4000
    logits = make_logits()
    expected = reference_distribution(logits[0].tolist(), SamplingParams(**sampling))
    sequences = [make_sequence(seed=seed, **sampling) for seed in range(draws)]
    tokens = sampler.sample(as_held(sampler, logits.expand(draws, -1)), sequences)
    counts = torch.bincount(torch.tensor(tokens), minlength=VOCAB_SIZE)
    for token, probability in enumerate(expected):
        deviation = math.sqrt(draws * probability * (1 - probability))
        assert abs(counts[token] - draws * probability) <= 4.5 * deviation + (3 if probability else 0), token


@settings(max_examples=50, deadline=None)
@given(
    st.floats(0.0, 2.0),
    st.none() | st.integers(1, 30),
    st.floats(0.01, 1.0),
    st.floats(0.0, 1.0),
    st.integers(0, 2**70),
)
def test_a_row_does_not_depend_on_its_neighbors(
    sampler: Sampler, temperature: float, top_k: int | None, top_p: float, min_p: float, seed: int
) -> None:
    logits = make_logits(rows=5)
    mine = make_sequence(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed)
    others = [
        make_sequence(temperature=0.0),
        make_sequence(temperature=0.7, top_k=3, seed=1),
        make_sequence(temperature=1.0, seed=2),
        make_sequence(temperature=1.0, top_p=0.5, repetition_penalty=1.3, seed=2),
    ]
    (alone,) = sampler.sample(as_held(sampler, logits[:1]), [mine])
    assert sampler.sample(as_held(sampler, logits), [mine, *others])[0] == alone
    assert sampler.sample(as_held(sampler, logits.flip(0)), [*others, mine])[4] == alone


def test_penalties_bias_and_bans_match_their_definition(sampler: Sampler) -> None:
    logits = make_logits()
    sequence = make_sequence(
        prompt=(1, 2, 3),
        output=(3, 5, 5, 6),
        stop=frozenset({7}),
        temperature=0.0,
        repetition_penalty=1.5,
        frequency_penalty=0.3,
        presence_penalty=0.2,
        logit_bias={8: 2.5, 5: -1.0},
        min_tokens=9,
    )
    expected = logits[0].tolist()
    for token in {1, 2, 3, 5, 6}:
        expected[token] = expected[token] / 1.5 if expected[token] > 0 else expected[token] * 1.5
    for token, count in {3: 1, 5: 2, 6: 1}.items():
        expected[token] -= 0.3 * count + 0.2
    expected[8] += 2.5
    expected[5] -= 1.0
    expected[7] = -math.inf
    before, held = logits.clone(), as_held(sampler, logits)
    found = (
        adjust(held, [sequence])[0]
        if isinstance(sampler, TorchSampler)
        else torch.from_numpy(cpu_sampler._adjust(held, [sequence], [0])[0])
    )
    torch.testing.assert_close(found, torch.tensor(expected))
    assert sampler.sample(held, [sequence]) == [expected.index(max(expected))]
    assert torch.equal(logits, before)


def test_what_ends_too_early_is_allowed_where_nothing_else_is(sampler: Sampler) -> None:
    logits = torch.full((1, VOCAB_SIZE), -math.inf)
    logits[0, 7] = 1.0
    sequence = make_sequence(stop=frozenset({7}), min_tokens=9, temperature=0.0)
    assert sampler.sample(as_held(sampler, logits), [sequence]) == [7]


@pytest.mark.parametrize("vocab_size", [VOCAB_SIZE, 5003])
def test_logprobs_are_those_of_the_raw_logits(sampler: Sampler, vocab_size: int) -> None:
    logits = make_logits(rows=2, vocab_size=vocab_size)
    expected = torch.log_softmax(logits, dim=-1)
    first, second = sampler.logprobs(as_held(sampler, logits), [4, 9], [3, 0])
    assert first.token_id == 4
    assert first.logprob == pytest.approx(expected[0, 4].item())
    assert [token for token, _ in first.top] == expected[0].argsort(descending=True)[:3].tolist()
    assert (second.logprob, second.top) == (pytest.approx(expected[1, 9].item()), ())


def test_the_draw_is_a_function_of_seed_and_position() -> None:
    draws = [uniform(seed, position) for seed in range(100) for position in range(100)]
    assert len(set(draws)) == len(draws)
    assert all(0 <= draw < 1 for draw in draws)
    assert abs(sum(draws) / len(draws) - 0.5) < 0.02
    assert uniform(7, 3) == uniform(7, 3) == uniform(7 + 2**64, 3)


def test_tokens_without_probability_are_never_drawn(sampler: Sampler) -> None:
    logits = torch.full((1, VOCAB_SIZE), -math.inf)
    logits[0, 11] = 0.0
    for seed in range(50):
        assert sampler.sample(as_held(sampler, logits), [make_sequence(seed=seed)]) == [11]
        assert sampler.sample(as_held(sampler, logits), [make_sequence(seed=seed, top_p=0.9)]) == [11]


def test_the_likeliest_is_the_first_of_equals_and_flaws_show(sampler: Sampler) -> None:
    logits = make_logits(rows=5, vocab_size=3001)
    logits[1, [2999, 3000]] = 50.0
    logits[2, 17] = math.nan
    logits[3, 2048] = math.inf
    logits[4] = -math.inf
    token_ids, values = sampler.likeliest(as_held(sampler, logits))
    assert token_ids[0] == int(logits[0].argmax())
    assert (token_ids[1], values[1]) == (2999, 50.0)
    assert math.isnan(values[2])
    assert (token_ids[3], values[3]) == (2048, math.inf)
    assert values[4] == -math.inf


def test_more_tokens_are_never_chosen_and_fewer_are_chosen_from(sampler: Sampler) -> None:
    logits = make_logits()
    wide, narrow = (sampler.fit(as_held(sampler, logits), size) for size in (50, 3))
    sequences = [make_sequence(seed=seed, temperature=5.0) for seed in range(200)]
    assert wide.shape == (1, 50)
    for sequence in sequences:
        assert sampler.sample(wide, [sequence])[0] < VOCAB_SIZE
        assert sampler.sample(narrow, [sequence])[0] < 3


@pytest.mark.slow
@needs_kernels
@pytest.mark.parametrize(
    "sampling",
    [
        {},
        {"top_p": 0.9},
        {"top_k": 40},
        {"top_k": 300, "top_p": 0.95, "min_p": 0.02},
        {"temperature": 3.0, "top_p": 0.99},
    ],
)
def test_kernels_draw_what_torch_draws(sampling: dict[str, Any]) -> None:
    """Draws are compared at the same uniform numbers. Where one lies on a boundary, rounding decides."""
    logits = make_logits(rows=200, vocab_size=20_001)
    sequences = [make_sequence(**{"temperature": 0.8, "seed": seed, **sampling}) for seed in range(200)]
    expected = TorchSampler().sample(logits, sequences)
    drawn = [CpuSampler(KernelContext(1, each)).sample(logits.numpy(), sequences) for each in available()]
    assert all(found == drawn[0] for found in drawn)
    assert np.mean(np.array(expected) == np.array(drawn[0])) >= 0.99


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_reasoning_at_its_bound_ends_beside_others_that_go_on(sampler: Sampler, temperature: float) -> None:
    limit = ReasoningLimit(2, (), (17,))
    logits = make_logits(rows=3)
    sequences = [
        make_sequence(temperature=temperature, seed=1),
        make_sequence(output=(4, 5), temperature=temperature, seed=1, reasoning_limit=limit),
        make_sequence(output=(4,), temperature=temperature, seed=1, reasoning_limit=limit),
    ]
    free = [make_sequence(output=one.request.output_token_ids, temperature=temperature, seed=1) for one in sequences]
    expected = sampler.sample(as_held(sampler, logits), free)
    assert sampler.sample(as_held(sampler, logits), sequences) == [expected[0], 17, expected[2]]
