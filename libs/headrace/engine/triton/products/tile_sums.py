"""The main loop of products with quantized weights, on tensor cores."""

import triton
import triton.language as tl

from headrace.engine.triton.products.centered_codes import center_pair
from headrace.engine.triton.products.float_codes import float_pair


@triton.jit
def sum_tile(
    inputs,
    row_places,
    is_row,
    words,
    scales,
    zeros,
    columns,
    is_column,
    first,
    last,
    in_size,
    out_size,
    bits: tl.constexpr,
    is_float: tl.constexpr,
    group_size: tl.constexpr,
    group_planes: tl.constexpr,
    has_padding: tl.constexpr,
    block_rows: tl.constexpr,
    block_out: tl.constexpr,
    plane_inputs: tl.constexpr,
    block_planes: tl.constexpr,
    stage_count: tl.constexpr,
):
    """Sums up the products of `block_rows` rows and `block_out` outputs over the inputs from `first` to `last`: fp32
    [outputs, rows]. `row_places` int64 [rows] are those of the rows' first numbers; `zeros` are zero points of integers
    where they are int32, and what is added to each weight of a group where they are fp32.

    The weight is the left side of each product, because Hopper's tensor cores take that one from registers.
    """
    per_word: tl.constexpr = 32 // bits
    block_in: tl.constexpr = plane_inputs * block_planes
    has_offsets: tl.constexpr = zeros.dtype.element_ty == tl.float32
    numbers_type: tl.constexpr = inputs.dtype.element_ty
    sums = tl.zeros((block_out, block_rows), tl.float32)
    lanes = tl.arange(0, plane_inputs)
    word_places = words + (first // per_word + lanes).to(tl.int64)[None, :] * out_size + columns[:, None]
    places = inputs + row_places[None, :] + first + lanes[:, None]
    # A loop that says its number of stages has scales sent ahead too, and not what tensor cores multiply alone.
    for start in tl.range(first, last, block_in, num_stages=stage_count):
        for plane in tl.static_range(0, block_planes, 2):
            if plane % per_word == 0:
                tile = word_places + plane // per_word * plane_inputs * out_size
                packed = tl.load(tile, mask=is_column[:, None], other=0)
            for side in tl.static_range(2):
                if (plane + side) % group_planes == 0:
                    group = (start + (plane + side) * plane_inputs) // group_size * out_size + columns
                    scale = tl.load(scales + group, mask=is_column, other=0.0)
                    zero = scale if is_float else tl.load(zeros + group, mask=is_column, other=0)
                    group_sums = tl.zeros((block_out, block_rows), tl.float32)
                    input_sums = tl.zeros((block_rows,), tl.float32)
                if side == 0 or (group_planes == 1 and not is_float and not has_offsets):
                    even, odd = _number_pair(packed, zero, plane % per_word // 2 * bits, numbers_type, bits, is_float)
                is_number = is_row[None, :]
                if has_padding:
                    is_number = is_number & (start + (plane + side) * plane_inputs + lanes < in_size)[:, None]
                numbers = tl.load(places + (plane + side) * plane_inputs, mask=is_number, other=0.0)
                group_sums = tl.dot(even if side == 0 else odd, numbers, group_sums, input_precision="ieee")
                if has_offsets:
                    input_sums += tl.sum(numbers.to(tl.float32), 0)
                if (plane + side) % group_planes == group_planes - 1:
                    sums += _scaled(group_sums, scale, input_sums, zero, has_offsets)
        word_places += block_in // per_word * out_size
        places += block_in
    return sums


@triton.jit
def _number_pair(words, zero, shift: tl.constexpr, dtype: tl.constexpr, bits: tl.constexpr, is_float: tl.constexpr):
    """Returns the numbers of an even plane and of the odd one after it. Zero points are subtracted, offsets are not."""
    if is_float:
        even, odd = float_pair(words, shift, dtype, bits)
    elif zero.dtype == tl.float32:
        even, odd = center_pair(words, tl.zeros((1, 1), tl.int32), shift, dtype, bits)
    else:
        even, odd = center_pair(words, zero[:, None], shift, dtype, bits)
    return even, odd


@triton.jit
def _scaled(group_sums, scale, input_sums, offset, has_offsets: tl.constexpr):
    """Scales the sums of a group [outputs, rows], and adds what its offset adds to each of its weights."""
    scaled = group_sums * scale[:, None]
    if has_offsets:
        scaled += offset[:, None] * input_sums[None, :]
    return scaled
