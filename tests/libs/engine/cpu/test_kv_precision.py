"""Keys and values in 16 and 8 bits: rounded as they are said to be, close to fp32, and the same bits in any batch."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.libs.engine.determinism.covering_array import cover_pairs
from tests.libs.engine.determinism.test_one_text import TINY_FACTORS, USUAL, alone, load, run_in_order, tiny_requests
from tests.libs.engine.engine_running import engine_config, finish, request, run
from tests.libs.engine.needed_kernels import needs_kernels
from tests.libs.engine.tiny_models import make_family, make_prompts
from torch import Tensor

from headrace.demo_model import CHECKPOINT
from headrace.engine.contract.request import TokenLogprob
from headrace.engine.kernels.kv_arena import KvShape
from headrace.engine.kernels.storage import Storage
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.errors.tree import ConfigError
from headrace.tokenizer.text.text_model import TextModel

pytestmark = needs_kernels

PRECISIONS = ("bfloat16", "int8", "fp8")
BLOCK_SIZE = 16
DTYPES = {
    Storage.F32: torch.float32,
    Storage.BF16: torch.bfloat16,
    Storage.S8: torch.int8,
    Storage.FP8: torch.uint8,
}
TEXT = (
    "Continuous batching adds new requests to the running batch at every step and removes finished ones at once. "
    "A KV cache holds the keys and values of all tokens, so that each of them is computed only once. "
    "Speculation guesses several tokens at once and lets the large model confirm them in one step. "
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    make_family(folder, "llama")
    return folder


def first_layer(folder: Path, precision: Any) -> tuple[KvShape, Tensor, int]:
    """Keys and values that the first layer keeps of a random text, which do not depend on how they are kept: their
    shape, bytes [blocks, layer], and the text's length."""
    (prompt,) = make_prompts((100,), seed=5)
    config = engine_config(kv_precision=precision, block_count=8, block_size=BLOCK_SIZE, thread_count=1)
    engine = load_text_engine(folder, config)
    run(engine, request("r", prompt, max_tokens=1))
    arena: Any = engine._runner._arena  # type: ignore[attr-defined]
    return arena.shape, torch.from_numpy(arena._memory[:, : arena.shape.layer_bytes].copy()), len(prompt)


