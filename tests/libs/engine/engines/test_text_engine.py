"""The engine against transformers, and against itself in other batches."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.libs.engine.engine_running import DEFAULTS, as_on_a_gpu, engine_config, finish, request, run, tokens
from tests.libs.engine.tiny_models import SHAPES, VOCAB_SIZE, continue_greedily, make_oracle, make_prompts
from transformers import LlamaForCausalLM

from headrace.engine.contract.request import Delta, FinishReason
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.torch.attention import attention_layout
from headrace.errors.tree import ConfigError, InternalError, InvalidRequest

pytestmark = pytest.mark.usefixtures("each_kernel")

PROMPTS = make_prompts((1, 7, 16, 33, 90, 150))


@pytest.fixture(scope="module", params=SHAPES)
def oracle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LlamaForCausalLM]:
    folder = tmp_path_factory.mktemp(request.param)
    return folder, make_oracle(folder, request.param)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grouped")
    make_oracle(folder, "grouped")
    return folder


def load(folder: Path, **settings: Any) -> TextEngine:
    defaults = {"max_step_token_count": 64, "block_count": 256, "thread_count": 1}
    return load_text_engine(folder, engine_config(**(defaults | DEFAULTS | settings)))


@pytest.mark.slow
def test_greedy_output_equals_transformers(oracle: tuple[Path, LlamaForCausalLM]) -> None:
    folder, model = oracle
    engine = load(folder)
    out = run(engine, *(request(str(i), p, max_tokens=24, temperature=0.0) for i, p in enumerate(PROMPTS)))
    for index, prompt in enumerate(PROMPTS):
        assert out[str(index)] == continue_greedily(model, prompt, 24), index


def test_prompt_logprobs_equal_transformers(oracle: tuple[Path, LlamaForCausalLM]) -> None:
    """The whole logits row counts: log-probabilities of the 20 strongest tokens of each position, through chunks."""
    folder, model = oracle
    engine = load(folder)
    engine.add(request("r", PROMPTS[5], max_tokens=0, prompt_logprob_count=20))
    (delta,) = finish(engine)["r"]
    assert delta.finish_reason is FinishReason.LENGTH
    assert delta.token_ids == ()
    with torch.inference_mode():
        expected = torch.log_softmax(model(torch.tensor([PROMPTS[5]])).logits[0], dim=-1)
    assert delta.prompt_logprobs is not None
    assert delta.prompt_logprobs[0] is None
    assert len(delta.prompt_logprobs) == len(PROMPTS[5])
    for position, found in enumerate(delta.prompt_logprobs[1:]):
        assert found is not None
        assert found.token_id == PROMPTS[5][position + 1]
        ids = [found.token_id, *(token_id for token_id, _ in found.top)]
        values = torch.tensor([found.logprob, *(value for _, value in found.top)])
        torch.testing.assert_close(values, expected[position, ids], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("sampled", [False, True])
def test_batch_chunks_cache_and_preemption_change_nothing(folder: Path, sampled: bool) -> None:
    """Log-probabilities, not only tokens, are equal to the last bit."""
    sampling: dict[str, Any] = {"temperature": 0.9, "top_p": 0.9, "seed": 7} if sampled else {"temperature": 0.0}
    sampling |= {"max_tokens": 30, "logprob_count": 2}
    requests = [request(str(i), prompt, **sampling) for i, prompt in enumerate((*PROMPTS, PROMPTS[4] + PROMPTS[1]))]
    expected: dict[str, Any] = {}
    for each in requests:
        engine = load(folder, prefix_cache=False, max_step_token_count=512)
        engine.add(each)
        expected |= finish(engine)
    variants = {
        "together": {},
        "small chunks": {"max_step_token_count": 16},
        "tiny pool": {"block_count": 13, "prefix_cache": False},
        "tiny pool with cache": {"block_count": 13},
        "large blocks": {"block_size": 64, "block_count": 16},
    }
    for name, settings in variants.items():
        engine = load(folder, **settings)
        for round_ in range(2):  # the second round hits the prefix cache
            order = list(requests)
            random.Random(round_).shuffle(order)
            streams: dict[str, list[Delta]] = {}
            for each in order:  # staggered arrivals
                engine.add(each)
                for delta in engine.step():
                    streams.setdefault(delta.request_id, []).append(delta)
            for request_id, stream in finish(engine).items():
                streams.setdefault(request_id, []).extend(stream)
            for each in requests:
                found, wanted = streams[each.request_id], expected[each.request_id]
                assert tokens(found) == tokens(wanted), (name, round_, each.request_id)
                assert [d.logprobs for d in found] == [d.logprobs for d in wanted], (name, round_, each.request_id)
        if "tiny" in name:
            assert engine.stats().preemption_count > 0
        elif name != "large blocks":
            assert engine.stats().prefix_hit_token_count > 0


def test_long_contexts_do_not_depend_on_how_they_are_cut(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts go in one chunk, in many, and where attention goes through torch, with scores of a chunk in parts."""
    (prompt,) = make_prompts((300,), seed=2)
    each = request("r", prompt, max_tokens=90, temperature=0.0, logprob_count=0, prompt_logprob_count=0)

    def finish_with(budget: int) -> dict[str, list[Delta]]:
        engine = load(folder, max_step_token_count=budget)
        engine.add(each)
        return finish(engine)

    expected = finish_with(512)
    assert finish_with(48) == expected
    as_on_a_gpu(monkeypatch)
    whole = finish_with(512)["r"]
    monkeypatch.setattr(attention_layout, "MAX_SCORE_COUNT", 20_000)
    parts = finish_with(512)["r"]
    assert tokens(parts) == tokens(whole) == tokens(expected["r"])


