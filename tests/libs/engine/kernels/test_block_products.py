"""GGUF's blocks are multiplied as they are: the numbers are those of the `gguf` package to the bit, and every set of
instructions computes the same bits, for any number of rows."""

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from tests.libs.engine.gguf_blocks import KINDS, random_blocks
from tests.libs.engine.gguf_files import random_blocks as wild_blocks
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.engine.kernels.context import Floats, KernelContext
from headrace.engine.kernels.library import Instructions, available
from headrace.engine.kernels.packed_weight import PackedWeight, pack_block_parts, pack_plain
from headrace.engine.kernels.storage import BLOCKS, Storage

pytestmark = needs_kernels

OUT, IN = 171, 512
ROW_COUNTS = (1, 2, 3, 4, 5, 7, 8, 16, 33, 63, 64, 65, 97, 130)
names = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def blocks_of(kind: Kind, out_size: int = OUT, in_size: int = IN) -> np.ndarray:
    return random_blocks(kind, out_size, in_size, np.random.default_rng(7))


def packed(kind: Kind, blocks: np.ndarray) -> PackedWeight:
    return pack_block_parts((blocks,), Storage[kind.name], np.arange(len(blocks)))


def random_inputs(rows: int, in_size: int = IN) -> Floats:
    inputs = np.random.default_rng(3).standard_normal((rows, in_size)).astype(np.float32)
    inputs[rows // 2] *= np.float32(1e-35)
    return inputs


def error(found: Floats, expected: np.ndarray) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


@names
@pytest.mark.parametrize("instructions", available())
def test_the_numbers_are_those_of_the_package(kind: Kind, instructions: Instructions) -> None:
    """A row of inputs that is 1 in one place shows one column. Any bytes will do, with scales of any sign."""
    blocks = wild_blocks(kind, OUT, IN, 5)
    blocks[3::2, 1 if kind != Kind.Q6_K else 209] ^= 0x80
    found = KernelContext(2, instructions).product(packed(kind, blocks), np.eye(IN, dtype=np.float32), exact=True)
    assert np.array_equal(found.T, gguf.dequantize(blocks, kind))


@names
def test_exact_products_have_the_bits_of_plain_weights(kind: Kind) -> None:
    blocks, inputs, context = blocks_of(kind), random_inputs(9), KernelContext(2)
    plain = pack_plain(gguf.dequantize(blocks, kind), Storage.F32, np.arange(OUT))
    found = context.product(packed(kind, blocks), inputs, exact=True)
    assert np.array_equal(found.view(np.int32), context.product(plain, inputs).view(np.int32))


@names
def test_rounded_inputs_cost_little(kind: Kind) -> None:
    blocks, inputs = blocks_of(kind), np.random.default_rng(3).standard_normal((33, IN)).astype(np.float32)
    expected = inputs.astype(np.float64) @ gguf.dequantize(blocks, kind).astype(np.float64).T
    assert error(KernelContext(2).product(packed(kind, blocks), inputs), expected) < 0.01


@names
def test_inputs_are_rounded_once_for_each_block(kind: Kind) -> None:
    """Inputs that are integers up to 127 in every block lose nothing, so only fp32 rounds."""
    blocks, columns = blocks_of(kind), BLOCKS[Storage[kind.name]].columns
    inputs = np.random.default_rng(1).integers(-127, 128, (5, IN)).astype(np.float32)
    inputs[:, ::columns] = 127
    inputs *= np.array([1, 2, 0.5, 4, 8], np.float32)[:, None]
    expected = inputs.astype(np.float64) @ gguf.dequantize(blocks, kind).astype(np.float64).T
    assert error(KernelContext(1).product(packed(kind, blocks), inputs), expected) < 1e-6


@names
@pytest.mark.parametrize("exact", [False, True])
def test_every_set_has_the_same_bits_for_any_rows(kind: Kind, exact: bool) -> None:
    weight, inputs = packed(kind, blocks_of(kind)), random_inputs(max(ROW_COUNTS))
    residual = np.random.default_rng(4).standard_normal((len(inputs), OUT)).astype(np.float32)
    whole = KernelContext(1).product(weight, inputs, residual, exact=exact)
    for instructions in available():
        for threads in (1, 3):
            context = KernelContext(threads, instructions)
            for rows in ROW_COUNTS:
                found = context.product(weight, inputs[:rows], residual[:rows], exact=exact)
                assert np.array_equal(found.view(np.int32), whole[:rows].view(np.int32)), (instructions, threads, rows)


@names
def test_the_largest_sums_fit(kind: Kind) -> None:
    """All bytes at one end and all inputs at the other: nothing saturates."""
    for byte in (0x00, 0x7F, 0x80, 0xFF):
        blocks = np.full_like(blocks_of(kind), byte).reshape(-1, gguf.GGML_QUANT_SIZES[kind][1])
        scales = np.float16(1).view(np.uint16).astype("<u2").tobytes()
        for at in (208,) if kind == Kind.Q6_K else (0, 2) if "1" in kind.name or "K" in kind.name else (0,):
            blocks[:, at : at + 2] = np.frombuffer(scales, np.uint8)
        weight = packed(kind, blocks.reshape(OUT, -1))
        inputs = np.ones((3, IN), np.float32) * np.array([127, -127, 1], np.float32)[:, None]
        expected = inputs.astype(np.float64) @ gguf.dequantize(blocks.reshape(OUT, -1), kind).astype(np.float64).T
        for instructions in available():
            found = KernelContext(1, instructions).product(weight, inputs)
            assert np.allclose(found, expected, rtol=1e-6, atol=0), (byte, instructions)


@names
def test_what_is_not_a_number_is_not_hidden(kind: Kind) -> None:
    inputs = np.random.default_rng(3).standard_normal((3, IN)).astype(np.float32)
    inputs[1, 40], inputs[2, 300] = np.nan, np.inf
    for instructions in available():
        found = KernelContext(1, instructions).product(packed(kind, blocks_of(kind)), inputs)
        assert np.isfinite(found[0]).all()
        assert np.isnan(found[1]).all()
        assert not np.isfinite(found[2]).any()


@names
def test_memory_is_that_of_the_file(kind: Kind) -> None:
    blocks = blocks_of(kind, 256, 2048)
    assert blocks.nbytes <= packed(kind, blocks).byte_count <= 1.03 * blocks.nbytes


def test_chosen_rows_come_in_their_order_and_missing_ones_are_zeros() -> None:
    blocks, inputs, context = blocks_of(Kind.Q4_K), random_inputs(3), KernelContext(1)
    whole = context.product(packed(Kind.Q4_K, blocks), inputs)
    rows = np.array([3, -1, 0, 9, *[-1] * 14, 5])
    found = context.product(pack_block_parts((blocks,), Storage.Q4_K, rows), inputs)
    for place, row in enumerate(rows):
        assert np.array_equal(found[:, place], np.zeros(3) if row < 0 else whole[:, row])


@names
def test_rows_of_several_parts_are_packed_as_those_of_one(kind: Kind) -> None:
    """Threads take 256 rows at a time, from one part or from several."""
    blocks = blocks_of(kind, 900, 256)
    spread = np.repeat(blocks, 2, axis=1)[:, ::2]
    rows = np.random.default_rng(2).integers(-1, 900, 700)
    for wanted in (np.arange(900), rows):
        expected = pack_block_parts((blocks,), Storage[kind.name], wanted).panels
        for parts in ((blocks[:300], blocks[300:301], spread[301:]), (spread,)):
            found = pack_block_parts(parts, Storage[kind.name], wanted).panels
            assert found.tobytes() == expected.tobytes()


def test_odd_sizes_fit() -> None:
    """A panel of three blocks of 32 does not end on a cache line by itself."""
    blocks, inputs = blocks_of(Kind.Q4_0, 40, 96), random_inputs(3, 96)
    expected = inputs.astype(np.float64) @ gguf.dequantize(blocks, Kind.Q4_0).astype(np.float64).T
    assert error(KernelContext(1).product(packed(Kind.Q4_0, blocks), inputs), expected) < 0.01


def test_what_is_no_block_is_refused() -> None:
    blocks = blocks_of(Kind.Q4_K)
    with pytest.raises(ValueError, match="rows of 287 bytes are not blocks of Q4_K"):
        pack_block_parts((np.ascontiguousarray(blocks[:, 1:]),), Storage.Q4_K, np.arange(3))
    with pytest.raises(IndexError, match="rows 0 to 171"):
        pack_block_parts((blocks,), Storage.Q4_K, np.arange(OUT + 1))
