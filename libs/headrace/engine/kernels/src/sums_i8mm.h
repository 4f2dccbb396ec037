// Sums within a group of columns in NEON with matrix products of bytes: see group_sums.h.
//
// An instruction multiplies two rows of W by two rows of inputs, over eight columns. One row of inputs takes dot
// products, as in sums_neon.h; the functions here are for more, and chosen because they demand it.

#pragma once

#include <cstdint>

#include "accumulators.h"
#include "lanes.h"
#include "sums_neon.h"

namespace headrace {
namespace HEADRACE_ISA {

// Two rows of inputs, four quads of columns: `val[0]` has quads 0 and 2 of one row and of the other, `val[1]` quads 1
// and 3.
using RowPair = int8x16x2_t;

// Sums of 16 rows of W with two rows of inputs. Of each four rows of W, `first` has two, [w0 x0, w0 x1, w1 x0, w1 x1],
// and `second` the others.
struct PairSums {
    Ints first, second;
};

constexpr int pair_count(int rows) { return (rows + 1) / 2; }

template <int kPanels, int kPairs> HEADRACE_INLINE inline void clear(PairSums (&sums)[kPanels][kPairs]) {
    for (auto &pairs : sums)
        for (PairSums &sum : pairs) sum = {spread(int32_t{0}), spread(int32_t{0})};
}

// An odd last row is paired with itself.
template <int kRows, int kPairs>
HEADRACE_INLINE inline void load_row_pairs(const int8_t *x, int64_t stride, RowPair (&inputs)[kPairs]) {
    for (int i = 0; i < kPairs; ++i) {
        const int32x4_t one = vreinterpretq_s32_s8(vld1q_s8(x + 2 * i * stride));
        const int32x4_t other = vreinterpretq_s32_s8(vld1q_s8(x + (2 * i + 1 < kRows ? 2 * i + 1 : 2 * i) * stride));
        inputs[i].val[0] = vreinterpretq_s8_s32(vuzp1q_s32(one, other));
        inputs[i].val[1] = vreinterpretq_s8_s32(vuzp2q_s32(one, other));
    }
}

inline Ints zip_first(Ints x, Ints y) { return HEADRACE_PAIR(Ints, vzip1q_s32); }
inline Ints zip_second(Ints x, Ints y) { return HEADRACE_PAIR(Ints, vzip2q_s32); }
inline Ints unzip_first(Ints x, Ints y) { return HEADRACE_PAIR(Ints, vuzp1q_s32); }
inline Ints unzip_second(Ints x, Ints y) { return HEADRACE_PAIR(Ints, vuzp2q_s32); }

HEADRACE_INLINE inline Ints add_matrix_products(Ints s, Ints codes, int8x16_t inputs) {
    return {vusmmlaq_s32(s.a, vreinterpretq_u8_s32(codes.a), inputs),
            vusmmlaq_s32(s.b, vreinterpretq_u8_s32(codes.b), inputs),
            vusmmlaq_s32(s.c, vreinterpretq_u8_s32(codes.c), inputs),
            vusmmlaq_s32(s.d, vreinterpretq_u8_s32(codes.d), inputs)};
}

// Adds the products of the quads kQuad and kQuad + 2: a half of a register of codes has both, of a row of W, and lies
// in `first` or in `second` as its sums do.
template <int kQuad, int kPairs>
HEADRACE_INLINE inline void add_octets(Ints first, Ints second, const RowPair (&inputs)[kPairs],
                                       PairSums (&s)[kPairs]) {
    for (int i = 0; i < kPairs; ++i) s[i].first = add_matrix_products(s[i].first, first, inputs[i].val[kQuad]);
    for (int i = 0; i < kPairs; ++i) s[i].second = add_matrix_products(s[i].second, second, inputs[i].val[kQuad]);
    for (int i = 0; i < kPairs; ++i) {
        pin(s[i].first);
        pin(s[i].second);
    }
}

// Does so with the codes of quad kQuad in the lanes of `one`, and those of quad kQuad + 2 in the lanes of `other`.
template <int kQuad, int kPairs>
HEADRACE_INLINE inline void add_quads(Ints one, Ints other, const RowPair (&inputs)[kPairs], PairSums (&s)[kPairs]) {
    add_octets<kQuad>(zip_first(one, other), zip_second(one, other), inputs, s);
}

// Adds the sums of pairs to those of rows.
template <int kPanels, int kRows, int kPairs>
HEADRACE_INLINE inline void add_rows(const PairSums (&from)[kPanels][kPairs], Ints (&to)[kPanels][kRows]) {
    for (int j = 0; j < kPanels; ++j)
        for (int m = 0; m < kRows; ++m) {
            const PairSums &pair = from[j][m / 2];
            to[j][m] =
                to[j][m] + (m % 2 ? unzip_second(pair.first, pair.second) : unzip_first(pair.first, pair.second));
        }
}

// Adds the products of 16 columns. Nibbles are zipped before they are taken apart: the low ones have quads 0 and 2.
template <int kPairs>
HEADRACE_INLINE inline void add_nibbles(const uint8_t *p, const RowPair (&inputs)[kPairs], PairSums (&s)[kPairs]) {
    const Ints low = spread(int32_t{0x0F0F0F0F});
    const Ints one = load_i32(p);
    const Ints other = load_i32(p + 64);
    const Ints first = zip_first(one, other);
    const Ints second = zip_second(one, other);
    add_octets<0>(first & low, second & low, inputs, s);
    add_octets<1>(high_nibbles(first), high_nibbles(second), inputs, s);
}

template <int kPanels, int kRows>
    requires(kRows > 1)
inline void sum_u4(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    PairSums sums[kPanels][pair_count(kRows)];
    clear(sums);
    for (int64_t k = 0; k < count; k += 16, p += 128) {
        RowPair inputs[pair_count(kRows)];
        load_row_pairs<kRows>(x + k, stride, inputs);
        for (int j = 0; j < kPanels; ++j) {
            fetch_ahead<kPanels>(p);
            fetch_ahead<kPanels>(p + 64);
            add_nibbles(p + j * next, inputs, sums[j]);
        }
    }
    add_rows(sums, s);
}

template <int kPanels, int kRows>
    requires(kRows > 1)
inline void sum_u8(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    PairSums sums[kPanels][pair_count(kRows)];
    clear(sums);
    for (int64_t k = 0; k < count; k += 16, p += 256) {
        RowPair inputs[pair_count(kRows)];
        load_row_pairs<kRows>(x + k, stride, inputs);
        for (int j = 0; j < kPanels; ++j) {
            for (int line = 0; line < 256; line += 64) fetch_ahead<kPanels>(p + line);
            const uint8_t *codes = p + j * next;
            add_quads<0>(load_i32(codes), load_i32(codes + 128), inputs, sums[j]);
            add_quads<1>(load_i32(codes + 64), load_i32(codes + 192), inputs, sums[j]);
        }
    }
    add_rows(sums, s);
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
