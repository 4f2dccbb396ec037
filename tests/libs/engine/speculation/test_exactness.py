"""Drafts of any quality leave the law of the output as it is: enumerated, and counted over many draws."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.libs.engine.engine_running import request, run
from tests.libs.engine.table_model import PARTS, VOCAB_SIZE, FixedDrafter, TableRunner, make_spec, make_table

from headrace.engine.batching.drafter import Drafts
from headrace.engine.batching.sequence import Sequence
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.grammar.grammar_compiler import GrammarCompiler
from headrace.engine.speculation.drafters.model_drafter import ModelDrafter
from headrace.engine.speculation.ngram_index import NgramIndex
from headrace.engine.torch.sampling import sorted_draw

TARGET = make_table(1)
DRAFT = (TARGET + make_table(2)) / 2
"""Law of the draft, like the target's, but not quite."""


class AlwaysModel(FixedDrafter):
    """Two guesses of the draft model, whatever they cost."""

    def __init__(self, spec: EngineSpec) -> None:
        super().__init__(())
        self._model = ModelDrafter(TableRunner(DRAFT), VOCAB_SIZE, spec.max_model_length, spec.block_size, 1 << 16)

    def propose(self, limits: Mapping[Sequence, int]) -> Drafts:
        return self._model.propose({sequence: min(2, limit) for sequence, limit in limits.items()})

    def forget(self, sequence: Sequence) -> None:
        self._model.forget(sequence)


class AlwaysNgram(FixedDrafter):
    """Two guesses wherever the text repeats itself."""

    def __init__(self) -> None:
        super().__init__(())
        self._indices: dict[Sequence, NgramIndex] = {}

    def propose(self, limits: Mapping[Sequence, int]) -> Drafts:
        return {
            sequence: self._indices.setdefault(sequence, NgramIndex()).find(sequence.token_ids, min(2, limit))
            for sequence, limit in limits.items()
        }

    def forget(self, sequence: Sequence) -> None:
        self._indices.pop(sequence, None)


def make_engine(spec: EngineSpec, drafter: FixedDrafter) -> TextEngine:
    compiler = GrammarCompiler(Path("unused"), spec)
    return TextEngine(spec, TableRunner(TARGET), compiler, drafter, prefix_cache=False)  # type: ignore[arg-type]


def grid() -> list[tuple[float, ...]]:
    """The middle of every box that three draws can fall into."""
    middles = [(index + 0.5) / PARTS for index in range(PARTS)]
    return list(itertools.product(middles, repeat=3))


def enumerate_outputs(drafter: FixedDrafter, monkeypatch: pytest.MonkeyPatch) -> tuple[Counter[tuple[int, ...]], int]:
    """Counts the outputs over all draws, and the guesses that were right."""
    draws = grid()
    spec = make_spec(len(draws))
    engine = make_engine(spec, drafter)
    monkeypatch.setattr(sorted_draw, "uniform", lambda seed, position: draws[seed][position])
    requests = [request(str(index), [3], max_tokens=3, seed=index) for index in range(len(draws))]
    for each in requests:
        engine.add(each)
    found: dict[str, tuple[int, ...]] = {}
    while engine.has_work():
        for delta in engine.step():
            found[delta.request_id] = found.get(delta.request_id, ()) + delta.token_ids
    accepted = engine.stats().accepted_token_count
    engine.close()
    return Counter(found.values()), accepted


def law(start: int, table: NDArray[np.float64]) -> dict[tuple[int, ...], float]:
    """The probability of every output of three tokens, by the chain rule."""
    outputs = itertools.product(range(VOCAB_SIZE), repeat=3)
    return {(a, b, c): p for a, b, c in outputs if (p := float(table[start, a] * table[a, b] * table[b, c])) > 0}


GUESSES = [(1, 0), (2, 4), (3, 2), (2, 2)]
"""By their chances in 16: a first guess of none; a second one of none behind one of 7; 1 and 7; 7 and 3."""


