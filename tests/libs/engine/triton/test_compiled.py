"""Every tuned configuration, compiled for sm_80, sm_89 and sm_90: it spills nothing, fits its planned occupancy, and
uses the instructions that it was written for."""

from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("triton") is None:
    pytest.skip("no triton; to run it: make test-gpu-kernels", allow_module_level=True)

from tests.libs.engine.triton.compilation import Compiled, compile_for
from triton.compiler.errors import CompilationError

from headrace.engine.triton import (
    attention_sum,
    decode_attention,
    gated_silu,
    quantized_gemv,
    residual_norm,
    split_sum,
)
from headrace.engine.triton.quantized_matmul import NARROW, WIDE, Tile, quantized_matmul_kernel

pytestmark = [pytest.mark.slow, pytest.mark.process]
CAPABILITIES = (80, 89, 90)
PRODUCT = {
    "words": "*i32",
    "scales": "*fp32",
    "zeros": "*u8",
    "partials": "*fp32",
    "row_count": "i32",
    "in_size": "i32",
    "out_size": "i32",
    "group_size": "i32",
    "blocks_per_split": "i32",
}
BLOCKS = {NARROW: 4, WIDE: 2}
"""Planned blocks on a multiprocessor: enough that one computes while others wait for memory."""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def compile_tile(capability: int, kind: str, tile: Tile, bits: int, block_in: int) -> Compiled:
    constants = {"bits": bits, "block_rows": tile.row_count, "block_in": block_in, "block_out": tile.out_count}
    types = {"inputs": f"*{kind}", **PRODUCT}
    return compile_for(capability, quantized_matmul_kernel, types, constants, tile.warp_count, tile.stage_count)


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("tile", [NARROW, WIDE], ids=["narrow", "wide"])
def test_tiles_use_tensor_cores_and_copy_ahead(capability: int, tile: Tile) -> None:
    for kind in ("fp16", "bf16"):
        for bits in (4, 8):
            for block_in in (32, 64):
                made = compile_tile(capability, kind, tile, bits, block_in)
                assert made.spilled_bytes == 0, (kind, bits, block_in)
                assert made.blocks_per_multiprocessor >= BLOCKS[tile], (kind, bits, block_in, made.register_count)
                assert made.has("ldmatrix")
                assert made.has("cp.async.c")
                # Hopper multiplies 64 rows and more by groups of four warps.
                assert made.has("wgmma.mma_async" if capability == 90 and tile is WIDE else "mma.sync")


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_single_rows_keep_eight_blocks_on_a_multiprocessor(capability: int) -> None:
    for kind in ("fp16", "bf16", "fp32"):
        for bits in (4, 8):
            sizes = {"block_in": quantized_gemv.BLOCK_IN, "block_out": quantized_gemv.BLOCK_OUT}
            kernel = quantized_gemv.quantized_gemv_kernel
            types = {"inputs": f"*{kind}", **PRODUCT}
            made = compile_for(capability, kernel, types, {"bits": bits, **sizes}, quantized_gemv.WARP_COUNT)
            assert made.spilled_bytes == 0
            assert made.blocks_per_multiprocessor >= 8, made.register_count


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_sums_of_splits_spill_nothing(capability: int) -> None:
    types = {
        "partials": "*fp32",
        "bias": "*bf16",
        "residual": "*bf16",
        "outputs": "*bf16",
        "row_count": "i32",
        "out_size": "i32",
        "split_count": "i32",
    }
    constants = {"has_bias": True, "has_residual": True, "block": split_sum.BLOCK}
    made = compile_for(capability, split_sum.split_sum_kernel, types, constants, split_sum.WARP_COUNT)
    assert made.spilled_bytes == 0
    assert made.register_count <= 40


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("kind", ["bf16", "i8", "fp8e4nv"])
@pytest.mark.parametrize("head_size", [64, 128])
def test_attention_uses_tensor_cores_and_spills_nothing(capability: int, kind: str, head_size: int) -> None:
    if kind == "fp8e4nv" and capability < 89:
        with pytest.raises(CompilationError):
            compile_attention(capability, kind, head_size)
        return
    made = compile_attention(capability, kind, head_size)
    assert made.spilled_bytes == 0
    assert made.blocks_per_multiprocessor >= 2, (made.register_count, made.shared_bytes)
    assert made.has("mma.sync")
    assert made.has("ldmatrix")


def compile_attention(capability: int, kind: str, head_size: int) -> Compiled:
    types = {
        "queries": "*bf16",
        "states": f"*{kind}",
        "scales": "*fp32",
        "tables": "*i32",
        "lengths": "*i32",
        "partials": "*fp32",
        "extremes": "*fp32",
        "scale": "fp32",
        "window": "i32",
        "soft_cap": "fp32",
        "table_stride": "i32",
        "block_count": "i32",
        "split_count": "i32",
    }
    constants = {
        "block_size": 16,
        "head_size": head_size,
        "share": 4,
        "padded_head": head_size,
        "padded_share": decode_attention.LEAST_SHARE,
        "has_scales": kind != "bf16",
        "has_cap": True,
        "split_tokens": decode_attention.SPLIT_TOKENS,
        "tile": decode_attention.TILE,
    }
    kernel, warp_count = decode_attention.decode_attention_kernel, decode_attention.WARP_COUNT
    return compile_for(capability, kernel, types, constants, warp_count, decode_attention.STAGE_COUNT)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_kernels_of_rows_spill_nothing(capability: int) -> None:
    norm = dict.fromkeys(("inputs", "residual", "weight", "outputs"), "*bf16") | {"epsilon": "fp32"}
    for size in (2048, 4096, 8192):
        constants = {"size": size, "padded_size": size, "has_residual": True}
        made = compile_for(capability, residual_norm.residual_norm_kernel, norm, constants, residual_norm.WARP_COUNT)
        assert made.spilled_bytes == 0
    gate, block = {"inputs": "*bf16", "outputs": "*bf16", "size": "i32"}, {"block": gated_silu.BLOCK}
    assert compile_for(capability, gated_silu.gated_silu_kernel, gate, block, gated_silu.WARP_COUNT).spilled_bytes == 0
    total = {"partials": "*fp32", "extremes": "*fp32", "lengths": "*i32", "outputs": "*bf16"}
    total |= {"head_count": "i32", "split_count": "i32"}
    sizes = {"head_size": 128, "padded_head": 128, "split_tokens": decode_attention.SPLIT_TOKENS}
    made = compile_for(capability, attention_sum.attention_sum_kernel, total, sizes, attention_sum.WARP_COUNT)
    assert made.spilled_bytes == 0


def test_a_spill_is_seen() -> None:
    """One warp cannot hold a tile of 256 by 128 sums: 1024 registers for each thread."""
    made = compile_tile(80, "fp16", Tile(256, 128, 1, 1), 4, 32)
    assert made.spilled_bytes > 0
