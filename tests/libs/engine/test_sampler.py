"""Each sampling parameter against a plain reference, and draws against their distribution."""

import math

import pytest
import torch
from engine_running import request
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine import sampler
from headrace.engine.request import SamplingParams
from headrace.engine.sampling_draw import uniform
from headrace.engine.sequence import Sequence

VOCAB_SIZE = 20


def make_sequence(
    prompt: tuple[int, ...] = (1, 2, 3), output: tuple[int, ...] = (), stop: frozenset[int] = frozenset(), **sampling
) -> Sequence:
    made = request("r", prompt, output, **sampling)
    return Sequence(made, 0, made.sampling.seed or 0, made.sampling.stop_token_ids | stop, 1000)


def make_logits(seed: int = 0, rows: int = 1) -> torch.Tensor:
    return torch.randn(rows, VOCAB_SIZE, generator=torch.Generator().manual_seed(seed)) * 2


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
def test_draws_follow_the_filtered_distribution(sampling: dict[str, float]) -> None:
    draws = 4000
    logits = make_logits()
    expected = reference_distribution(logits[0].tolist(), SamplingParams(**sampling))
    sequences = [make_sequence(seed=seed, **sampling) for seed in range(draws)]
    counts = torch.bincount(torch.tensor(sampler.sample(logits.expand(draws, -1), sequences)), minlength=VOCAB_SIZE)
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
def test_a_row_does_not_depend_on_its_neighbours(
    temperature: float, top_k: int | None, top_p: float, min_p: float, seed: int
) -> None:
    logits = make_logits(rows=5)
    mine = make_sequence(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed)
    others = [
        make_sequence(temperature=0.0),
        make_sequence(temperature=0.7, top_k=3, seed=1),
        make_sequence(temperature=1.0, seed=2),
        make_sequence(temperature=1.0, top_p=0.5, repetition_penalty=1.3, seed=2),
    ]
    (alone,) = sampler.sample(logits[:1], [mine])
    assert sampler.sample(logits, [mine, *others])[0] == alone
    assert sampler.sample(logits.flip(0), [*others, mine])[4] == alone


def test_penalties_bias_and_bans_match_their_definition() -> None:
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
    before = logits.clone()
    torch.testing.assert_close(sampler._adjust(logits, [sequence])[0], torch.tensor(expected))
    assert torch.equal(logits, before)
    assert sampler.sample(logits, [sequence]) == [expected.index(max(expected))]


def test_logprobs_are_those_of_the_raw_logits() -> None:
    logits = make_logits(rows=2)
    expected = torch.log_softmax(logits, dim=-1)
    first, second = sampler.logprobs(logits, [4, 9], [3, 0])
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


def test_tokens_without_probability_are_never_drawn() -> None:
    logits = torch.full((1, VOCAB_SIZE), -math.inf)
    logits[0, 11] = 0.0
    for seed in range(50):
        assert sampler.sample(logits, [make_sequence(seed=seed)]) == [11]
