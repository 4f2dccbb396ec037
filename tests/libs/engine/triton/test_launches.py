"""Launches of a step of decodes: eight for each layer, and nothing of torch between them."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.libs.engine.engine_running import engine_config, request, run
from tests.libs.engine.tiny_models import make_prompts
from tests.libs.engine.triton.tiny_quantized import quantize_tiny
from triton.runtime.interpreter import GridExecutor

from headrace.engine.gpu.graphs.host_capture import HostCapture
from headrace.engine.gpu.graphs.step_capture import Computation
from headrace.engine.gpu.layers.fused_layers import FusedLayers
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.triton.products import quantized_product
from headrace.engine.triton.products.tile_choice import USUAL, TileChoice

LAYERS = (2, 5)
LAUNCHES = {
    "quantized_matmul_kernel": 4,
    "rotary_store_kernel": 1,
    "decode_attention_kernel": 1,
    "residual_norm_kernel": 2,
}
MAX_ALLOCATIONS = 13
"""Tensors that a layer makes: results of launches, and splits of products and of attention."""


@contextmanager
def counted_launches() -> Iterator[Counter[str]]:
    """Counts the launches of each kernel."""
    launches: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        launch = GridExecutor.__call__

        def note(self: GridExecutor, *operands: Any, **options: Any) -> Any:
            launches[self.fn.__name__] += 1
            return launch(self, *operands, **options)

        patch.setattr(GridExecutor, "__call__", note)
        yield launches


def capture_step(folder: Path, layer_count: int, patch: pytest.MonkeyPatch) -> Computation:
    """Loads a model of so many layers, and returns its step of one decode."""
    quantize_tiny(folder, "awq", num_hidden_layers=layer_count)
    captured: list[Computation] = []

    def note(_: HostCapture, compute: Computation) -> Computation:
        captured.append(compute)
        return compute

    with patch.context() as patched:
        patched.setattr(HostCapture, "capture", note)
        settings = {"kernels": "triton", "cuda_graphs": "on", "block_count": 16, "max_running_count": 1}
        load_text_engine(folder, engine_config(thread_count=1, **settings))
    return captured[-1]


@contextmanager
def counted_allocations() -> Iterator[Counter[str]]:
    """Counts the tensors that launchers make."""
    made: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("empty", "empty_like", "zeros", "zeros_like", "cat"):
            patch.setattr(torch, name, _noted(name, getattr(torch, name), made))
        yield made


def _noted(name: str, function: Callable[..., Any], made: Counter[str]) -> Callable[..., Any]:
    def note(*operands: Any, **options: Any) -> Any:
        if "headrace" in sys._getframe(1).f_code.co_filename:
            made[name] += 1
        return function(*operands, **options)

    return note


def count_per_layer(folder: Path, patch: pytest.MonkeyPatch) -> tuple[Counter[str], Counter[str]]:
    """Counts the launches and the tensors of a layer, by the difference of two models."""
    found = []
    for count in LAYERS:
        compute = capture_step(folder / str(count), count, patch)
        with torch.inference_mode(), counted_launches() as launches, counted_allocations() as made:
            compute()
        found.append((launches, made))
    layers = LAYERS[1] - LAYERS[0]
    both = [found[1][place] - found[0][place] for place in (0, 1)]
    assert all(count % layers == 0 for each in both for count in each.values())
    launches, made = (Counter({name: count // layers for name, count in each.items()}) for each in both)
    return launches, made


def test_a_layer_has_eight_launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a card whose multiprocessors the gated product alone fills, without split inputs."""
    monkeypatch.setattr(quantized_product, "count_multiprocessors", lambda _: 1)
    launches, made = count_per_layer(tmp_path, monkeypatch)
    assert launches == LAUNCHES
    assert launches.total() == 8
    assert made.total() <= MAX_ALLOCATIONS
    assert set(made) == {"empty", "empty_like"}


def test_a_gated_product_with_split_inputs_has_a_ninth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TileChoice, "count_splits", lambda *_: 2)
    launches, _ = count_per_layer(tmp_path, monkeypatch)
    assert launches == LAUNCHES | {"gated_activation_kernel": 1}


@pytest.mark.parametrize("multiprocessors", [108, 132, 58], ids=["A100", "H100", "L4"])
def test_the_gated_product_of_an_8b_model_is_whole(multiprocessors: int) -> None:
    """Llama 3.1 8B: two times 14336 outputs."""
    assert USUAL.count_splits(4096, 28672, USUAL.narrow, multiprocessors) == 1


def test_layers_one_by_one_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts in chunks, decodes of several texts, and weights of several splits."""
    quantize_tiny(tmp_path, "awq", num_hidden_layers=2, hidden_size=1024)
    requests = [
        request(str(index), prompt, max_tokens=4, temperature=0) for index, prompt in enumerate(make_prompts((5, 40)))
    ]
    steps: list[int] = []
    takes = FusedLayers.takes

    def note(self: FusedLayers, hidden: torch.Tensor, attention: Any) -> bool:
        steps.append(len(hidden))
        return takes(self, hidden, attention)

    found = []
    for fuses in (note, lambda *_: False):
        monkeypatch.setattr(FusedLayers, "takes", fuses)
        settings = {"kernels": "triton", "block_count": 32, "max_step_token_count": 32, "max_running_count": 2}
        found.append(run(load_text_engine(tmp_path, engine_config(thread_count=1, **settings)), *requests))
    assert found[0] == found[1]
    assert len(steps) > 4
