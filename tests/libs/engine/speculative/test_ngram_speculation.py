"""Guessing changes how many tokens a step confirms, and nothing else: the tokens are those without it, bit for bit."""

import pytest
from engine_running import finish, request, run, tokens

from headrace.demo_model import CHECKPOINT
from headrace.engine.batcher import MAX_SPECULATING
from headrace.engine.engine_config import EngineConfig
from headrace.engine.speculative.ngram_drafter import NgramDrafter
from headrace.engine.torch_engine import TorchEngine
from headrace.tokenizer.text_model import TextModel

MODEL = TextModel("m", CHECKPOINT)
QUESTION = {"role": "user", "content": "What is continuous batching?"}
ANSWER = {
    "role": "assistant",
    "content": "Continuous batching adds new requests to the running batch at every step and removes finished ones at "
    "once. No request waits for the longest one in its batch, so the accelerator stays busy and throughput rises "
    "while latency stays low.",
}
CHAT = MODEL.encode(MODEL.render([QUESTION], True), False)
COPY = MODEL.encode(MODEL.render([QUESTION, ANSWER, QUESTION], True), False)
PROMPTS = {"copy": COPY, "chat": CHAT, "both": CHAT + COPY}


def engine(speculation: str, **config: object) -> TorchEngine:
    fields = {"block_count": 256, "max_running_count": 8, "speculation": speculation} | config
    return TorchEngine.load(CHECKPOINT, EngineConfig(**fields))  # type: ignore[arg-type]


def generate(speculation: str, name: str, count: int = 80, **sampling: object) -> list[int]:
    fields = {"max_tokens": count, "temperature": 0, "ignore_eos": True} | sampling
    made = engine(speculation)
    found = run(made, request("r", PROMPTS[name], **fields))["r"]
    made.close()
    return found


@pytest.mark.parametrize("name", PROMPTS)
@pytest.mark.parametrize(
    "sampling",
    [
        {},
        {"temperature": 0.8, "seed": 7},
        {"temperature": 1.5, "seed": 3, "top_p": 0.9, "top_k": 40},
        {"frequency_penalty": 0.5, "repetition_penalty": 1.1},
        {"min_tokens": 40, "ignore_eos": False},
        {"logit_bias": {100: 3.0}},
    ],
)
def test_the_tokens_are_those_without_guesses(name: str, sampling: dict[str, object]) -> None:
    assert generate("ngram", name, **sampling) == generate("off", name, **sampling)


def test_copying_takes_fewer_steps() -> None:
    fields = {"max_tokens": 80, "temperature": 0, "ignore_eos": True}
    steps = {}
    for speculation in ("off", "ngram"):
        made = engine(speculation)
        run(made, request("r", COPY, **fields))
        stats = made.stats()
        steps[speculation] = stats.step_count
        if speculation == "ngram":
            assert stats.accepted_token_count > 20
            assert stats.accepted_token_count <= stats.draft_token_count
        else:
            assert stats.draft_token_count == 0
        made.close()
    assert steps["ngram"] < 0.7 * steps["off"]


def test_stop_ids_among_the_guesses_end_the_sequence_there() -> None:
    plain = generate("off", "copy")
    stop = plain[30]
    cut = plain[: plain.index(stop) + 1]
    assert generate("ngram", "copy", stop_token_ids=frozenset({stop})) == cut


@pytest.mark.parametrize("count", [1, 2, 3, 5, 17])
def test_max_tokens_is_never_exceeded(count: int) -> None:
    assert generate("ngram", "copy", count) == generate("off", "copy", 80)[:count]


def test_company_preemption_and_small_chunks_change_nothing() -> None:
    """Up to the number of sequences with which guesses are made, and beyond; with blocks for half of them."""
    alone = {name: generate("off", name, 60) for name in PROMPTS}
    made = engine("ngram", block_count=40, max_step_token_count=48)
    requests = [
        request(f"{name}-{copy}", PROMPTS[name], max_tokens=60, temperature=0, ignore_eos=True)
        for copy in range(3)
        for name in PROMPTS
    ]
    assert len(requests) > MAX_SPECULATING
    found = run(made, *requests)
    assert made.stats().preemption_count > 0
    made.close()
    for request_id, generated in found.items():
        assert generated == alone[request_id.split("-")[0]], request_id


def test_resuming_in_the_middle_goes_on_as_before() -> None:
    plain = generate("off", "copy", 60)
    for cut in (1, 7, 31, 59):
        made = engine("ngram")
        fields = {"max_tokens": 60, "temperature": 0, "ignore_eos": True}
        made.add(request("r", COPY, tuple(plain[:cut]), **fields))
        assert plain[:cut] + tokens(finish(made)["r"]) == plain
        made.close()


def test_requests_with_logprobs_do_without_guesses() -> None:
    made = engine("ngram")
    made.add(request("r", COPY, max_tokens=20, temperature=0, logprob_count=2))
    stream = finish(made)["r"]
    assert all(len(delta.logprobs) == len(delta.token_ids) for delta in stream)
    assert made.stats().draft_token_count == 0
    made.close()


def test_the_drafter_repeats_what_followed_last_time() -> None:
    drafter = NgramDrafter()
    text = [1, 2, 3, 4, 5, 1, 2, 3]
    assert drafter.propose(text, 8) == (4, 5, 1)
    assert drafter.propose(text, 1) == (4,)
    assert drafter.propose([*text, 9], 8) == ()
    assert drafter.propose([*text, 9, 1, 2, 3], 2) == (9, 1)


def test_the_drafter_stops_when_it_is_wrong_and_tries_again_later() -> None:
    drafter = NgramDrafter()
    text = [1, 2, 3] * 3
    for _ in range(10):
        drafter.observe(len(text), 3, 0)
    assert drafter.propose(text, 8) == ()
    assert drafter.propose([1, 2, 3] * 20, 8) != ()
