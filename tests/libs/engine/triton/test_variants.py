"""Steps of any number of rows run the same compiled variants of the kernels of products: none waits for a compiler."""

from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("triton") is None:
    pytest.skip("no triton; to run it: Linux on x86_64 or aarch64", allow_module_level=True)

import torch
from tests.libs.engine.triton.random_weights import make_weight
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from triton.runtime.jit import JITFunction, compute_cache_key, create_function_from_signature

from headrace.engine.triton.quantized_product import choose_kernel, multiply

BACKEND = make_backend(GPUTarget("cuda", 80, 32))


def test_the_number_of_rows_compiles_nothing_but_the_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are those by which Triton finds compiled variants. 1 and multiples of 16 would have their own."""
    keys: dict[str, set[str]] = {}

    def note(kernel: JITFunction[Any], *operands: Any, grid: Any, warmup: bool, **options: Any) -> None:
        del grid, warmup
        bind = create_function_from_signature(kernel.signature, kernel.params, BACKEND)
        _, specialization, chosen = bind(*operands, **options)
        keys.setdefault(kernel.__name__, set()).add(compute_cache_key({}, specialization, chosen))

    monkeypatch.setattr(JITFunction, "run", note)
    weight, counts = make_weight(64, 256, 4, 128).packed, (1, 2, 3, 15, 16, 17, 31, 32, 33, 48, 64, 65, 200, 256)
    for count in counts:
        multiply(weight, torch.zeros(count, 256, dtype=torch.bfloat16))
    tiles = {choose_kernel(count) for count in counts}
    assert len(tiles) == 3
    assert {name: len(found) for name, found in keys.items()} == {
        "quantized_matmul_kernel": len(tiles),
        "split_sum_kernel": 1,
    }
