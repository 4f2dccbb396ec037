"""Pools of questions, mixed of everything that the API can do. All are greedy or seeded, so each has one answer."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.faults.asking import Question

MODEL = "headrace-demo"
VOCABULARY = range(300, 2000)
TEXTS = [
    "What is continuous batching?",
    "How do I add a model?",
    "What does TTFT mean?",
    "Why are tokens numbered?",
    "What is a KV cache?",
    "How is a worker chosen?",
]
COUNTS = {
    "type": "object",
    "properties": {
        "counts": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "minItems": 30}
    },
    "required": ["counts"],
    "additionalProperties": False,
}
GRAMMAR = {"type": "json_schema", "json_schema": {"name": "counts", "schema": COUNTS}}
SAMPLED = {"temperature": 0.9, "top_p": 0.95}

Maker = Callable[[random.Random], Question]


def completion(name: str, chance: random.Random, prompt_tokens: int, output_tokens: int, **fields: Any) -> Question:
    """A completion of random tokens, of a fixed length unless stopped."""
    body = {
        "model": MODEL,
        "prompt": [chance.choice(VOCABULARY) for _ in range(prompt_tokens)],
        "max_tokens": output_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "return_token_ids": True,
    }
    return Question(name, "/v1/completions", body | fields)


def chat(name: str, chance: random.Random, output_tokens: int, **fields: Any) -> Question:
    """A chat with its text, which the tokenizer has to encode."""
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": chance.choice(TEXTS)}],
        "max_tokens": output_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "return_token_ids": True,
    }
    return Question(name, "/v1/chat/completions", body | fields)


def stream(chance: random.Random) -> Question:
    return completion("stream", chance, chance.randint(8, 60), chance.randint(30, 140), stream=True)


def unary(chance: random.Random) -> Question:
    return completion("unary", chance, chance.randint(8, 40), chance.randint(3, 60))


def several(chance: random.Random) -> Question:
    seeded = SAMPLED | {"seed": chance.randrange(1 << 30)}
    return completion("n", chance, 20, chance.randint(10, 60), n=3, stream=chance.random() < 0.7, **seeded)


def seeded(chance: random.Random) -> Question:
    return chat("seeded", chance, chance.randint(30, 100), stream=True, seed=chance.randrange(1 << 30), **SAMPLED)


def stopped(chance: random.Random) -> Question:
    return completion("stop", chance, 16, 100, stream=chance.random() < 0.5, stop=[chance.choice("aeiou") + "n", "ra"])


def scored(chance: random.Random) -> Question:
    return completion("logprobs", chance, 12, chance.randint(20, 60), stream=True, logprobs=2)


def structured(chance: random.Random) -> Question:
    fields = SAMPLED | {"seed": chance.randrange(1 << 30), "ignore_eos": False}
    return chat("structured", chance, 400, stream=chance.random() < 0.7, response_format=GRAMMAR, **fields)


def embedding(chance: random.Random) -> Question:
    inputs = [[101, *(chance.randrange(1000, 30000) for _ in range(30)), 102] for _ in range(chance.randint(1, 6))]
    return Question("embedding", "/v1/embeddings", {"model": "minilm", "input": inputs})


def long_prompt(chance: random.Random) -> Question:
    return completion("prefill", chance, chance.randint(800, 1500), chance.randint(2, 8), stream=True)


def short_output(chance: random.Random) -> Question:
    return completion("flush", chance, 8, chance.randint(1, 3), stream=True)


def remembered(chance: random.Random) -> Question:
    return replace(unary(chance), remembered=True)


TEXT: list[Maker] = [stream, stream, stream, unary, several, seeded, stopped, scored]
"""Kinds that an engine without a model can answer too."""
EVERYTHING: list[Maker] = [*TEXT, structured, embedding]
POOLS: dict[str, list[Maker]] = {
    "prefill": [long_prompt],
    "flush": [short_output],
    "decode": [stream],
    "remembered": [remembered],
}
"""Pools in which most requests are in one stage most of the time."""
PROBES = (
    completion("probe", random.Random(0), 4, 2),
    chat("probe", random.Random(0), 2),
)
"""New requests that take no time. The second is text, which the tokenizer has to encode."""


def pool(makers: list[Maker], seed: int, count: int) -> list[Question]:
    """A list of `count` questions: the kinds in turn, their sizes drawn with `seed`."""
    chance = random.Random(seed)
    return [makers[index % len(makers)](chance) for index in range(count)]