def rows(shape: KvShape, layer: Tensor, length: int) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Keys and values [kv heads, tokens, head] as they lie in memory, and their scales [kv heads, tokens, 1]."""
    heads, size, width = shape.kv_head_count, shape.head_size, shape.number_bytes
    parts = layer.split([width, width, shape.scale_bytes, shape.scale_bytes], dim=1)
    keys, values = (part.contiguous().view(DTYPES[shape.storage]) for part in parts[:2])
    if shape.storage is Storage.S8:
        keys = keys.view(-1, heads, size // 2, BLOCK_SIZE, 2).transpose(2, 3)
        values = values.view(-1, heads, BLOCK_SIZE // 2, size, 2).transpose(3, 4)
    else:
        keys = keys.view(-1, heads, size, BLOCK_SIZE).transpose(2, 3)
    found = [each.reshape(-1, heads, BLOCK_SIZE, size) for each in (keys, values)]
    if shape.scale_bytes:
        found += [part.contiguous().view(torch.float32).view(-1, heads, BLOCK_SIZE, 1) for part in parts[2:]]
    in_order = [each.transpose(0, 1).flatten(1, 2)[:, :length] for each in found]
    return in_order[0], in_order[1], *(in_order[2:] or (None, None))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_element_is_rounded_as_torch_rounds(folder: Path, precision: Any) -> None:
    """int8: the nearest of 255 multiples of the scale. fp8: e4m3, the largest element of a head being 448."""
    exact = rows(*first_layer(folder, "float32"))[:2]
    *found, key_scales, value_scales = rows(*first_layer(folder, precision))
    for states, kept, scales in zip(exact, found, (key_scales, value_scales), strict=True):
        if scales is None:
            assert torch.equal(kept, states.bfloat16())
            continue
        most = states.abs().amax(dim=-1, keepdim=True)
        assert torch.equal(scales, most / (127 if precision == "int8" else 448))
        if precision == "int8":
            assert torch.equal(kept, (states / scales).round().to(torch.int8))
            assert ((kept * scales - states).abs() <= scales * 0.50001).all()
        else:
            numbers = kept.view(torch.float8_e4m3fn)
            assert torch.equal(kept, (states / scales).to(torch.float8_e4m3fn).view(torch.uint8))
            bound = (states.abs() / 16).maximum(scales * 2**-10) * 1.00001
            assert ((numbers.float() * scales - states).abs() <= bound).all()


@pytest.mark.parametrize(
    ("precision", "divergence", "agreement"), [("bfloat16", 1e-4, 0.99), ("int8", 1e-3, 0.98), ("fp8", 1e-2, 0.93)]
)
def test_the_bundled_model_hardly_notices(precision: Any, divergence: float, agreement: float) -> None:
    exact, rounded = scores("float32"), scores(precision)
    same = [a.top[0][0] == b.top[0][0] for a, b in zip(exact, rounded, strict=True)]
    assert sum(same) / len(same) >= agreement
    found = sum(_divergence(a, b) for a, b in zip(exact, rounded, strict=True)) / len(exact)
    assert 0 < found < divergence


def scores(precision: Any) -> list[TokenLogprob]:
    """Log-probabilities of every token of the text but the first: the 20 strongest."""
    engine = load_text_engine(CHECKPOINT, engine_config(kv_precision=precision, block_count=64, thread_count=1))
    prompt = TextModel("m", CHECKPOINT).encode(TEXT, True)
    engine.add(request("r", prompt, max_tokens=0, prompt_logprob_count=20))
    (delta,) = finish(engine)["r"]
    assert delta.prompt_logprobs is not None
    return [each for each in delta.prompt_logprobs if each is not None]


def _divergence(exact: TokenLogprob, rounded: TokenLogprob) -> float:
    """Kullback-Leibler divergence over the tokens that both know, and the rest as one more."""
    other = dict(rounded.top)
    common = [(value, other[token_id]) for token_id, value in exact.top if token_id in other]
    p, q = (torch.tensor(values, dtype=torch.float64).exp() for values in zip(*common, strict=True))
    p, q = (torch.cat([each, (1 - each.sum()).clamp(min=1e-9)[None]]) for each in (p, q))
    return float((p * (p / q).log()).sum())


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
def test_batch_chunks_cache_and_preemption_change_nothing(folder: Path, precision: Any) -> None:
    settings = {"kv_precision": precision}
    expected = alone(folder, "auto", tiny_requests(), settings)
    assert expected != alone(folder, "auto", tiny_requests())
    preemption_count = 0
    for row in cover_pairs(TINY_FACTORS, seed=1):
        engine = load(folder, "auto", row, settings)
        assert run_in_order(engine, tiny_requests(), str(row["order"])) == expected, row
        preemption_count += engine.stats().preemption_count
    assert preemption_count > 0


def test_auto_is_exact(folder: Path) -> None:
    found = [alone(folder, "auto", tiny_requests(), {"kv_precision": each}) for each in ("auto", "float32")]
    assert found[0] == found[1]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_models_that_the_kernels_cannot_run_refuse_with_the_reason(tmp_path: Path, precision: Any) -> None:
    make_family(tmp_path, "llama", head_dim=24)
    with pytest.raises(ConfigError, match=f"kv_precision is '{precision}'.*head size of 24 is not a multiple of 16"):
        load(tmp_path, "auto", USUAL, {"kv_precision": precision})


def test_torch_keeps_what_it_computes_with(folder: Path) -> None:
    load(folder, "torch", USUAL, {"kv_precision": "float32"})
    load(folder, "torch", USUAL, {"kv_precision": "bfloat16", "precision": "bfloat16"})
    with pytest.raises(ConfigError, match="the settings ask for torch"):
        load(folder, "torch", USUAL, {"kv_precision": "bfloat16"})
