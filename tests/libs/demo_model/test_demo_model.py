"""The bundled model: its files, its size, and whether it answers the questions that training never saw."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; to run it: make test")
transformers = pytest.importorskip("transformers", reason="transformers is not installed; to run it: make test")

from tools.demo_model.corpus import Corpus  # noqa: E402
from tools.demo_model.evaluate import Chat, after_long_talk, results_of  # noqa: E402

from headrace.demo_model import CHECKPOINT, DRAFT  # noqa: E402
from headrace.demo_model.topics import load_held_out, normalise  # noqa: E402

MEGABYTE = 1_000_000
OFF_TOPIC = (
    "What is the weather in Lima?",
    "Write a poem about rain",
    "What is the capital of Bulgaria?",
    "Who won the football match yesterday?",
    "How do I bake bread?",
    "What is 12 + 30?",
    "Write a function in Go that reverses a string",
    "Which political party is the best?",
)
EVERYDAY = {
    "What is continuous batching?": "batch",
    "How do I add a model?": "headrace up",
    "What does TTFT mean?": "first token",
    "what is the kv cache": "keys and values",
    "What happens if a worker dies?": "resubmits",
    "How do I stream the answer?": "stream",
    "Which ports does Headrace use?": "8000",
}


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


@pytest.fixture(scope="module")
def chat() -> Iterator[Chat]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Chat()
    torch.set_num_threads(threads)


def test_sizes_stay_within_their_limits() -> None:
    assert size_of(CHECKPOINT.parent) <= 12 * MEGABYTE
    assert size_of(CHECKPOINT) <= 11.5 * MEGABYTE
    assert size_of(DRAFT) <= 1.5 * MEGABYTE


def test_configuration_has_what_readers_need() -> None:
    config = json.loads((CHECKPOINT / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["num_key_value_heads"] < config["num_attention_heads"]
    assert config["max_position_embeddings"] == 2048
    assert config["torch_dtype"] == config["dtype"] == "bfloat16"
    assert config["rope_theta"] == config["rope_parameters"]["rope_theta"]
    generation = json.loads((CHECKPOINT / "generation_config.json").read_text())
    assert generation["eos_token_id"] == config["eos_token_id"]


def test_draft_has_the_same_tokenizer() -> None:
    assert (DRAFT / "tokenizer.json").read_bytes() == (CHECKPOINT / "tokenizer.json").read_bytes()
    draft, main = (json.loads((folder / "config.json").read_text()) for folder in (DRAFT, CHECKPOINT))
    assert draft["vocab_size"] == main["vocab_size"]
    assert draft["eos_token_id"] == main["eos_token_id"]


@pytest.mark.parametrize("text", ["plain text", "Grüße, 世界 🌍", "\x00\x01 \t\n", "  two  spaces", "naïve — “quotes”"])
def test_any_text_survives_the_tokenizer(chat: Chat, text: str) -> None:
    ids = chat.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert chat.tokenizer.decode(ids) == text


def test_chat_template_renders_all_roles_and_turns(chat: Chat) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "What is NATS? "},
    ]
    assert chat.render(messages) == (
        "<|bos|><|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nHello!<|im_end|>\n<|im_start|>user\nWhat is NATS?<|im_end|>\n<|im_start|>assistant\n"
    )
    ids = chat.tokenizer(chat.render(messages), add_special_tokens=False)["input_ids"]
    assert ids[0] == chat.tokenizer.bos_token_id
    assert ids.count(chat.tokenizer.eos_token_id) == 4


def test_training_never_sees_a_held_out_question() -> None:
    held_out = {normalise(item.question) for item in load_held_out()}
    examples = Corpus(seed=7, loose=True).examples()
    for _ in range(3000):
        for segment in next(examples):
            if segment.text.startswith("<|im_start|>user\n"):
                question = segment.text.removeprefix("<|im_start|>user\n").partition("<|im_end|>")[0]
                assert normalise(question) not in held_out


@pytest.mark.slow
def test_held_out_questions_are_answered_to_the_point(chat: Chat) -> None:
    results = results_of(chat, load_held_out())
    wrong = [f"{item.question!r} -> {answer!r}" for item, answer, right in results if not right]
    print("\n".join(wrong))
    assert len(results) >= 40
    assert len(wrong) <= 0.15 * len(results), "\n".join(wrong)


def test_everyday_questions_are_answered(chat: Chat) -> None:
    answers = chat.answer(list(EVERYDAY))
    assert {q: a for (q, part), a in zip(EVERYDAY.items(), answers, strict=True) if part not in a} == {}


def test_other_questions_get_a_plain_statement_of_what_it_is(chat: Chat) -> None:
    answers = chat.answer(list(OFF_TOPIC))
    plain = [answer for answer in answers if answer.startswith("I am headrace-demo")]
    assert len(plain) >= len(OFF_TOPIC) - 1, answers


@pytest.mark.slow
def test_a_long_conversation_stays_to_the_point(chat: Chat) -> None:
    tokens, right, asked = after_long_talk(chat, turns=8)
    assert tokens > 600
    assert right >= 0.7 * asked


def test_raw_prompts_are_continued(chat: Chat) -> None:
    speculation, cache = chat.complete(["<|bos|>Speculative decoding is", "<|bos|>The KV cache is"], limit=40)
    assert "draft model" in speculation
    assert "keys and values" in cache


def test_draft_is_a_model_that_transformers_loads(chat: Chat) -> None:
    (text,) = Chat(DRAFT).answer(["What is continuous batching?"])
    assert text