def test_bfloat16_runs(folder: Path) -> None:
    assert len(run(load(folder, precision="bfloat16"), request("r", PROMPTS[3], max_tokens=8))["r"]) == 8


def test_resuming_elsewhere_continues_the_same_text(folder: Path) -> None:
    sampling: dict[str, Any] = {"max_tokens": 20, "seed": 3, "temperature": 1.0}
    sampling |= {"frequency_penalty": 0.5, "repetition_penalty": 1.1}
    whole = run(load(folder), request("r", PROMPTS[3], **sampling))["r"]
    for cut in (1, 9, 19):
        engine = load(folder)
        engine.add(request("r", PROMPTS[3], tuple(whole[:cut]), **sampling))
        stream = finish(engine)["r"]
        assert stream[0].first_index == cut
        assert tokens(stream) == whole[cut:]


def test_a_resumed_request_that_is_complete_ends_at_once(folder: Path) -> None:
    engine = load(folder)
    engine.add(request("r", PROMPTS[1], (1, 2), max_tokens=2))
    (delta,) = finish(engine)["r"]
    assert (delta.token_ids, delta.first_index, delta.finish_reason) == ((), 2, FinishReason.LENGTH)


def test_different_seeds_differ_and_no_seed_is_fresh(folder: Path) -> None:
    out = run(
        load(folder),
        *(request(f"seed{seed}", PROMPTS[2], max_tokens=12, temperature=2.0, seed=seed) for seed in range(4)),
        *(request(f"fresh{i}", PROMPTS[2], max_tokens=12, temperature=2.0) for i in range(4)),
    )
    assert len({tuple(ids) for ids in out.values()}) == 8


def test_stop_ids_end_a_request_unless_banned_by_min_tokens(folder: Path) -> None:
    plain = run(load(folder), request("r", PROMPTS[3], max_tokens=10, temperature=0.0))["r"]
    stop = frozenset({plain[0]})
    engine = load(folder)
    engine.add(request("stop", PROMPTS[3], max_tokens=10, temperature=0.0, stop_token_ids=stop))
    engine.add(request("later", PROMPTS[3], max_tokens=10, temperature=0.0, stop_token_ids=stop, min_tokens=4))
    streams = finish(engine)
    assert tokens(streams["stop"]) == plain[:1]
    assert streams["stop"][-1].finish_reason is FinishReason.STOP
    assert plain[0] not in tokens(streams["later"])[:4]


def test_output_ends_where_the_context_is_full(folder: Path) -> None:
    engine = load(folder, max_model_length=40)
    engine.add(request("r", PROMPTS[3], max_tokens=500))
    stream = finish(engine)["r"]
    assert len(PROMPTS[3]) + len(tokens(stream)) == 40
    assert stream[-1].finish_reason is FinishReason.LENGTH


