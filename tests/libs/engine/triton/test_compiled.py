"""Every tuned configuration, compiled for sm_80, sm_89 and sm_90: it spills nothing, fits its planned occupancy, and
uses the instructions that it was written for."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest

if find_spec("triton") is None:
    pytest.skip("no triton; to run it: Linux on x86_64 or aarch64", allow_module_level=True)

import torch
from tests.libs.engine.triton.compilation import Compiled, compile_for, find_loops
from triton.compiler.errors import CompilationError

from headrace.engine.triton import gated_activation, residual_norm, split_sum, token_draw
from headrace.engine.triton.attention import decode_attention, prefill_attention, rotary_store
from headrace.engine.triton.attention.attention_tile import SPLIT_TOKENS, tile_of
from headrace.engine.triton.products import dequantization
from headrace.engine.triton.products.grouped_matmul import grouped_matmul_kernel
from headrace.engine.triton.products.packed_codes import BLOCK_INPUTS, BLOCK_PLANES, PLANE_INPUTS
from headrace.engine.triton.products.quantized_matmul import quantized_matmul_kernel
from headrace.engine.triton.products.tile_choice import CHOICES, USUAL, Tile, TileChoice

pytestmark = [pytest.mark.emulated, pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(1200)]
CAPABILITIES = (80, *(pytest.param(each, marks=pytest.mark.thorough) for each in (89, 90)))
PRODUCT = {
    "words": "*i32",
    "scales": "*fp32",
    "zeros": "*i32",
    "outputs": "*fp32",
    "row_count": "i32",
    "in_size": "i32",
    "out_size": "i32",
    "blocks_per_split": "i32",
}
PLANES = {"plane_inputs": PLANE_INPUTS, "block_planes": BLOCK_PLANES}
MOST_INSTRUCTIONS = {
    ("narrow", 4): 3.6,
    ("narrow", 8): 5.2,
    ("middle", 4): 3.8,
    ("middle", 8): 5.4,
    ("wide", 4): 4.6,
    ("wide", 8): 6.3,
}
"""Machine instructions of the main loop for each weight, by tile and bits, in bf16 with groups of 128. A multiprocessor
issues 128 a clock for its threads: at 3.6 to a weight of 4 bits, an A100 reads 2.7 TB/s of them."""
MOST_FLOAT_INSTRUCTIONS = {
    ("narrow", 8, 8): 4.6,
    ("narrow", 4, 2): 5.4,
    ("narrow", 4, 1): 6.3,
    ("middle", 8, 8): 4.9,
    ("middle", 4, 2): 6.0,
    ("middle", 4, 1): 7.4,
    ("wide", 8, 8): 5.8,
    ("wide", 4, 2): 8.3,
    ("wide", 4, 1): 10.1,
}
"""The same for floating-point codes, by tile, bits and planes of a group, in bf16 and fp16."""
MAX_OFFSET_SPILLS = 112
"""The same with offsets."""
MAX_EXPERT_SPILLS = 40
"""Stack of a thread of the widest tile of experts, which holds the places of its rows."""
MAX_FLOAT_SPILLS = 112
"""Stack of a thread of the widest tile with floating-point codes in groups of 32."""
MIN_BYTES = {80: 11 * 1024, 89: 3 * 1024, 90: 18 * 1024}
"""Bytes that a multiprocessor keeps on their way to be fed: bandwidth times latency, 0.6 microseconds, over 108
multiprocessors at 2.0 TB/s, 58 at 0.3 and 132 at 3.35, rounded up where latency grows with load."""
MAX_SPILLED_BYTES = 96
"""Stack of a thread of a wider tile with groups below 128, which holds two sums at once: a tenth of its
registers. Tiles that spill nothing there take more instructions for each weight."""
MAX_DECODE_SPILLS = 32
"""Stack of a thread of attention, 8 of whose registers are kept there for one more program per multiprocessor."""
MAX_DRAW_SPILLS = 8
"""Stack of a thread that draws a token: two of its registers, of 128."""
MAX_PREFILL_SPILLS = 24
"""Stack of a thread of attention to a prompt, which has sizes of its own in 6 registers: the loops do without."""
TILES = pytest.mark.parametrize("name", ["narrow", "middle", "wide"])


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def choice_for(capability: int) -> TileChoice:
    return CHOICES.get(divmod(capability, 10), USUAL)


def compile_tile(
    capability: int,
    kind: str,
    tile: Tile,
    bits: int,
    group_planes: int = BLOCK_PLANES,
    *,
    has_padding: bool = False,
    activation: str | None = None,
    is_float: bool = False,
    has_offsets: bool = False,
) -> Compiled:
    weight: dict[str, Any] = {"bits": bits, "group_size": group_planes * PLANE_INPUTS, "group_planes": group_planes}
    constants = weight | {"is_float": is_float} | PLANES | {"block_rows": tile.row_count, "block_out": tile.out_count}
    types = {"inputs": f"*{kind}", **PRODUCT}
    types["outputs"] = f"*{kind}" if activation else "*fp32"
    types["zeros"] = "*fp32" if has_offsets else "*i32"
    constants |= {"has_padding": has_padding, "activation": activation, "stage_count": tile.stage_count}
    return compile_for(capability, quantized_matmul_kernel, types, constants, tile.warp_count, tile.stage_count)


@pytest.mark.parametrize("capability", CAPABILITIES)
@TILES
def test_tiles_use_tensor_cores_and_copy_ahead(capability: int, name: str) -> None:
    """For groups of 128, 64 and 32 inputs."""
    choice = choice_for(capability)
    for bits in (4, 8):
        for kind, group_planes, has_padding in (("bf16", 8, False), ("fp16", 4, False), ("bf16", 2, True)):
            made = compile_tile(capability, kind, getattr(choice, name), bits, group_planes, has_padding=has_padding)
            case = kind, bits, group_planes, made.register_count, made.shared_bytes
            has_room = name == "narrow" or group_planes == BLOCK_PLANES
            assert made.spilled_bytes <= (0 if has_room else MAX_SPILLED_BYTES), case
            assert made.blocks_per_multiprocessor >= choice.wanted_programs, case
            assert made.has("cp.async.c")
            # Hopper multiplies 64 outputs and more by groups of four warps.
            assert made.has("wgmma.mma_async" if capability == 90 else "mma.sync")
            assert not made.main_loop_has("st.shared.b16"), case


@pytest.mark.parametrize("capability", CAPABILITIES)
@TILES
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("activation", [None, "silu"])
def test_a_weight_takes_few_instructions_and_enough_bytes_are_on_their_way(
    capability: int, name: str, bits: int, activation: str | None
) -> None:
    choice = choice_for(capability)
    tile: Tile = getattr(choice, name)
    made = compile_tile(capability, "bf16", tile, bits, activation=activation)
    assert made.spilled_bytes == 0
    loop, weights = made.main_loop(), BLOCK_INPUTS * tile.out_count / made.thread_count
    assert sum(each.startswith("CALL") for each in loop) == 0, "what is called is not counted"
    assert len(loop) / weights <= MOST_INSTRUCTIONS[name, bits]
    assert not any("LDG." in each for each in loop), "what is not sent ahead is waited for in each block of inputs"
    programs = min(made.blocks_per_multiprocessor, choice.wanted_programs)
    words = BLOCK_INPUTS * tile.out_count * bits // 8
    assert programs * (tile.stage_count - 1) * words >= MIN_BYTES[capability]


@pytest.mark.parametrize("capability", CAPABILITIES)
@TILES
@pytest.mark.parametrize(("bits", "group_planes"), [(8, 8), (4, 2), (4, 1)])
def test_a_floating_point_weight_takes_few_more(capability: int, name: str, bits: int, group_planes: int) -> None:
    """For E4M3 in groups of 128, MXFP4 of 32 and NVFP4 of 16."""
    choice = choice_for(capability)
    tile: Tile = getattr(choice, name)
    for kind in ("bf16", "fp16"):
        made = compile_tile(capability, kind, tile, bits, group_planes, is_float=True)
        case = kind, made.register_count, made.spilled_bytes
        assert made.blocks_per_multiprocessor >= choice.wanted_programs, case
        assert made.spilled_bytes <= (0 if group_planes == BLOCK_PLANES else MAX_FLOAT_SPILLS), case
        weights = BLOCK_INPUTS * tile.out_count / made.thread_count
        assert len(made.main_loop()) / weights <= MOST_FLOAT_INSTRUCTIONS[name, bits, group_planes], case


@pytest.mark.parametrize("capability", CAPABILITIES)
@TILES
@pytest.mark.parametrize("activation", [None, "silu"])
def test_experts_take_as_few_as_other_weights(capability: int, name: str, activation: str | None) -> None:
    """The widest tile, whose registers are full, has one in fifty more."""
    tile: Tile = getattr(choice_for(capability), name)
    weight: dict[str, Any] = {"bits": 4, "is_float": False, "group_size": BLOCK_INPUTS, "group_planes": BLOCK_PLANES}
    constants = weight | PLANES | {"block_rows": tile.row_count, "block_out": tile.out_count, "chosen_count": 8}
    constants |= {"has_padding": False, "activation": activation, "stage_count": tile.stage_count}
    types = {"inputs": "*bf16", **PRODUCT, "outputs": "*bf16" if activation else "*fp32", "weights": "*bf16"}
    types |= {"places": "*i32", "experts": "*i32", "choice_count": "i32"}
    types |= dict.fromkeys(("word_rows", "grid_rows", "zero_rows"), "i32")
    left_out = ("row_count", "blocks_per_split")
    types = {each: kind for each, kind in types.items() if each not in left_out}
    made = compile_for(capability, grouped_matmul_kernel, types, constants, tile.warp_count, tile.stage_count)
    assert made.spilled_bytes <= (MAX_EXPERT_SPILLS if name == "wide" else 0)
    weights = BLOCK_INPUTS * tile.out_count / made.thread_count
    assert len(made.main_loop()) / weights <= 1.02 * MOST_INSTRUCTIONS[name, 4]


@pytest.mark.parametrize("capability", CAPABILITIES)
@TILES
@pytest.mark.parametrize(("bits", "group_planes"), [(4, 2), (8, 1)])
def test_blocks_of_gguf_fit_a_multiprocessor(capability: int, name: str, bits: int, group_planes: int) -> None:
    """Q4_K has offsets for groups of 32; Q6_K has them for groups of 16 beside it."""
    choice = choice_for(capability)
    made = compile_tile(capability, "bf16", getattr(choice, name), bits, group_planes, has_offsets=True)
    case = made.register_count, made.spilled_bytes
    assert made.blocks_per_multiprocessor >= (1 if name == "wide" else choice.wanted_programs), case
    assert made.spilled_bytes <= MAX_OFFSET_SPILLS, case


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_products_in_fp32_fit_a_multiprocessor(capability: int) -> None:
    """Serving in fp32 is rare on a GPU, but what is launched has to start."""
    for bits in (4, 8):
        made = compile_tile(capability, "fp32", choice_for(capability).narrow, bits, 2, has_padding=True)
        assert made.blocks_per_multiprocessor >= 1


def test_loops_are_found_by_their_branches() -> None:
    listing = """
