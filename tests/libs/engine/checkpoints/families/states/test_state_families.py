"""Families with layers that keep a state: against transformers, and against themselves in other batches and chunks."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.libs.engine.checkpoints.families.oracles import (
    MAX_ERROR,
    VARIANTS,
    Oracles,
    check_against_transformers,
    finish_all,
    load,
    prompt_logits,
)
from tests.libs.engine.engine_running import finish, request, tokens, without_step_times
from tests.libs.engine.later_models import STATES
from tests.libs.engine.tiny_models import VOCAB_SIZE, make_family, make_prompts

from headrace.engine.batching.drafter import Drafts
from headrace.engine.batching.sequence import Sequence
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.contract.request import Delta, TokenLogprob
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.kv.block_exchange import exchange_of
from headrace.engine.loading import load_text_engine
from headrace.engine.speculation.speculator import Speculator
from headrace.errors import ConfigError, Unsupported

PROMPTS = make_prompts((3, 40, 150))
"""Shorter and longer than a block of 16 and a chunk of 64."""
TOLD_APART = ("lfm2", "qwen3_next", "mamba2")
"""Together, all code of states that the others share."""
BLOCKS = (*TOLD_APART, "qwen3_5", "granite_spaces_moe", "falcon_h1", "nemotron_h", "nemotron_h_moe", *VARIANTS)
"""Together, all blocks."""


def max_error(name: str) -> float:
    """Returns the largest error of logits that rounding explains. Gated delta rules lose digits: in transformers,
    float32 is 5e-5 from float64 after 150 tokens, more or less by the order in which a processor adds."""
    return 4e-4 if name.startswith("qwen3") else MAX_ERROR


@pytest.mark.parametrize("each_kernel", ["auto", "device"], indirect=True)
@pytest.mark.parametrize("name", [*STATES, *VARIANTS])
def test_families_with_states_equal_transformers(name: str, each_kernel: str, oracles: Oracles) -> None:
    oracle = oracles.family(name)
    check_against_transformers(load(oracle.folder), oracle, PROMPTS, max_error(name))


@pytest.mark.parametrize("name", [*STATES, *VARIANTS])
def test_parameters_are_counted_once(name: str, oracles: Oracles, caplog: pytest.LogCaptureFixture) -> None:
    oracle = oracles.family(name)
    with caplog.at_level("INFO"):
        engine = load(oracle.folder)
    assert any("which the fused kernels do not compute" in getattr(each, "reason", "") for each in caplog.records)
    counted = sum(each.numel() for key, each in oracle.model.named_parameters() if "visual" not in key)
    # The biases of routers are no parameters there.
    biases = ("expert_bias", "correction_bias")
    fixed = sum(each.numel() for key, each in oracle.model.named_buffers() if key.endswith(biases))
    assert engine.spec.parameter_count == counted + fixed


@pytest.mark.parametrize("name", ["nemotron_h_moe", "nemotron_h_latent"])
def test_a_token_costs_what_its_own_experts_compute(name: str, oracles: Oracles) -> None:
    oracle = oracles.family(name)
    states = read_model_config(oracle.folder).blocks.states
    assert states is not None
    spec = load(oracle.folder).spec
    parameters = dict(oracle.model.named_parameters())
    table = parameters["model.embeddings.weight"].numel()
    idle = sum(each.numel() for key, each in parameters.items() if ".experts." in key) * 4 // 6
    assert spec.cost.token_operations == 2 * (spec.parameter_count - table - idle) + 6 * states.number_count


@pytest.mark.parametrize(
    ("name", "each_kernel"), [(name, "rows") for name in (*TOLD_APART, *VARIANTS)], indirect=["each_kernel"]
)
def test_row_by_row_gives_the_same(name: str, each_kernel: str, oracles: Oracles) -> None:
    oracle = oracles.family(name)
    check_against_transformers(load(oracle.folder), oracle, PROMPTS[:2], max_error(name))


@pytest.mark.parametrize("name", BLOCKS)
def test_batch_chunks_cache_and_preemption_change_nothing(name: str, oracles: Oracles) -> None:
    """Log-probabilities, not only tokens, are equal to the last bit."""
    folder = oracles.family(name).folder
    prompts = (*PROMPTS, PROMPTS[2] + PROMPTS[0], PROMPTS[2][:64] + PROMPTS[0], PROMPTS[2][:48])
    sampling: dict[str, Any] = {"max_tokens": 10, "temperature": 0.0, "logprob_count": 2}
    requests = [request(str(index), prompt, **sampling) for index, prompt in enumerate(prompts)]
    expected: dict[str, Any] = {}
    engine = load(folder, prefix_cache=False, max_step_token_count=512)
    for each in requests:
        expected |= finish_all(engine, [each])
    for settings in ({"max_step_token_count": 512}, {"max_step_token_count": 16}, {"block_count": 14}):
        engine = load(folder, **settings)
        for round_ in range(2):  # the second round hits the prefix cache
            random.Random(round_).shuffle(requests)
            streams = finish_all(engine, requests)
            for each in requests:
                found, wanted = streams[each.request_id], expected[each.request_id]
                assert tokens(found) == tokens(wanted), (settings, round_)
                assert [d.logprobs for d in found] == [d.logprobs for d in wanted], (settings, round_)
        assert engine.stats().prefix_hit_token_count > 0
        assert engine.stats().preemption_count > 0 or "block_count" not in settings


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"adapters": {"polite": Path("absent")}}, "adapters"),
        ({"cuda_graphs": "on"}, "cuda_graphs"),
        ({"kv_cache_bytes": 3 * 2 * 64 * 4 * 3}, "kv_cache_bytes"),
    ],
)
def test_settings_that_do_not_fit_are_refused_by_name(settings: dict[str, Any], param: str, tmp_path: Path) -> None:
    make_family(tmp_path, "lfm2")
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, **settings)
    assert refused.value.param == param


def test_a_draft_model_with_states_is_refused(tmp_path: Path) -> None:
    plain, stateful = tmp_path / "plain", tmp_path / "stateful"
    make_family(plain, "qwen3")
    make_family(stateful, "lfm2")
    with pytest.raises(ConfigError, match="keeps a state in some layers"):
        load(plain, draft_folder=stateful, speculation="on")


def test_groups_of_processes_are_refused(tmp_path: Path) -> None:
    make_family(tmp_path, "lfm2")
    with pytest.raises(Unsupported, match="set the parallel counts to 1"):
        load(tmp_path, pipeline_parallel_count=2)


class Foreseeing(Speculator):
    """Drafts a few of the tokens that will follow, of which some are changed."""

    def __init__(self, texts: dict[str, list[int]]) -> None:
        super().__init__()
        self.texts = texts
        self.chance = random.Random(3)

    def may_pay(self, row_count: int, decode_count: int) -> bool:
        return True

    def may_draft(self, sequence: Sequence) -> bool:
        return self.chance.random() < 0.8

    def propose(self, limits: Mapping[Sequence, int]) -> Drafts:
        return {sequence: self._drafted(sequence, limit) for sequence, limit in limits.items()}

    def observe(self, sequence: Sequence, accepted_count: int) -> None:
        assert accepted_count >= 0

    def _drafted(self, sequence: Sequence, limit: int) -> tuple[int, ...]:
        following = self.texts[sequence.request_id][sequence.output_count :][: self.chance.randint(0, limit)]
        return tuple(token if self.chance.random() < 0.7 else (token + 1) % VOCAB_SIZE for token in following)


@pytest.mark.parametrize("name", BLOCKS)
def test_draft_tokens_change_nothing(name: str, oracles: Oracles, monkeypatch: pytest.MonkeyPatch) -> None:
    """With drafts that are right, wrong and partly right, where texts are alone, in a batch and interrupted."""
    folder = oracles.family(name).folder
    ways: list[dict[str, Any]] = [{"temperature": 0.0}, {"temperature": 0.9, "seed": 5}]
    requests = [
        request(f"{number}-{way}", prompt, max_tokens=28, logprob_count=1, **sampling)
        for number, prompt in enumerate(PROMPTS)
        for way, sampling in enumerate(ways)
    ]
    expected = finish_all(load(folder, prefix_cache=False), requests)
    drafter = Foreseeing({key: tokens(stream) for key, stream in expected.items()})
    monkeypatch.setattr(load_text_engine, "load_speculator", lambda *_: drafter)
    cases: tuple[dict[str, Any], ...] = ({}, {"block_count": 12}, {"prefix_cache": False, "max_running_count": 1})
    for settings in cases:
        engine = load(folder, speculation="on", **settings)
        for _ in range(2):
            streams = finish_all(engine, requests)
            for key, wanted in expected.items():
                assert tokens(streams[key]) == tokens(wanted), settings
                assert logprobs(streams[key]) == logprobs(wanted), settings
        stats = engine.stats()
        assert 100 < stats.accepted_token_count < stats.draft_token_count
        assert stats.preemption_count > 0 or "block_count" not in settings


def logprobs(stream: list[Delta]) -> list[TokenLogprob]:
    return [logprob for delta in stream for logprob in delta.logprobs]


def test_a_draft_model_drafts_for_a_model_with_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_step_times(monkeypatch)
    plain, stateful = tmp_path / "plain", tmp_path / "stateful"
    vocabulary = json.dumps({"model": {"vocab": {str(number): number for number in range(VOCAB_SIZE)}}})
    for folder, family in ((plain, "qwen3"), (stateful, "lfm2")):
        make_family(folder, family)
        (folder / "tokenizer.json").write_text(vocabulary)
    requests = [request(str(number), prompt, max_tokens=40, seed=number) for number, prompt in enumerate(PROMPTS)]
    expected = finish_all(load(stateful), requests)
    engine = load(stateful, speculation="on", draft_folder=plain)
    streams = finish_all(engine, requests)
    assert {key: tokens(each) for key, each in streams.items()} == {key: tokens(e) for key, e in expected.items()}
    assert engine.stats().draft_token_count > 0


@pytest.mark.parametrize("name", TOLD_APART)
def test_memory_of_states_is_bounded_and_counted(name: str, tmp_path: Path) -> None:
    make_family(tmp_path, name)
    states = read_model_config(tmp_path).blocks.states
    assert states is not None
    engine = load(tmp_path, max_running_count=4, state_snapshot_count=3)
    assert engine.spec.snapshot_count == 3
    # One slot more takes the states of trial steps.
    assert engine.spec.memory.state_bytes == (4 + 3 + 1) * states.number_count * 4
    room = 40 * states.number_count * 4
    bounded = load(tmp_path, kv_cache_bytes=room, block_count=0)
    assert (bounded.spec.max_running_count, bounded.spec.snapshot_count) == (19, 10)
    assert bounded.spec.memory.state_bytes + bounded.spec.memory.kv_bytes <= room
    assert bounded.spec.cost.state_bytes == 4 * states.number_count
    assert load(tmp_path, prefix_cache=False).spec.snapshot_count == 0


def snapshots_of(engine: TextEngine) -> Any:
    """The pool of slots of an engine."""
    states = engine._batcher._blocks._states
    assert states is not None
    return states._pool


@pytest.mark.parametrize("name", TOLD_APART)
def test_a_lost_snapshot_shortens_the_match_and_changes_no_token(name: str, tmp_path: Path) -> None:
    make_family(tmp_path, name)
    long, other = (*PROMPTS[2], *PROMPTS[2]), PROMPTS[1]
    fresh = load(tmp_path, prefix_cache=False)
    wanted = tokens(finish_all(fresh, [request("0", long, max_tokens=8, temperature=0.0)])["0"])
    engine = load(tmp_path, state_snapshot_count=4)

    def ask() -> int | None:
        stream = finish_all(engine, [request("0", long, max_tokens=8, temperature=0.0)])["0"]
        assert tokens(stream) == wanted
        return stream[0].cached_token_count

    assert (ask(), ask()) == (0, 288)
    pool = snapshots_of(engine)
    (last,) = pool._used
    pool.forget(last)
    assert ask() == 256
    assert ask() == 288
    for start in range(8):  # others push all snapshots out
        finish_all(engine, [request("1", other[start:], max_tokens=1, temperature=0.0)])
    assert ask() == 0
    assert pool.snapshot_count <= 4


@pytest.mark.parametrize("name", TOLD_APART)
def test_where_texts_part_the_third_one_begins_behind_the_shared_part(name: str, tmp_path: Path) -> None:
    make_family(tmp_path, name)
    engine = load(tmp_path, max_step_token_count=512)
    shared = PROMPTS[2][:64]
    found = []
    for number in range(3):
        prompt = (*shared, *([number] * 40))
        stream = finish_all(engine, [request("0", prompt, max_tokens=4, temperature=0.0)])["0"]
        found.append(stream[0].cached_token_count)
        alone = load(tmp_path, prefix_cache=False)
        again = finish_all(alone, [request("0", prompt, max_tokens=4, temperature=0.0)])["0"]
        assert tokens(again) == tokens(stream)
    assert found == [0, 0, 64]


@pytest.mark.parametrize("name", TOLD_APART)
def test_a_chat_continues_behind_its_last_answer(name: str, tmp_path: Path) -> None:
    make_family(tmp_path, name)
    engine = load(tmp_path)
    first = finish_all(engine, [request("0", PROMPTS[1], max_tokens=60, temperature=0.0)])["0"]
    followed = (*PROMPTS[1], *tokens(first), 5, 6, 7)
    stream = finish_all(engine, [request("0", followed, max_tokens=8, temperature=0.0)])["0"]
    assert stream[0].cached_token_count == 96
    fresh = load(tmp_path, prefix_cache=False)
    again = finish_all(fresh, [request("0", followed, max_tokens=8, temperature=0.0)])["0"]
    assert tokens(again) == tokens(stream)


@pytest.mark.parametrize("name", TOLD_APART)
def test_sleep_and_eviction_of_a_long_context_leave_tokens_equal(name: str, tmp_path: Path) -> None:
    make_family(tmp_path, name)
    settings: dict[str, Any] = {"max_model_length": 64, "long_context": "evict"}
    asked = request("0", PROMPTS[1], max_tokens=70, temperature=0.0)
    wanted = tokens(finish_all(load(tmp_path, prefix_cache=False, **settings), [asked])["0"])
    engine = load(tmp_path, max_step_token_count=16, **settings)
    engine.add(asked)
    found = [delta for _ in range(20) for delta in engine.step()]
    engine.sleep()
    engine.wake()
    found += finish(engine)["0"]
    assert len(wanted) == 70
    assert tokens(found) == wanted


@pytest.mark.parametrize("name", ["lfm2", "qwen3_5", "falcon_h1"])
def test_bfloat16_is_within_its_rounding(name: str, tmp_path: Path) -> None:
    """No further from fp32 than twice what transformers in bfloat16 is."""
    model = make_family(tmp_path, name, initializer_range=0.05)
    found = prompt_logits(load(tmp_path, precision="bfloat16", kernels="torch"), PROMPTS[2])
    with torch.inference_mode():
        exact = model(torch.tensor([PROMPTS[2]])).logits[0, :-1]
        rounded = model.bfloat16()(torch.tensor([PROMPTS[2]])).logits[0, :-1].float()
    assert (found - exact).abs().mean() <= 2 * (rounded - exact).abs().mean()


def test_blocks_are_not_copied_to_other_engines(tmp_path: Path) -> None:
    """A block alone does not say what follows: another engine computes the prompt instead."""
    make_family(tmp_path, "lfm2")
    assert exchange_of(load(tmp_path)) is None


def test_experts_of_a_layer_may_lie_in_one_tensor(tmp_path: Path) -> None:
    """As the published models of Qwen3.5 have them; transformers saves each expert's apart."""
    make_family(tmp_path, "qwen3_5_moe_multimodal")
    apart = prompt_logits(load(tmp_path), PROMPTS[1])
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    for layer in range(4):
        block = f"model.language_model.layers.{layer}.mlp.experts"
        taken = {
            kind: [tensors.pop(f"{block}.{number}.{kind}_proj.weight") for number in range(6)]
            for kind in ("gate", "up", "down")
        }
        pairs = zip(taken["gate"], taken["up"], strict=True)
        tensors[f"{block}.gate_up_proj"] = torch.stack([torch.cat(pair) for pair in pairs])
        tensors[f"{block}.down_proj"] = torch.stack(taken["down"])
    save_file(tensors, file)
    assert torch.equal(prompt_logits(load(tmp_path), PROMPTS[1]), apart)
