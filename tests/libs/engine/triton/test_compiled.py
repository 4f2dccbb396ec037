"""Every tuned configuration, compiled for sm_80, sm_89 and sm_90: it spills nothing, fits its planned occupancy, and
uses the instructions that it was written for."""

from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("triton") is None:
    pytest.skip("no triton; to run it: Linux on x86_64 or aarch64", allow_module_level=True)

import torch
from tests.libs.engine.triton.compilation import Compiled, compile_for
from triton.compiler.errors import CompilationError

from headrace.engine.triton import dequantization, gated_activation, quantized_gemv, residual_norm, split_sum
from headrace.engine.triton.attention import attention_sum, decode_attention, prefill_attention, rotary_store
from headrace.engine.triton.attention.attention_tile import SPLIT_TOKENS, tile_of
from headrace.engine.triton.quantized_matmul import NARROW, WIDE, Tile, quantized_matmul_kernel

pytestmark = [pytest.mark.emulated, pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(1200)]
CAPABILITIES = (80, *(pytest.param(each, marks=pytest.mark.thorough) for each in (89, 90)))
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
@pytest.mark.parametrize("head_size", [64, 128, 256])
def test_decodes_use_tensor_cores_and_spill_nothing(capability: int, kind: str, head_size: int) -> None:
    if is_refused(capability, kind):
        with pytest.raises(CompilationError):
            compile_decode(capability, kind, head_size)
        return
    made = compile_decode(capability, kind, head_size)
    assert made.spilled_bytes == 0
    assert made.blocks_per_multiprocessor >= 2, (made.register_count, made.shared_bytes)
    assert made.has("mma.sync")
    assert made.has("ldmatrix")


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("kind", ["bf16", "i8", "fp8e4nv"])
@pytest.mark.parametrize("head_size", [64, 128, 256])
def test_prefills_use_tensor_cores_and_copy_ahead(capability: int, kind: str, head_size: int) -> None:
    if is_refused(capability, kind):
        with pytest.raises(CompilationError):
            compile_prefill(capability, kind, head_size)
        return
    made = compile_prefill(capability, kind, head_size)
    assert made.spilled_bytes == 0
    planned = 2 if head_size == 64 else 1
    assert made.blocks_per_multiprocessor >= planned, (made.register_count, made.shared_bytes)
    assert made.has("mma.sync")
    assert made.has("ldmatrix")
    assert made.has("cp.async.c")


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_attention_in_fp32_fits_a_multiprocessor(capability: int) -> None:
    """Nobody serves in fp32 on a GPU, but what is launched has to start."""
    for head_size in (64, 128, 256):
        for compile_attention in (compile_decode, compile_prefill):
            assert compile_attention(capability, "fp32", head_size, "fp32").blocks_per_multiprocessor >= 1


def is_refused(capability: int, kind: str) -> bool:
    """GPUs before sm_89 have no instruction that reads fp8."""
    return kind == "fp8e4nv" and capability < 89


def compile_decode(capability: int, kind: str, head_size: int, dtype: str = "bf16") -> Compiled:
    types = {"decodes": "*i32", "splits": "*i32", "partials": "*fp32", "extremes": "*fp32", "sequence_count": "i32"}
    constants = {"padded_share": decode_attention.MIN_SHARE}
    kernel, warp_count = decode_attention.decode_attention_kernel, decode_attention.count_warps(head_size)
    types, constants = attention_types(kind, dtype) | types, attention_sizes(kind, head_size, dtype) | constants
    return compile_for(capability, kernel, types, constants, warp_count, decode_attention.STAGE_COUNT)


def compile_prefill(capability: int, kind: str, head_size: int, dtype: str = "bf16") -> Compiled:
    types = {"spans": "*i32", "programs": "*i32", "outputs": f"*{dtype}"}
    constants = {"block_rows": prefill_attention.BLOCK_ROWS}
    kernel, warp_count = prefill_attention.prefill_attention_kernel, prefill_attention.WARP_COUNT
    types, constants = attention_types(kind, dtype) | types, attention_sizes(kind, head_size, dtype) | constants
    return compile_for(capability, kernel, types, constants, warp_count, prefill_attention.STAGE_COUNT)