.L_outer:
        /*0000*/                   MOV R1, R2 ;
.L_inner:
        /*0010*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0020*/               @P0 BRA `(.L_inner) ;
        /*0030*/               @P1 BRA `(.L_outer) ;
        /*0040*/                   BRA `(.L_end) ;
.L_end:
        /*0050*/                   EXIT ;
.L_self:
        /*0060*/                   BRA `(.L_self);
"""
    assert [len(loop) for loop in find_loops(listing)] == [2, 4]


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_sums_of_splits_spill_nothing(capability: int) -> None:
    types = {
        "partials": "*fp32",
        "bias": "*bf16",
        "residual": "*bf16",
        "outputs": "*bf16",
        "row_count": "i32",
        "out_size": "i32",
    }
    constants = {"split_count": 8, "has_bias": True, "has_residual": True, "block": split_sum.BLOCK}
    made = compile_for(capability, split_sum.split_sum_kernel, types, constants, split_sum.WARP_COUNT)
    assert made.spilled_bytes == 0
    assert made.register_count <= 40


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("kind", ["bf16", "i8", "fp8e4nv"])
@pytest.mark.parametrize("head_size", [64, 128, 256])
def test_decodes_use_tensor_cores_and_spill_next_to_nothing(capability: int, kind: str, head_size: int) -> None:
    if is_refused(capability, kind):
        with pytest.raises(CompilationError):
            compile_decode(capability, kind, head_size)
        return
    made = compile_decode(capability, kind, head_size)
    assert made.spilled_bytes <= MAX_DECODE_SPILLS
    # Wide heads leave too few registers for a second program of eight warps.
    planned = 1 if head_size == 256 or (capability == 90 and kind != "bf16" and head_size == 128) else 2
    assert made.blocks_per_multiprocessor >= planned, (made.register_count, made.shared_bytes)
    assert made.has("mma.sync")
    assert made.has("ldmatrix")
    # The last program of a text sees what the others wrote: it counts after a barrier, and reads around its own cache.
    before, counts, after = made.ptx.partition("atom.global.gpu.acq_rel.add")
    assert counts
    assert "bar.sync" in before.rpartition("st.global")[2]
    assert "ld.global.cg" in after


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("kind", ["bf16", "i8", "fp8e4nv"])
@pytest.mark.parametrize("head_size", [64, 128, 256])
def test_prefills_use_tensor_cores_and_copy_ahead(capability: int, kind: str, head_size: int) -> None:
    if is_refused(capability, kind):
        with pytest.raises(CompilationError):
            compile_prefill(capability, kind, head_size)
        return
    made = compile_prefill(capability, kind, head_size)
    assert made.spilled_bytes <= MAX_PREFILL_SPILLS
    planned = 2 if head_size == 64 else 1
    assert made.blocks_per_multiprocessor >= planned, (made.register_count, made.shared_bytes)
    # Hopper multiplies blocks of 64 rows by groups of four warps.
    assert made.has("wgmma.mma_async" if capability == 90 else "mma.sync")
    assert made.has("cp.async.c")


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_attention_in_fp32_fits_a_multiprocessor(capability: int) -> None:
    """Serving in fp32 is rare on a GPU, but what is launched has to start."""
    for head_size in (64, 128, 256):
        for compile_attention in (compile_decode, compile_prefill):
            assert compile_attention(capability, "fp32", head_size, "fp32").blocks_per_multiprocessor >= 1


def is_refused(capability: int, kind: str) -> bool:
    """GPUs before sm_89 have no instruction that reads fp8."""
    return kind == "fp8e4nv" and capability < 89


def compile_decode(capability: int, kind: str, head_size: int, dtype: str = "bf16") -> Compiled:
    types = dict.fromkeys(("decodes", "splits", "counters"), "*i32") | dict.fromkeys(("partials", "extremes"), "*fp32")
    types |= {"outputs": f"*{dtype}", "sequence_count": "i32"}
    constants = {
        "padded_share": decode_attention.MIN_SHARE,
        "split_tokens": SPLIT_TOKENS,
        "sum_elements": decode_attention.SUM_ELEMENTS,
    }
    constants |= {"summed_share": 4, "sum_splits": decode_attention.count_summed_splits(4)}
    tile, warp_count = choose_decode_tile(capability, kind, head_size, dtype)
    kernel, constants = decode_attention.decode_attention_kernel, constants | {"tile": tile}
    types, constants = attention_types(kind, dtype) | types, attention_sizes(kind, head_size, dtype) | constants
    return compile_for(capability, kernel, types, constants, warp_count, decode_attention.STAGE_COUNT)


def choose_decode_tile(capability: int, kind: str, head_size: int, dtype: str) -> tuple[int, int]:
    """Asks for the tile of a GPU that is not there."""
    states = Mock(device=torch.device("cuda"), itemsize={"bf16": 2, "fp32": 4}.get(kind, 1))
    with patch.object(torch.cuda, "get_device_capability", lambda _: divmod(capability, 10)):
        return decode_attention.choose_tile(head_size, torch.float32 if dtype == "fp32" else torch.bfloat16, states)


def compile_prefill(capability: int, kind: str, head_size: int, dtype: str = "bf16") -> Compiled:
    types = {"spans": "*i32", "programs": "*i32", "outputs": f"*{dtype}"}
    constants = {"block_rows": prefill_attention.BLOCK_ROWS}
    kernel, warp_count = prefill_attention.prefill_attention_kernel, prefill_attention.count_warps(head_size)
    types, constants = attention_types(kind, dtype) | types, attention_sizes(kind, head_size, dtype) | constants
    stage_count = prefill_attention.count_stages(torch.float32 if dtype == "fp32" else torch.bfloat16)
    return compile_for(capability, kernel, types, constants, warp_count, stage_count)


def attention_types(kind: str, dtype: str) -> dict[str, str]:
    return {
        "queries": f"*{dtype}",
        "states": f"*{kind}",
        "scales": "*fp32",
        "sinks": "*fp32",
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
        "has_sinks": True,
        "tile": tile_of(head_size, torch.float32 if dtype == "fp32" else torch.bfloat16),
    }


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("kind", ["bf16", "i8", "fp8e4nv"])
@pytest.mark.parametrize("norms_rotated", [False, True])
@pytest.mark.parametrize("is_split", [False, True])
def test_stores_spill_nothing(capability: int, kind: str, is_split: bool, norms_rotated: bool) -> None:
    types = dict.fromkeys(("norms", "cosines", "sines", "scales"), "*fp32")
    types |= {"positions": "*i32", "slots": "*i32", "projected": "*bf16", "queries": "*bf16", "states": f"*{kind}"}
    types |= {"epsilon": "fp32", "slot_count": "i32", "bias": "*bf16"}
    types["projected"] = "*fp32" if is_split else "*bf16"
    sizes = {
        "split_count": 8 if is_split else 0,
        "has_bias": is_split,
        "head_count": 32,
        "kv_head_count": 8,
        "head_size": 128,
        "padded_head": 128,
        "half": 64,
    }
    codes = {"largest_code": 0.0 if kind == "bf16" else 127.0, "is_integer": kind == "i8"}
    norms = {"has_norms": True, "norms_rotated": norms_rotated}
    kernel, constants = rotary_store.rotary_store_kernel, sizes | codes | norms
    if is_refused(capability, kind):
        with pytest.raises(CompilationError):
            compile_for(capability, kernel, types, constants, rotary_store.WARP_COUNT)
        return
    made = compile_for(capability, kernel, types, constants, rotary_store.WARP_COUNT)
    assert made.spilled_bytes == 0
    # All eight splits are asked for at once.
    assert made.register_count <= (128 if is_split else 64)


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("is_split", [False, True])
def test_kernels_of_rows_spill_nothing(capability: int, is_split: bool) -> None:
    counts = {"row_count": "i32"}
    first = {"inputs": "*fp32" if is_split else "*bf16", "bias": "*bf16"}
    chosen: dict[str, Any] = {"split_count": 8 if is_split else 0, "has_bias": is_split}
    norm = first | counts | dict.fromkeys(("residual", "weight", "sums", "outputs"), "*bf16") | {"epsilon": "fp32"}
    for size in (2048, 4096, 8192):
        sizes = {"size": size, "padded_size": size, **chosen}
        made = compile_for(capability, residual_norm.residual_norm_kernel, norm, sizes, residual_norm.WARP_COUNT)
        assert made.spilled_bytes == 0
    gate, kernel = first | counts | {"outputs": "*bf16", "size": "i32"}, gated_activation.gated_activation_kernel
    for activation in ("silu", "gelu", "gelu_tanh", "relu", "clamped_swish"):
        constants: dict[str, Any] = {"activation": activation, "block": gated_activation.BLOCK, **chosen}
        assert compile_for(capability, kernel, gate, constants, gated_activation.WARP_COUNT).spilled_bytes == 0


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_draws_fit_a_multiprocessor_and_read_many_logits_at_once(capability: int) -> None:
    types = {"logits": "*fp32", "terms": "*fp64", "token_ids": "*i64", "row_stride": "i32", "row_count": "i32"}
    constants = {"block": token_draw.BLOCK}
    kernel, warp_count = token_draw.token_draw_kernel, token_draw.WARP_COUNT
    made = compile_for(capability, kernel, {**types, "size": "i32"}, constants, warp_count)
    assert made.spilled_bytes <= MAX_DRAW_SPILLS
    assert made.blocks_per_multiprocessor >= 1
    assert made.thread_count * 8 == token_draw.BLOCK


def test_a_spill_is_seen() -> None:
    """One warp cannot hold a tile of 256 by 128 sums: 1024 registers for each thread."""
    made = compile_tile(80, "fp16", Tile(256, 128, 1, 1), 4)
    assert made.spilled_bytes > 0


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("is_float", [False, True])
def test_a_dequantized_weight_spills_nothing(capability: int, bits: int, is_float: bool) -> None:
    left_out = ("row_count", "blocks_per_split")
    types = {name: kind for name, kind in PRODUCT.items() if name not in left_out} | {"outputs": "*bf16"}
    weight = {"bits": bits, "is_float": is_float, "group_size": BLOCK_INPUTS, "group_planes": BLOCK_PLANES}
    constants = weight | PLANES | {"block_out": dequantization.BLOCK_OUT}
    kernel, warp_count = dequantization.dequantization_kernel, dequantization.WARP_COUNT
    made = compile_for(capability, kernel, types, constants, warp_count)
    assert made.spilled_bytes == 0
    assert made.blocks_per_multiprocessor >= 4
