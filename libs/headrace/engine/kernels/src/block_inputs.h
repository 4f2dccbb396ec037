// Inputs of products with GGUF's blocks: rounded to 8 bits with one scale for each span of columns.

#pragma once

#include "block_format.h"
#include "block_sums.h"
#include "matrix.h"
#include "pool.h"
#include "rounding.h"
#include "rows.h"
#include "workspace.h"

namespace headrace {
namespace HEADRACE_ISA {

// Numbers in Inputs::words of a row. With integer minima: the sums of codes of two groups in each word, the first in
// its low half. Otherwise: what the sum of each group begins with, so that codes count from their zero.
inline int64_t word_count(const BlockFormat &format, int64_t in) {
    return in / format.group / (format.span > 32 && format.has_minima ? 2 : 1);
}

inline void write_words(const BlockFormat &format, int32_t zero, const int8_t *codes, int64_t in, int32_t *words) {
    const bool has_pairs = format.span > 32 && format.has_minima;
    for (int64_t g = 0; g < in / format.group; ++g) {
        int32_t sum = 0;
        for (int64_t k = 0; k < format.group; ++k) sum += codes[g * format.group + k];
        if (!has_pairs)
            words[g] = -zero * sum;
        else if (g % 2 == 0)
            words[g / 2] = sum & 0xFFFF;
        else
            words[g / 2] |= static_cast<int32_t>(static_cast<uint32_t>(sum) << 16);
    }
}

// Prepares the inputs of `w`, a matrix of blocks, from rows of x, calling first(row) for each. Exact products take the
// rows as they are.
template <typename First>
Inputs prepare_for_blocks(const Matrix &w, float *x, int64_t rows, const First &first, Pool &pool, Workspace &space) {
    const BlockFormat format = block_format(w.storage);
    const int64_t spans = w.in / format.span;
    const int64_t width = word_count(format, w.in);
    const int32_t zero = format.zero - (w.storage == kQ8_0 ? taken_zero<kQ8_0>() : 0);
    int8_t *codes = space.codes.take(rows * w.in);
    float *scales = space.scales.take(rows * spans);
    float *sums = space.sums.take(rows * spans);
    int32_t *words = space.words.take(rows * width);
    int16_t *wide = space.wide.take(takes_wide(w.storage) ? rows * w.in : 0);
    over_rows(pool, rows, [&](int64_t row) {
        first(row);
        if (w.exact) return;
        for (int64_t i = 0; i < spans; ++i) {
            const int64_t from = row * w.in + i * format.span;
            const Rounded rounded = round_to_codes(x + from, format.span, 127.0f, codes + from);
            scales[row * spans + i] = rounded.unit;
            sums[row * spans + i] = rounded.unit * rounded.sum;
        }
        write_words(format, zero, codes + row * w.in, w.in, words + row * width);
        if (takes_wide(w.storage)) widen(codes + row * w.in, w.in, wide + row * w.in);
    });
    if (w.exact) return Inputs{x, nullptr, nullptr, nullptr};
    return Inputs{x, codes, scales, sums, words, wide};
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