@pytest.mark.slow
@pytest.mark.parametrize("guesses", [(), *GUESSES], ids=str)
def test_the_enumerated_law_is_the_target_whatever_is_drafted(
    guesses: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = enumerate_outputs(FixedDrafter(guesses), monkeypatch)
    assert {output: count / PARTS**3 for output, count in found.items()} == law(3, TARGET)


def test_the_enumerated_law_is_the_target_with_a_draft_model(monkeypatch: pytest.MonkeyPatch) -> None:
    found, accepted = enumerate_outputs(AlwaysModel(make_spec(PARTS**3)), monkeypatch)
    assert accepted > PARTS**3 / 2
    assert {output: count / PARTS**3 for output, count in found.items()} == law(3, TARGET)


SAMPLINGS: dict[str, dict[str, float]] = {
    "plain": {},
    "temperature": {"temperature": 1.7},
    "top_k": {"top_k": 3, "temperature": 1.3},
    "top_p": {"top_p": 0.8},
    "min_p": {"min_p": 0.23},
    "penalty": {"presence_penalty": 0.7},
}
TOKENS = 10
USUAL_REQUESTS, PENALTY_REQUESTS = 2_000, 5_000
"""20,000 draws; with a penalty 50,000, because then what was drawn before counts too, and contexts are many."""


def weights(last: int, seen: frozenset[int], sampling: Mapping[str, float]) -> NDArray[np.float64]:
    """The distribution that is drawn from, written from the definitions."""
    with np.errstate(divide="ignore"):
        logits = np.log(TARGET[last])
    logits[list(seen)] -= sampling.get("presence_penalty", 0.0)
    p = np.exp(logits / sampling.get("temperature", 1.0))
    p /= p.sum()
    order = np.argsort(-p, kind="stable")
    if "top_k" in sampling:
        p[order[int(sampling["top_k"]) :]] = 0
    if "top_p" in sampling:
        before = np.cumsum(p[order]) - p[order]
        p[order[before >= sampling["top_p"] - 1e-9]] = 0
    if "min_p" in sampling:
        p[p < sampling["min_p"] * p.max()] = 0
    result: NDArray[np.float64] = p / p.sum()
    return result


def transitions(outputs: list[list[int]]) -> Iterator[tuple[int, frozenset[int], int]]:
    """(last token, output so far, next token) of every draw."""
    for output in outputs:
        seen: frozenset[int] = frozenset()
        last = 3
        for token_id in output:
            yield last, seen, token_id
            last, seen = token_id, seen | {token_id}


def draw_outputs(drafter: FixedDrafter, spec: EngineSpec, sampling: Mapping[str, Any]) -> list[list[int]]:
    """Outputs of TOKENS tokens, for each 200 of which at least one guess was right."""
    request_count = PENALTY_REQUESTS if "presence_penalty" in sampling else USUAL_REQUESTS
    engine = make_engine(spec, drafter)
    outputs: list[list[int]] = []
    for first in range(0, request_count, spec.max_running_count):
        seeds = range(first, first + spec.max_running_count)
        for seed in seeds:
            engine.add(request(str(seed), [3], max_tokens=TOKENS, seed=seed, **sampling))
        found: dict[str, list[int]] = {}
        while engine.has_work():
            for delta in engine.step():
                found.setdefault(delta.request_id, []).extend(delta.token_ids)
        outputs += found.values()
    assert engine.stats().accepted_token_count > request_count * TOKENS / 200
    engine.close()
    return outputs


def chi_square(outputs: list[list[int]], sampling: Mapping[str, float]) -> tuple[float, int]:
    """Pearson's statistic and its degrees of freedom, summed over the contexts that occur often."""
    uses_seen = "presence_penalty" in sampling
    counts: dict[tuple[int, frozenset[int]], Counter[int]] = {}
    for last, seen, token_id in transitions(outputs):
        counts.setdefault((last, seen if uses_seen else frozenset()), Counter())[token_id] += 1
    statistic, freedom = 0.0, 0
    for (last, seen), found in counts.items():
        expected = weights(last, seen, sampling) * found.total()
        assert all(expected[token_id] > 0 for token_id in found), (last, seen)
        likely = np.flatnonzero(expected >= 5).tolist()
        if found.total() >= 400 and len(likely) > 1:
            statistic += sum((found[token_id] - expected[token_id]) ** 2 / expected[token_id] for token_id in likely)
            freedom += len(likely) - 1
    return statistic, freedom


@pytest.mark.slow
@pytest.mark.parametrize(
    ("drafter", "name"), [*(("model", name) for name in SAMPLINGS), ("ngram", "plain"), ("ngram", "top_k")]
)
def test_drawn_outputs_follow_the_target(drafter: str, name: str) -> None:
    """The seeds are fixed, so a false alarm cannot come and go. The bound is at a probability of 1e-5."""
    spec = make_spec(running=1000)
    outputs = draw_outputs(AlwaysModel(spec) if drafter == "model" else AlwaysNgram(), spec, SAMPLINGS[name])
    statistic, freedom = chi_square(outputs, SAMPLINGS[name])
    assert freedom >= 15
    # Wilson and Hilferty: the cube root of chi-square over its mean is close to normal.
    deviate = ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
    assert deviate < 4.3, (statistic, freedom)


def test_the_chi_square_would_notice() -> None:
    """Draws from the draft's law put the statistic far out."""
    rng = np.random.default_rng(0)
    expected = TARGET[3] * 20_000
    drawn = rng.multinomial(20_000, DRAFT[3])
    likely = expected >= 5
    assert ((drawn - expected)[likely] ** 2 / expected[likely]).sum() > 200


def test_seeded_outputs_are_those_without_guesses() -> None:
    spec = make_spec(64)
    plain = make_engine(spec, FixedDrafter(()))
    guessed = make_engine(spec, AlwaysModel(spec))
    requests = [request(str(seed), [seed % 8], max_tokens=30, seed=seed) for seed in range(64)]
    assert run(guessed, *requests) == run(plain, *requests)
    assert guessed.stats().step_count < plain.stats().step_count
