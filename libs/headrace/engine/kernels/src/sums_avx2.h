// Sums within a group of columns in AVX2: see group_sums.h.

#pragma once

#include <cstdint>

#include "accumulators.h"
#include "lanes.h"

namespace headrace {
namespace HEADRACE_ISA {

constexpr int32_t kTakenZero = 0;

// Adds, in 16 bits, the products of the nibbles in each lane with the four signed bytes at `x`: those of two columns in
// each half of the lane.
inline void add_products(Ints &s, Ints codes, const int8_t *x) {
    const __m256i four = _mm256_set1_epi32(load_word(x));
    s.a = _mm256_add_epi16(s.a, _mm256_maddubs_epi16(codes.a, four));
    s.b = _mm256_add_epi16(s.b, _mm256_maddubs_epi16(codes.b, four));
    pin(s);
}

// Does the same for each row of x.
template <int kRows> inline void add_products(Ints codes, const int8_t *x, int64_t stride, Ints (&s)[kRows]) {
    for (int m = 0; m < kRows; ++m) add_products(s[m], codes, x + m * stride);
}

// Products of u4 and s8 are at most 15 * 127, so sixteen of them fit 16 bits: widening once per 32 columns is enough.
constexpr int kNarrowColumns = 32;

inline Ints widened(Ints narrow) {
    const __m256i ones = _mm256_set1_epi16(1);
    return {_mm256_madd_epi16(narrow.a, ones), _mm256_madd_epi16(narrow.b, ones)};
}

// Adds the products of eight columns: the low nibbles of 64 bytes hold four of them, the high nibbles the others.
template <int kRows> inline void add_eight(const uint8_t *p, const int8_t *x, int64_t stride, Ints (&narrow)[kRows]) {
    const __m256i low = _mm256_set1_epi8(15);
    const Ints bytes = load_i32(p);
    const Ints first{_mm256_and_si256(bytes.a, low), _mm256_and_si256(bytes.b, low)};
    add_products<kRows>(first, x, stride, narrow);
    const Ints shifted = shift_right<4>(kRows == 1 ? bytes : load_i32(p));
    add_products<kRows>({_mm256_and_si256(shifted.a, low), _mm256_and_si256(shifted.b, low)}, x + 4, stride, narrow);
}

template <int kPanels, int kRows>
inline void sum_u4(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    for (int64_t k = 0; k < count; k += kNarrowColumns) {
        Ints narrow[kPanels][kRows];
        Ints wide[kPanels][kRows];
        clear(narrow);
#pragma GCC unroll 1
        for (int64_t step = k; step < k + kNarrowColumns; step += 8, p += 64)
            for (int j = 0; j < kPanels; ++j) {
                fetch_ahead<kPanels>(p);
                add_eight<kRows>(p + j * next, x + step, stride, narrow[j]);
            }
        for (int j = 0; j < kPanels; ++j)
            for (int m = 0; m < kRows; ++m) wide[j][m] = widened(narrow[j][m]);
        add(wide, s);
    }
}

// Two products of bytes may not fit 16 bits, so both are widened: codes here, inputs before (see `widen`).
template <int kPanels, int kRows>
inline void sum_u8(const uint8_t *p, int64_t next, const int16_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    const __m256i low = _mm256_set1_epi16(255);
    for (int64_t k = 0; k < count; k += 4, p += 64)
        for (int j = 0; j < kPanels; ++j) {
            fetch_ahead<kPanels>(p);
            const Ints bytes = load_i32(p + j * next);
            const Pairs even{_mm256_and_si256(bytes.a, low), _mm256_and_si256(bytes.b, low)};
            const Pairs odd{_mm256_srli_epi16(bytes.a, 8), _mm256_srli_epi16(bytes.b, 8)};
            for (int m = 0; m < kRows; ++m) {
                const int16_t *four = x + m * stride + k;
                s[j][m] = add_pairs(add_pairs(s[j][m], even, load_word(four)), odd, load_word(four + 2));
                pin(s[j][m]);
            }
        }
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
