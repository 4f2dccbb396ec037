"""Attention in integers, beyond the length at which sums of 32 bits would run over."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from tests.libs.engine.engine_running import engine_config, finish, request, run
from tests.libs.engine.needed_kernels import needs_kernels
from tests.libs.engine.tiny_models import make_family, make_prompts

from headrace.engine.contract.request import TokenLogprob
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.errors.tree import InternalError

pytestmark = needs_kernels

LENGTH = 1300
"""More than two of the parts that are summed in integers."""


def scores(folder: Path, prompt: Sequence[int], **settings: Any) -> list[TokenLogprob]:
    config = engine_config(kv_precision="int8", thread_count=1, block_count=LENGTH // 16 + 4, max_step_token_count=512)
    engine = load_text_engine(folder, config.model_copy(update=settings))
    engine.add(request("r", prompt, max_tokens=0, prompt_logprob_count=5))
    (delta,) = finish(engine)["r"]
    assert delta.prompt_logprobs is not None
    return [each for each in delta.prompt_logprobs if each is not None]


@pytest.mark.parametrize("block_size", [16, 32])
def test_a_mean_of_equal_values_is_that_value(tmp_path: Path, block_size: int) -> None:
    """All tokens are the same and all keys zero, so that every weight is the largest code, and some element of every
    value too: the sums are as large as they can be, and yet the context must change nothing."""
    make_family(tmp_path, "llama", max_position_embeddings=2048)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    for name in tensors:
        if "k_proj" in name:
            tensors[name].zero_()
    save_file(tensors, path, {"format": "pt"})
    first, *others = scores(tmp_path, [7] * LENGTH, block_size=block_size)
    for index, other in enumerate(others):
        assert other.logprob == pytest.approx(first.logprob, abs=2e-4), index


@pytest.mark.parametrize("window", [None, 40, 700])
def test_long_texts_are_scored_alike_in_any_chunks(tmp_path: Path, window: int | None) -> None:
    """Scores equal to the bit: parts that are summed in integers do not begin where a chunk or a window does."""
    make_family(tmp_path, "mistral", max_position_embeddings=2048, sliding_window=window)
    (prompt,) = make_prompts((LENGTH,))
    whole = scores(tmp_path, prompt)
    assert scores(tmp_path, prompt, max_step_token_count=16) == whole
    assert scores(tmp_path, prompt, max_step_token_count=208, block_size=32, block_count=LENGTH // 32 + 4) == whole


@pytest.mark.parametrize("window", [None, 700])
def test_long_texts_are_scored_as_with_exact_keys_and_values(tmp_path: Path, window: int | None) -> None:
    make_family(tmp_path, "mistral", max_position_embeddings=2048, sliding_window=window)
    (prompt,) = make_prompts((LENGTH,))
    exact = scores(tmp_path, prompt, kv_precision="float32")
    rounded = scores(tmp_path, prompt)
    differences = [abs(one.logprob - other.logprob) for one, other in zip(rounded, exact, strict=True)]
    assert 0 < max(differences) < 0.4
    assert sum(differences) / len(differences) < 0.04


def test_a_token_that_is_not_a_number_is_not_hidden(tmp_path: Path) -> None:
    """The query is a number, what it sees is not. Afterwards the blocks are as good as new."""
    make_family(tmp_path, "llama", tie_word_embeddings=False)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    tensors["model.embed_tokens.weight"][13] = float("nan")
    save_file(tensors, path, {"format": "pt"})
    engine = load_text_engine(tmp_path, engine_config(kv_precision="int8", thread_count=1, block_count=4))
    good = request("good", range(20, 60), max_tokens=4, temperature=0)
    expected = run(engine, good)
    engine.add(request("bad", (5, 13, *range(20, 50)), max_tokens=4, temperature=0))
    with pytest.raises(InternalError):
        finish(engine)
    assert run(engine, good) == expected