def attention_types(kind: str, dtype: str) -> dict[str, str]:
    return {
        "queries": f"*{dtype}",
        "states": f"*{kind}",
        "scales": "*fp32",
        "tables": "*i32",
        "scale": "fp32",
        "window": "i32",
        "soft_cap": "fp32",
        "block_count": "i32",
    }


def attention_sizes(kind: str, head_size: int, dtype: str) -> dict[str, int | bool]:
    return {
        "block_size": 16,
        "head_size": head_size,
        "share": 4,
        "padded_head": head_size,
        "has_scales": kind in {"i8", "fp8e4nv"},
        "has_cap": True,
        "split_tokens": SPLIT_TOKENS,
        "tile": tile_of(head_size, torch.float32 if dtype == "fp32" else torch.bfloat16),
    }


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("kind", ["bf16", "i8", "fp8e4nv"])
def test_stores_spill_nothing(capability: int, kind: str) -> None:
    types = dict.fromkeys(("norms", "cosines", "sines", "scales"), "*fp32")
    types |= {"positions": "*i32", "slots": "*i32", "projected": "*bf16", "queries": "*bf16", "states": f"*{kind}"}
    types |= {"epsilon": "fp32", "slot_count": "i32"}
    sizes = {"head_count": 32, "kv_head_count": 8, "head_size": 128, "padded_head": 128, "half": 64}
    codes = {"has_norms": True, "largest_code": 0.0 if kind == "bf16" else 127.0, "is_integer": kind == "i8"}
    kernel, constants = rotary_store.rotary_store_kernel, sizes | codes
    if is_refused(capability, kind):
        with pytest.raises(CompilationError):
            compile_for(capability, kernel, types, constants, rotary_store.WARP_COUNT)
        return
    made = compile_for(capability, kernel, types, constants, rotary_store.WARP_COUNT)
    assert made.spilled_bytes == 0
    assert made.register_count <= 64


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_kernels_of_rows_spill_nothing(capability: int) -> None:
    norm = dict.fromkeys(("inputs", "residual", "weight", "outputs"), "*bf16") | {"epsilon": "fp32"}
    for size in (2048, 4096, 8192):
        constants = {"size": size, "padded_size": size, "has_residual": True}
        made = compile_for(capability, residual_norm.residual_norm_kernel, norm, constants, residual_norm.WARP_COUNT)
        assert made.spilled_bytes == 0
    gate, kernel = {"inputs": "*bf16", "outputs": "*bf16", "size": "i32"}, gated_activation.gated_activation_kernel
    for activation in ("silu", "gelu", "gelu_tanh", "relu"):
        chosen = {"activation": activation, "block": gated_activation.BLOCK}
        assert compile_for(capability, kernel, gate, chosen, gated_activation.WARP_COUNT).spilled_bytes == 0
    total = {"partials": "*fp32", "extremes": "*fp32", "decodes": "*i32", "outputs": "*bf16"}
    total |= {"head_count": "i32", "window": "i32"}
    sizes = {"head_size": 128, "padded_head": 128, "split_tokens": SPLIT_TOKENS}
    made = compile_for(capability, attention_sum.attention_sum_kernel, total, sizes, attention_sum.WARP_COUNT)
    assert made.spilled_bytes == 0


def test_a_spill_is_seen() -> None:
    """One warp cannot hold a tile of 256 by 128 sums: 1024 registers for each thread."""
    made = compile_tile(80, "fp16", Tile(256, 128, 1, 1), 4, 32)
    assert made.spilled_bytes > 0


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("bits", [4, 8])
def test_a_dequantized_weight_spills_nothing(capability: int, bits: int) -> None:
    left_out = ("partials", "row_count", "blocks_per_split")
    types = {name: kind for name, kind in PRODUCT.items() if name not in left_out} | {"outputs": "*bf16"}
    constants = {"bits": bits, "block_in": dequantization.BLOCK_IN, "block_out": dequantization.BLOCK_OUT}
    kernel, warp_count = dequantization.dequantization_kernel, dequantization.WARP_COUNT
    made = compile_for(capability, kernel, types, constants, warp_count)
    assert made.spilled_bytes == 0
    assert made.blocks_per_multiprocessor >= 4
