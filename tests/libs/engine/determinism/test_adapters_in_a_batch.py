"""Several adapters and the base model in one batch: each request gets the bits that it gets alone."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.libs.engine.engine_running import engine_config, finish, run, tokens, without_step_times
from tests.libs.engine.tiny_adapters import make_adapter, request
from tests.libs.engine.tiny_models import VOCAB_SIZE, make_oracle, make_prompts

from headrace.demo_model import CHECKPOINT, DRAFT
from headrace.engine.contract.request import Delta, EngineRequest
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.torch.decoder import decoder
from headrace.engine.torch.operators.choose_operators import choose_operators
from headrace.errors import InvalidRequest, Unsupported
from headrace.kv.block_hash import hash_blocks

PROMPTS = make_prompts((7, 33, 90))
KINDS: dict[str, dict[str, Any]] = {
    "all": {"r": 4},
    "attention": {"r": 8, "target_modules": ["q_proj", "v_proj"]},
    "mlp of one layer": {"r": 3, "target_modules": ["gate_proj", "down_proj"], "layers_to_transform": 1},
}
NAMES = (*KINDS, "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("batch")
    base = make_oracle(folder, "multi_query_bias")
    for seed, (name, settings) in enumerate(KINDS.items()):
        make_adapter(folder / name, base, seed, **settings)
    return folder


def load(folder: Path, **settings: Any) -> TextEngine:
    defaults = {"max_step_token_count": 64, "block_count": 256, "thread_count": 1}
    adapters = {name: folder / name for name in KINDS}
    return load_text_engine(folder, engine_config(**(defaults | {"adapters": adapters} | settings)))


def requests_of(**sampling: Any) -> list[EngineRequest]:
    fields = {"max_tokens": 24, "logprob_count": 2} | sampling
    return [request(f"{name}/{i}", p, name, **fields) for name in NAMES for i, p in enumerate(PROMPTS)]


def alone(folder: Path, requests: list[EngineRequest], **settings: Any) -> dict[str, list[Delta]]:
    engine = load(folder, prefix_cache=False, max_step_token_count=512, **settings)
    found: dict[str, list[Delta]] = {}
    for each in requests:
        engine.add(each)
        found |= finish(engine)
    return found


def staggered(engine: TextEngine, requests: list[EngineRequest], seed: int) -> dict[str, list[Delta]]:
    """Adds requests in a random order, each a step after the one before it."""
    streams: dict[str, list[Delta]] = {}
    for each in random.Random(seed).sample(requests, len(requests)):
        engine.add(each)
        for delta in engine.step():
            streams.setdefault(delta.request_id, []).append(delta)
    for request_id, stream in finish(engine).items():
        streams.setdefault(request_id, []).extend(stream)
    return streams


def assert_same(found: dict[str, list[Delta]], expected: dict[str, list[Delta]], where: object) -> None:
    """Log-probabilities, not only tokens, are equal to the last bit."""
    for request_id, stream in expected.items():
        assert tokens(found[request_id]) == tokens(stream), (where, request_id)
        scores = [[entry for delta in deltas for entry in delta.logprobs] for deltas in (found[request_id], stream)]
        assert scores[0] == scores[1], (where, request_id)


@pytest.mark.slow
@pytest.mark.parametrize("sampling", [{"temperature": 0.0}, {"temperature": 0.9, "top_p": 0.9, "seed": 7}])
def test_batch_chunks_cache_and_preemption_change_nothing(folder: Path, sampling: dict[str, Any]) -> None:
    requests = requests_of(**sampling)
    expected = alone(folder, requests)
    assert len({tuple(tokens(expected[f"{name}/1"])) for name in NAMES}) == len(NAMES)
    variants: dict[str, dict[str, Any]] = {
        "together": {},
        "small chunks": {"max_step_token_count": 16},
        "tiny pool": {"block_count": 12},
    }
    for name, settings in variants.items():
        engine = load(folder, **settings)
        for round_ in range(2):  # the second round hits the prefix cache
            assert_same(staggered(engine, requests, round_), expected, (name, round_))
        stats = engine.stats()
        assert (stats.preemption_count > 0) == (name == "tiny pool")
        assert name == "tiny pool" or stats.prefix_hit_token_count > 0


def test_two_threads_change_nothing_either(folder: Path) -> None:
    requests = [each for each in requests_of(temperature=0.0, max_tokens=3) if not each.request_id.endswith("2")]
    expected = alone(folder, requests, thread_count=2)
    assert_same(staggered(load(folder, thread_count=2), requests, 0), expected, "two threads")


def test_prompts_that_repeat_themselves_are_drafted_right_under_an_adapter(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_step_times(monkeypatch)
    prompt = PROMPTS[1] * 3
    requests = [request(name, prompt, name, max_tokens=80, temperature=0.0, logprob_count=0) for name in NAMES]
    expected = alone(folder, requests)
    engine = load(folder, speculation="on")
    assert_same(staggered(engine, requests, 0), expected, "guesses")
    assert engine.stats().draft_token_count > 0


def hashes_of(engine: TextEngine, cache_salt: str, adapter: str) -> list[bytes]:
    """Names of the blocks of a prompt under an adapter."""
    return hash_blocks(PROMPTS[2], engine.spec.block_size, cache_salt, adapter)


def test_the_same_prompt_under_another_adapter_is_other_blocks(folder: Path) -> None:
    engine = load(folder)
    cached: dict[str, list[int]] = {}
    for _ in range(2):
        for name in NAMES:
            engine.add(request("r", PROMPTS[2], name, max_tokens=1, temperature=0.0))
            cached.setdefault(name, []).append(finish(engine)["r"][0].cached_token_count)
    assert cached == {name: [0, 80] for name in NAMES}
    hashes = [block for name in NAMES for block in hashes_of(engine, "salt", name)]
    assert len(set(hashes)) == len(hashes) == len(NAMES) * 5
    assert set(engine.drain_block_events().stored) >= set(hashes_of(engine, "", "all"))


def test_a_draft_model_guesses_for_adapters_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoModelForCausalLM

    without_step_times(monkeypatch)
    base = AutoModelForCausalLM.from_pretrained(CHECKPOINT)
    model = make_adapter(tmp_path, base, r=4)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data.mul_(0.6)
    model.save_pretrained(tmp_path)
    requests = [request(name, (5, 9, 30, 77, 12), name, max_tokens=40, temperature=0.0) for name in ("tuned", "")]

    def generate(**settings: Any) -> dict[str, list[int]]:
        config = engine_config(adapters={"tuned": tmp_path}, block_count=64, thread_count=1, **settings)
        engine = load_text_engine(CHECKPOINT, config)
        found = run(engine, *requests)
        assert (engine.stats().draft_token_count > 0) == bool(settings)
        engine.close()
        return found

    plain = generate()
    assert plain["tuned"] != plain[""]
    assert generate(speculation="on", draft_folder=DRAFT) == plain


def test_a_step_without_adapters_runs_the_layers_as_they_are(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("layers were adapted for nobody")

    plain = [each for each in requests_of(temperature=0.0) if not each.adapter]
    without = load(folder, adapters={}, kernels="torch")
    for each in plain:
        without.add(each)
    expected = finish(without)
    monkeypatch.setattr(decoder, "adapted", fail)
    engine = load(folder)
    assert_same(staggered(engine, plain, 0), expected, "plain")
    engine.add(requests_of()[0])
    with pytest.raises(AssertionError, match="for nobody"):
        engine.step()


def test_an_unknown_adapter_is_refused_with_those_that_exist(folder: Path) -> None:
    with pytest.raises(InvalidRequest, match="'other'; there are: all, attention, mlp of one layer"):
        load(folder).add(request("r", PROMPTS[0], "other"))
    with pytest.raises(InvalidRequest, match="none is loaded"):
        load(folder, adapters={}).add(request("r", PROMPTS[0], "other"))


def test_a_prompt_scored_under_an_adapter_has_the_same_bits_in_a_batch(folder: Path) -> None:
    scored = [request(name, PROMPTS[2], name, max_tokens=0, prompt_logprob_count=3) for name in NAMES]
    expected: dict[str, Any] = {}
    for each in scored:
        engine = load(folder)
        engine.add(each)
        expected |= finish(engine)
    together = staggered(load(folder, max_step_token_count=48), scored, 1)
    for each in scored:
        assert together[each.request_id][-1].prompt_logprobs == expected[each.request_id][-1].prompt_logprobs


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_of_low_rank_do_not_depend_on_the_row_count(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    operators = choose_operators(2)
    for rank in (1, 2, 3, 4, 5, 8, 16, 17, 64):
        for shape in ((rank, VOCAB_SIZE), (VOCAB_SIZE, rank), (rank, 64), (64, rank)):
            product = operators.linear(torch.randn(shape, generator=generator).to(dtype))
            inputs = torch.randn(67, shape[1], generator=generator).to(dtype)
            whole = product(inputs)
            for start, end in ((0, 1), (0, 2), (3, 6), (0, 5), (7, 20), (0, 33), (2, 67)):
                assert torch.equal(product(inputs[start:end].clone()), whole[start:end]), (shape, start, end)


def test_embedding_models_take_no_adapters(minilm: Path, folder: Path) -> None:
    from headrace.engine.loading.load_engine import load_engine

    with pytest.raises(Unsupported, match="makes embeddings"):
        load_engine(minilm, engine_config(adapters={"x": folder / "all"}))
