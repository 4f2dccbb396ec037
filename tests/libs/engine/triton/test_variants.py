"""Steps of any number of rows run the same compiled variants of the kernels of products: none waits for a compiler."""

import random
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("triton") is None:
    pytest.skip("no triton; to run it: Linux on x86_64 or aarch64", allow_module_level=True)

import numpy as np
import torch
from tests.libs.engine.triton.random_weights import make_weight
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from triton.runtime.jit import JITFunction, compute_cache_key, create_function_from_signature

from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.gpu.attention.paged_states import PagedStates
from headrace.engine.gpu.attention.triton_attention import TritonAttention
from headrace.engine.gpu.layers.fused_layers import FusedLayers, fuse_layers
from headrace.engine.gpu.operators.triton_linear import TritonLinear
from headrace.engine.gpu.operators.triton_norm import TritonNorm
from headrace.engine.kernels.kv_arena import KvShape
from headrace.engine.kernels.storage import Storage
from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.torch.attention.paged_attention import HeadShape, LayerAttention
from headrace.engine.torch.decoder.decoder_layer import PreNormLayer
from headrace.engine.torch.decoder.self_attention import SelfAttention
from headrace.engine.torch.layers.gated_mlp import GatedMlp
from headrace.engine.torch.trial_steps import in_block_0, steps_of_all_sizes
from headrace.engine.triton.products.quantized_product import choose_kernel, multiply

CPU = torch.device("cpu")
BACKEND = make_backend(GPUTarget("cuda", 80, 32))
MAX_VARIANTS = 20
HEADS = HeadShape(4, 2, 32, 32, 0.2, None, 1e-6)
LAYER_COUNT, BLOCK_SIZE, BLOCK_COUNT = 2, 16, 4096


@pytest.fixture(name="keys")
def _noted_keys(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """Launches nothing, and notes for each kernel the keys by which Triton finds compiled variants. 1 and multiples of
    16 would have their own."""
    keys: dict[str, set[str]] = {}

    def note(kernel: JITFunction[Any], *operands: Any, grid: Any, warmup: bool, **options: Any) -> None:
        del grid, warmup
        bind = create_function_from_signature(kernel.signature, kernel.params, BACKEND)
        _, specialization, chosen = bind(*operands, **options)
        keys.setdefault(kernel.__name__, set()).add(compute_cache_key({}, specialization, chosen))

    monkeypatch.setattr(JITFunction, "run", note)
    return keys


def make_linear(out_size: int, in_size: int) -> TritonLinear:
    codes = torch.zeros(out_size, in_size, dtype=torch.uint8)
    groups = out_size, in_size // 128
    return TritonLinear(
        QuantizedMatrix(codes, torch.ones(groups), torch.zeros(groups, dtype=torch.uint8), 4, 128), None
    )


def make_layers() -> FusedLayers:
    norm = TritonNorm(torch.ones(128, dtype=torch.bfloat16), 1e-6)
    attention = SelfAttention(0, make_linear(256, 128), make_linear(128, 128))
    mlp = GatedMlp(make_linear(1024, 128), make_linear(128, 512), lambda rows: rows)
    layers = [PreNormLayer(norm, replace(attention, index=index), norm, mlp) for index in range(LAYER_COUNT)]
    fused = fuse_layers(layers, "silu")
    assert fused is not None
    return fused


def make_attention() -> TritonAttention:
    shape = KvShape(LAYER_COUNT, HEADS.kv_head_count, HEADS.head_size, BLOCK_SIZE, Storage.BF16)
    angles = np.ones((65536, 16), np.float32)
    layers = [LayerAttention(None, (angles, angles))] * LAYER_COUNT
    return TritonAttention(HEADS, layers, PagedStates(shape, BLOCK_COUNT, CPU), CPU)


def random_step(source: random.Random) -> StepArrays:
    """Lays out decodes, chunks of prompts, or both, of texts of any length."""
    decodes = [(source.randrange(40_000), 1) for _ in range(source.choice((0, 1, 3, 16, 17, 40, 64)))]
    chunk = (source.randrange(0, 9000, BLOCK_SIZE), source.choice((2, 16, 100, 333, 512)))
    spans = [*decodes, chunk] if source.random() < 0.5 else decodes
    return in_block_0(spans or [chunk], BLOCK_SIZE, [0])


def test_a_day_of_random_steps_runs_few_variants(keys: dict[str, set[str]]) -> None:
    """All are compiled before the first request: none of a thousand steps needs one that is not among those."""
    layers, attention, source = make_layers(), make_attention(), random.Random(5)
    config = EngineConfig(max_running_count=64, max_step_token_count=1024, block_size=BLOCK_SIZE)
    counts = []
    for steps in (steps_of_all_sizes(config, 40_000), (random_step(source) for _ in range(1000))):
        for arrays in steps:
            attention.begin(arrays)
            layers(torch.zeros(arrays.token_count, 128, dtype=torch.bfloat16), attention)
        counts.append({name: len(found) for name, found in keys.items()})
    assert counts[0] == counts[1]
    assert sum(counts[1].values()) <= MAX_VARIANTS, counts[1]


def test_the_number_of_rows_compiles_nothing_but_the_tile(keys: dict[str, set[str]]) -> None:
    weight, counts = make_weight(64, 256, 4, 128).packed, (1, 2, 3, 15, 16, 17, 31, 32, 33, 48, 64, 65, 200, 256)
    for count in counts:
        multiply(weight, torch.zeros(count, 256, dtype=torch.bfloat16))
    tiles = {choose_kernel(count) for count in counts}
    assert len(tiles) == 3
    assert {name: len(found) for name, found in keys.items()} == {
        "quantized_matmul_kernel": len(tiles),
        "split_sum_kernel": 1,
    }
