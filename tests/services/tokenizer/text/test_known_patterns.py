"""Expressions of tokenizers that run within the service itself."""

import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from headrace.gguf_text.pre_tokenizers import PRE_TOKENIZERS
from headrace.tokenizer.text.known_patterns import has_known_patterns


def splitting_by(*patterns: str) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    steps = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    return tokenizer


@pytest.mark.parametrize("name", ["llama-bpe", "qwen2", "qwen35", "gpt-4o", "tekken", "seed-coder", "kimi-k2"])
def test_expressions_of_widespread_models_are_known(name: str) -> None:
    assert has_known_patterns(splitting_by(*PRE_TOKENIZERS[name].patterns))


def test_one_unknown_expression_is_enough() -> None:
    assert not has_known_patterns(splitting_by(*PRE_TOKENIZERS["qwen35"].patterns, r"(a+)+$"))
