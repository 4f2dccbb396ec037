"""One request has one text, whatever the engine does besides: prefix cache, chunks, blocks, guesses, preemption and the
order of arrival, all at once. Log-probabilities are compared too, to the last bit."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from tests.libs.engine.determinism.covering_array import cover_pairs, pairs
from tests.libs.engine.engine_running import engine_config, finish, request, tokens, without_step_times
from tests.libs.engine.needed_kernels import needs_kernels
from tests.libs.engine.tiny_models import make_family, make_prompts

from headrace.demo_model import CHECKPOINT, DRAFT
from headrace.domain.conversation import Conversation
from headrace.domain.message import Message
from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.contract.request import Delta, EngineRequest
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.kernels.choice.candidates import candidates
from headrace.engine.kernels.choice.shared_context import shared_context
from headrace.engine.kernels.library import INSTRUCTIONS_VARIABLE, available
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.tokenizer.text.text_model import TextModel

KERNELS = ("auto", "torch")
SPECULATION: dict[str, dict[str, Any]] = {
    "off": {"speculation": "off"},
    "ngram": {"speculation": "on"},
    "draft": {"speculation": "on", "draft_folder": DRAFT},
}
FACTORS: dict[str, tuple[object, ...]] = {
    "prefix_cache": (True, False),
    "chunk": (64, 80, 512),
    "block_size": (16, 32, 64),
    "speculation": ("off", "ngram", "draft"),
    "pool": ("small", "large"),
    "order": ("together", "backwards", "one by one"),
}
TINY_FACTORS: dict[str, tuple[object, ...]] = {
    "prefix_cache": (True, False),
    "chunk": (32, 512),
    "block_size": (16, 32),
    "speculation": ("off", "ngram"),
    "pool": ("tiny", "large"),
    "order": ("together", "one by one"),
}
SEEDS = {"bundled": 1, "tiny": 17, "quantized bundled": 50, "quantized tiny": 11}
"""For few rows that hold every pair, and few of them on portable code, which takes thirty times as long."""
QUANTIZED = {"precision": "int4"}
"""Codes of 4 bits, inputs of 8, a head of 8, keys and values of 8: what people run on a CPU."""
POOL_TOKENS = {"few windows": 128, "tiny": 160, "small": 256, "large": 8192}
"""The smaller ones have room for their longest request and hardly anything else."""
USUAL = {"prefix_cache": False, "chunk": 512, "block_size": 16, "speculation": "off", "pool": "large"}
Found = tuple[list[int], list[object]]
"""Tokens and their log-probabilities."""


def demo_requests(token_count: int = 48) -> list[EngineRequest]:
    model = TextModel("m", CHECKPOINT)
    question = Message("user", "What is continuous batching?")
    answer = Message("assistant", "Continuous batching adds new requests to the running batch. " * 4)
    chat = model.encode(model.render(Conversation((question,))), False)
    copy = model.encode(
        model.render(
            Conversation(
                (
                    question,
                    answer,
                    question,
                )
            )
        ),
        False,
    )
    json_prompt = model.encode("Describe a KV cache as JSON: ", True)
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}}, "required": ["name"]}
    grammar = Grammar(GrammarKind.JSON_SCHEMA, json.dumps(schema | {"additionalProperties": False}))
    usual: dict[str, Any] = {"max_tokens": token_count, "logprob_count": 1, "ignore_eos": True}
    return [
        request("greedy", chat, temperature=0.0, **usual),
        request("copy", copy, temperature=0.0, **usual),
        request("sampled", chat, temperature=0.8, top_p=0.9, seed=7, **usual),
        request("penalties", copy, temperature=0.0, frequency_penalty=0.5, repetition_penalty=1.1, **usual),
        request("sampled penalties", copy, seed=8, top_p=0.95, presence_penalty=0.4, **usual),
        request("json", json_prompt, grammar=grammar, temperature=0.0, **usual),
        request("sampled json", json_prompt, grammar=grammar, temperature=1.2, top_p=0.9, seed=5, **usual),
    ]


def tiny_requests() -> list[EngineRequest]:
    samplings: Iterable[dict[str, Any]] = (
        {"temperature": 0.0},
        {"seed": 3, "top_p": 0.9},
        {"temperature": 0.0, "repetition_penalty": 1.2, "frequency_penalty": 0.3},
        {"seed": 4, "top_k": 30, "min_p": 0.02},
        {"temperature": 0.0, "presence_penalty": 0.3},
    )
    prompts = make_prompts((5, 9, 14, 29, 110))
    return [
        request(str(index), prompt, max_tokens=24, logprob_count=1, **sampling)
        for index, (prompt, sampling) in enumerate(zip(prompts, samplings, strict=True))
    ]


def load(
    folder: Path, kernels: Any, row: dict[str, Any], settings: Mapping[str, Any] = MappingProxyType({})
) -> TextEngine:
    block_size = row["block_size"]
    assert isinstance(block_size, int)
    return load_text_engine(
        folder,
        engine_config(
            kernels=kernels,
            prefix_cache=row["prefix_cache"],
            max_step_token_count=row["chunk"],
            block_size=block_size,
            block_count=POOL_TOKENS[str(row["pool"])] // block_size,
            thread_count=row.get("threads", 1),
            **SPECULATION[str(row["speculation"])],
            **settings,
        ),
    )


def alone(
    folder: Path, kernels: str, requests: list[EngineRequest], settings: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Found]:
    """Returns what each request gives with the engine to itself and nothing switched on."""
    found: dict[str, Found] = {}
    engine = load(folder, kernels, USUAL, settings)
    for each in requests:
        found |= run_in_order(engine, [each], "together")
    engine.close()
    return found


def run_in_order(engine: TextEngine, requests: list[EngineRequest], order: str) -> dict[str, Found]:
    streams: dict[str, list[Delta]] = {}
    for each in reversed(requests) if order == "backwards" else requests:
        engine.add(each)
        for delta in engine.step() if order == "one by one" else ():
            streams.setdefault(delta.request_id, []).append(delta)
    for request_id, stream in finish(engine).items():
        streams.setdefault(request_id, []).extend(stream)
    return {
        request_id: (tokens(stream), [logprob for delta in stream for logprob in delta.logprobs])
        for request_id, stream in streams.items()
    }


def test_rows_hold_every_pair() -> None:
    rows = cover_pairs(FACTORS, seed=SEEDS["bundled"])
    wanted = sum(len(FACTORS[a]) * len(FACTORS[b]) for a, b in combinations(FACTORS, 2))
    assert len(set().union(*(pairs(row) for row in rows))) == wanted
    assert len(rows) < 24


@pytest.fixture(scope="module")
def expected() -> dict[str, dict[str, Found]]:
    return {kernels: alone(CHECKPOINT, kernels, demo_requests()) for kernels in KERNELS}


@pytest.mark.slow
@pytest.mark.parametrize("kernels", KERNELS)
def test_the_bundled_model_has_one_text_in_every_pair_of_circumstances(
    kernels: str, expected: dict[str, dict[str, Found]], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_step_times(monkeypatch)
    counts = {"preempted": 0, "hit": 0, "accepted": 0}
    for row in cover_pairs(FACTORS, seed=SEEDS["bundled"]):
        engine = load(CHECKPOINT, kernels, row)
        for round_ in range(1 + bool(row["prefix_cache"])):  # the second round finds the first one's blocks
            found = run_in_order(engine, demo_requests(), str(row["order"]))
            for each in demo_requests():
                assert found[each.request_id] == expected[kernels][each.request_id], (row, round_, each.request_id)
        stats = engine.stats()
        engine.close()
        counts["preempted"] += stats.preemption_count
        counts["hit"] += stats.prefix_hit_token_count
        counts["accepted"] += stats.accepted_token_count
    assert min(counts.values()) > 10, counts


@pytest.fixture
def force() -> Iterator[Callable[[str], None]]:
    """Has the engines that are loaded from now on run on one instruction set."""
    with pytest.MonkeyPatch.context() as patch:

        def use(instructions: str) -> None:
            patch.setenv(INSTRUCTIONS_VARIABLE, instructions)
            forget()

        yield use
    forget()


def forget() -> None:
    candidates.cache_clear()
    shared_context.cache_clear()


@needs_kernels
@pytest.mark.slow
@pytest.mark.parametrize("model", ["bundled", "tiny"])
def test_a_quantized_model_has_one_text_in_every_pair_of_circumstances(
    model: str, force: Callable[[str], None], tmp_path: Path
) -> None:
    """Beside the rest: on every instruction set of this machine, in one thread and in two."""
    folder, requests = CHECKPOINT, demo_requests(16)
    if model == "tiny":
        folder, requests = tmp_path, tiny_requests()
        make_family(tmp_path, "mistral", hidden_size=64, intermediate_size=96)
    factors = FACTORS if model == "bundled" else TINY_FACTORS | {"pool": ("few windows", "large")}
    sets = tuple(each.name.lower() for each in available())
    # The fastest: the turn of portable code comes among the rows.
    force(sets[-1])
    expected = alone(folder, "auto", requests, QUANTIZED)
    for row in cover_pairs(factors | {"instructions": sets, "threads": (1, 2)}, seed=SEEDS[f"quantized {model}"]):
        force(str(row["instructions"]))
        engine = load(folder, "auto", row, QUANTIZED)
        for round_ in range(1 + bool(row["prefix_cache"])):
            assert run_in_order(engine, requests, str(row["order"])) == expected, (row, round_)
        engine.close()


def test_fused_and_torch_kernels_agree_on_greedy_text(expected: dict[str, dict[str, Found]]) -> None:
    for name in ("greedy", "copy", "penalties", "json"):
        assert expected["auto"][name][0] == expected["torch"][name][0], name


@pytest.mark.slow
@pytest.mark.parametrize(("family", "pool"), [("llama", "tiny"), ("mistral", "few windows")])
@pytest.mark.parametrize("kernels", KERNELS)
def test_a_tiny_model_has_one_text_in_all_circumstances(kernels: str, family: str, pool: str, tmp_path: Path) -> None:
    """Pairs of circumstances cover them all."""
    make_family(tmp_path, family)
    expected = alone(tmp_path, kernels, tiny_requests())
    preemption_count = 0
    for row in cover_pairs(TINY_FACTORS | {"pool": (pool, "large")}, seed=SEEDS["tiny"]):
        engine = load(tmp_path, kernels, row)
        assert run_in_order(engine, tiny_requests(), str(row["order"])) == expected, row
        preemption_count += engine.stats().preemption_count
    assert preemption_count > 0