def test_cancelled_requests_vanish(folder: Path) -> None:
    engine = load(folder)
    engine.add(request("r", PROMPTS[3], max_tokens=50))
    engine.step()
    engine.cancel("r")
    engine.cancel("unknown")
    assert not engine.has_work()
    assert engine.step() == []
    assert engine.stats().used_block_count == 0


@pytest.mark.parametrize(
    ("prompt", "sampling", "param"),
    [
        ((), {}, "prompt"),
        ((VOCAB_SIZE,), {}, "prompt"),
        ((-1,), {}, "prompt"),
        ((1,) * 512, {}, "prompt"),
        ((1,), {"temperature": 3.0}, "temperature"),
        ((1,), {"temperature": float("nan")}, "temperature"),
        ((1,), {"top_p": 0.0}, "top_p"),
        ((1,), {"top_k": 0}, "top_k"),
        ((1,), {"min_p": 1.1}, "min_p"),
        ((1,), {"logprob_count": 21}, "logprobs"),
        ((1,), {"logit_bias": {VOCAB_SIZE: 1.0}}, "logit_bias"),
        ((1,), {"max_tokens": -1}, "max_tokens"),
        ((1,) * 200, {"max_tokens": 300}, "max_tokens"),
    ],
)
def test_impossible_requests_are_refused(folder: Path, prompt: tuple[int, ...], sampling: dict, param: str) -> None:
    engine = load(folder, block_count=20)
    with pytest.raises(InvalidRequest) as caught:
        engine.add(request("r", prompt, **sampling))
    assert caught.value.param == param
    assert not engine.has_work()


@pytest.mark.parametrize(
    "settings",
    [
        {"block_size": 0},
        {"block_size": 24},
        {"device": "quantum"},
        {"precision": "int3"},
        {"max_step_token_count": 8},
        {"max_model_length": 513},
    ],
)
def test_bad_settings_are_refused(folder: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        load(folder, **settings)


@pytest.fixture(scope="module")
def broken(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoint whose embedding of token 13 is not a number."""
    copy = tmp_path_factory.mktemp("broken")
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    tensors = load_file(copy / "model.safetensors")
    tensors["model.embed_tokens.weight"][13] = float("nan")
    tensors["lm_head.weight"] = load_file(folder / "model.safetensors")["model.embed_tokens.weight"].clone()
    save_file(tensors, copy / "model.safetensors")
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}))
    return copy


@pytest.mark.parametrize("sampling", [{"temperature": 0.0}, {"temperature": 1.0, "top_p": 0.9}])
def test_broken_logits_fail_one_request_only(folder: Path, broken: Path, sampling: dict[str, Any]) -> None:
    prompt = [token_id for token_id in PROMPTS[4] if token_id != 13]
    expected = run(load(folder), request("good", prompt, max_tokens=8, seed=1, **sampling))["good"]
    engine = load(broken)
    engine.add(request("bad", (13, 14, 15), max_tokens=8, **sampling))
    engine.add(request("good", prompt, max_tokens=8, seed=1, **sampling))
    with pytest.raises(InternalError) as caught:
        engine.step()
    assert caught.value.details == {"request_id": "bad"}
    good = finish(engine)
    assert tokens(good["good"]) == expected
    assert "bad" not in good
    # The blocks that it had touched are as good as new.
    assert run(engine, request("good", prompt, max_tokens=8, seed=1, **sampling))["good"] == expected


def test_broken_prompt_scores_fail_too(broken: Path) -> None:
    engine = load(broken)
    engine.add(request("bad", (13, *PROMPTS[1]), max_tokens=0, prompt_logprob_count=0))
    with pytest.raises(InternalError):
        engine.step()
    assert not engine.has_work()


def test_two_threads_keep_rows_independent(folder: Path) -> None:
    try:
        engine = load(folder, thread_count=2, max_step_token_count=512)
        alone = run(engine, request("r", PROMPTS[4], max_tokens=6, temperature=0.0))["r"]
        engine = load(folder, thread_count=2, max_step_token_count=512, prefix_cache=False)
        crowd = [request(str(i), prompt, max_tokens=6, temperature=0.0) for i, prompt in enumerate(PROMPTS)]
        assert run(engine, *crowd)["4"] == alone
    finally:
        torch.set_num_threads(1)
