"""Models whose keys have a few large elements, with keys in 8 bits: what factors gain, and where there are none."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from safetensors.torch import load_file, save_file
from tests.libs.engine.checkpoints.families.oracles import prompt_logits
from tests.libs.engine.engine_running import engine_config, request, run
from tests.libs.engine.gguf_files import convert
from tests.libs.engine.kv import test_cached_blocks as cached
from tests.libs.engine.needed_kernels import needs_kernels
from tests.libs.engine.tiny_models import make_family, make_prompts
from torch import Tensor

from headrace.engine.cpu.weights import packed_cache
from headrace.engine.kernels.choice.kernel_choice import KernelChoice
from headrace.engine.kernels.library import available
from headrace.engine.loading.load_text_engine import load_text_engine

pytestmark = needs_kernels

HEAD, LENGTH = 64, 601
SHAPE: dict[str, Any] = {
    "head_dim": HEAD,
    "hidden_size": 128,
    "intermediate_size": 192,
    "initializer_range": 0.1,
    "max_position_embeddings": 1024,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
}
(PROMPT,) = make_prompts((LENGTH,))
Edit = Callable[[str, Tensor], Tensor]


def biased(pair_count: int) -> Edit:
    """Gives each KV head some pairs of large biases, as Qwen 2 has: 30 to 100 times the deviation of its keys. They
    are of the pairs that hardly rotate, so that they add to all scores alike."""
    generator = torch.Generator().manual_seed(7)

    def edit(name: str, tensor: Tensor) -> Tensor:
        if "k_proj.bias" in name:
            sizes = torch.empty(2, len(tensor) // HEAD, 2, pair_count).uniform_(30, 100, generator=generator)[0]
            signs = torch.randint(0, 2, sizes.shape, generator=generator) * 2 - 1
            half = HEAD // 2
            tensor.view(-1, 2, half)[:, :, half - pair_count :] = sizes * signs * SHAPE["initializer_range"] * 128**0.5
        return tensor

    return edit


def unevenly_normed(name: str, tensor: Tensor) -> Tensor:
    """Gives norms of keys weights that differ, as Qwen 3 has, and norms of queries the opposite, in part."""
    if "k_norm" not in name and "q_norm" not in name:
        return tensor
    logs = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(3))
    return torch.exp(logs if "k_norm" in name else -0.5 * logs)


MODELS: dict[str, tuple[str, Edit]] = {
    "qwen2, one pair": ("qwen2", biased(1)),
    "qwen2, two pairs": ("qwen2", biased(2)),
    "qwen3": ("qwen3", unevenly_normed),
}


def make(folder: Path, name: str) -> None:
    family, edit = MODELS[name]
    make_family(folder, family, **SHAPE)
    path = folder / "model.safetensors"
    save_file({key: edit(key, each).contiguous() for key, each in load_file(path).items()}, path, {"format": "pt"})


def load(source: Path, **settings: Any) -> Any:
    usual = {"kv_precision": "int8", "max_step_token_count": 256, "block_count": LENGTH // 16 + 4, "thread_count": 1}
    return load_text_engine(source, engine_config(**(usual | settings)))


def layers(engine: Any) -> Any:
    return engine._runner._decoder._layers


def log_probabilities(engine: Any) -> Tensor:
    return prompt_logits(engine, PROMPT).double().log_softmax(dim=1)


def without_factors(source: Path) -> Tensor:
    engine = load(source)
    for layer in layers(engine):
        assert layer.key_factors
        layer.key_factors = None
    return log_probabilities(engine)


def divergence(exact: Tensor, found: Tensor) -> float:
    """Kullback-Leibler divergence, the mean over all positions."""
    return float((exact.exp() * (exact - found)).sum(dim=1).mean())


def agreement(exact: Tensor, found: Tensor) -> float:
    return float((exact.argmax(dim=1) == found.argmax(dim=1)).double().mean())


@pytest.mark.parametrize(
    ("name", "gain", "agreeing"), [("qwen2, one pair", 10, 0.93), ("qwen2, two pairs", 8, 0.88), ("qwen3", 2.5, 0.93)]
)
def test_large_elements_cost_the_others_little(name: str, gain: float, agreeing: float, tmp_path: Path) -> None:
    make(tmp_path, name)
    exact = log_probabilities(load(tmp_path, kv_precision="float32"))
    found, before = log_probabilities(load(tmp_path)), without_factors(tmp_path)
    assert len(exact) >= 500
    assert divergence(exact, found) * gain < divergence(exact, before)
    assert (found - exact).abs().mean() * gain**0.5 < (before - exact).abs().mean()
    assert agreement(exact, found) > max(agreeing, agreement(exact, before))


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "fp8"])
def test_numbers_with_exponents_of_their_own_need_no_factors(precision: str, tmp_path: Path) -> None:
    make(tmp_path, "qwen2, one pair")
    assert not any(layer.key_factors for layer in layers(load(tmp_path, kv_precision=precision)))


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3", "phi3", "gemma2", "gemma3", "mixtral"])
def test_models_with_even_keys_have_no_factors(family: str, tmp_path: Path) -> None:
    make_family(tmp_path, family, **{key: SHAPE[key] for key in ("head_dim", "hidden_size", "initializer_range")})
    assert not any(layer.key_factors for layer in layers(load(tmp_path, block_count=34)))


def test_every_format_of_the_weights_has_the_same_factors(tmp_path: Path) -> None:
    """Quantized weights are not the same, but sizes of their rows are nearly so, and biases are stored as they are."""
    make(tmp_path, "qwen2, two pairs")
    blocks = convert(tmp_path, tmp_path / "model.gguf", Kind.Q8_0)
    numbers = convert(tmp_path, tmp_path / "numbers.gguf")
    engines = [load(tmp_path), load(tmp_path, precision="int4"), load(blocks), load(numbers)]
    found = [engine._runner._decoder._weights.vectors for engine in engines]
    for index in range(3):
        first, *others = (each[f"{index}.key_factors"] for each in found)
        assert first.max() >= 16
        assert all((first == other).all() for other in others)


def test_every_instruction_set_gives_the_same_bits(tmp_path: Path) -> None:
    make(tmp_path, "qwen2, two pairs")
    found = []
    for instructions in available():
        engine = load(tmp_path)
        engine._runner._kernels = KernelChoice(((1, instructions),))
        found.append(prompt_logits(engine, PROMPT))
    assert len(found) > 1
    assert all(torch.equal(each, found[0]) for each in found)


def test_a_second_start_takes_the_packed_factors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_cache, "MIN_BYTES", 0)
    folder, settings = tmp_path / "model", {"packed_folder": tmp_path / "packed"}
    make(folder, "qwen3")
    first = prompt_logits(load(folder, **settings), PROMPT)
    monkeypatch.setattr("headrace.engine.cpu.load._read_weights", lambda *_, **__: pytest.fail("it was packed again"))
    second = load(folder, **settings)
    assert all(layer.key_factors for layer in layers(second))
    assert torch.equal(prompt_logits(second, PROMPT), first)


def test_blocks_mean_the_same_to_another_worker(tmp_path: Path) -> None:
    """Both ends derive the factors from the same weights, so that keys as stored need nothing beside them."""
    make(tmp_path, "qwen2, one pair")
    source, target = (load(tmp_path, prefix_cache=True) for _ in range(2))
    asked = request("r", cached.PROMPT, max_tokens=20, temperature=0, ignore_eos=True)
    expected = run(load(tmp_path), asked)
    run(source, request("r", cached.PROMPT, max_tokens=0))
    assert cached.exchange(source).layout == cached.exchange(target).layout
    cached.move(source, target, len(cached.HASHES))
    assert run(target, asked) == expected
    assert target.stats().prefix_hit_token_count >= len(cached.HASHES) * cached.BLOCK_SIZE
