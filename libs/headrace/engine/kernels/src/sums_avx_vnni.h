// Sums within a group of columns in AVX2 with dot products of bytes: see group_sums.h.

#pragma once

#include <cstdint>

#include "accumulators.h"
#include "lanes.h"

namespace headrace {
namespace HEADRACE_ISA {

constexpr int32_t kTakenZero = 0;

// Adds to each lane the products of its four unsigned bytes with the four signed ones at `x`.
inline void add_products(Ints &s, Ints codes, const int8_t *x) {
    const __m256i four = _mm256_set1_epi32(load_word(x));
    s.a = _mm256_dpbusd_epi32(s.a, codes.a, four);
    s.b = _mm256_dpbusd_epi32(s.b, codes.b, four);
    pin(s);
}

// Does the same for each row of x.
template <int kRows> inline void add_products(Ints codes, const int8_t *x, int64_t stride, Ints (&s)[kRows]) {
    for (int m = 0; m < kRows; ++m) add_products(s[m], codes, x + m * stride);
}

inline Ints add_bytes(Ints x, Ints y) { return {_mm256_add_epi8(x.a, y.a), _mm256_add_epi8(x.b, y.b)}; }

template <int kPanels, int kRows>
inline void sum_u4(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    const Ints low = spread(int32_t{0x0F0F0F0F});
    for (int64_t k = 0; k < count; k += 8, p += 64)
        for (int j = 0; j < kPanels; ++j) {
            fetch_ahead<kPanels>(p);
            const Ints bytes = load_i32(p + j * next);
            add_products(bytes & low, x + k, stride, s[j]);
            add_products(shift_right<4>(bytes) & low, x + k + 4, stride, s[j]);
        }
}

template <int kPanels, int kRows>
inline void sum_u8(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    for (int64_t k = 0; k < count; k += 4, p += 64)
        for (int j = 0; j < kPanels; ++j) {
            fetch_ahead<kPanels>(p);
            add_products(load_i32(p + j * next), x + k, stride, s[j]);
        }
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
