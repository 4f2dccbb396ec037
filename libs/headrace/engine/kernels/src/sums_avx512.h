// Sums within a group of columns in AVX-512 with VNNI: see group_sums.h.

#pragma once

#include <cstdint>

#include "accumulators.h"
#include "lanes.h"

namespace headrace {
namespace HEADRACE_ISA {

constexpr int32_t kTakenZero = 0;

// Adds to each lane the products of its four unsigned bytes with the four signed ones at `x`.
inline void add_products(Ints &s, Ints codes, const int8_t *x) {
#if defined(HEADRACE_EMULATED)
    s.v = _mm512_dpbusd_epi32(s.v, codes.v, _mm512_set1_epi32(load_word(x)));
#else
    // GCC 12 spreads the four in an instruction of its own.
    asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(s.v) : "v"(codes.v), "m"(*reinterpret_cast<const int32_t *>(x)));
#endif
}

inline Ints add_bytes(Ints a, Ints b) { return {_mm512_add_epi8(a.v, b.v)}; }

template <int kPanels, int kRows>
inline void sum_u4(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    const __m512i low = _mm512_set1_epi8(15);
    // Separate accumulators for the high nibbles: a single dependency chain would be bound by its latency.
    Ints others[kPanels][kRows];
    clear(others);
    for (int64_t k = 0; k < count; k += 8, p += 64)
        for (int j = 0; j < kPanels; ++j) {
            fetch_ahead<kPanels>(p);
            const __m512i bytes = _mm512_loadu_si512(p + j * next);
            const __m512i first = _mm512_and_si512(bytes, low);
            const __m512i second = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), low);
            for (int m = 0; m < kRows; ++m) {
                const int8_t *eight = x + m * stride + k;
                s[j][m].v = _mm512_dpbusd_epi32(s[j][m].v, first, _mm512_set1_epi32(load_word(eight)));
                others[j][m].v = _mm512_dpbusd_epi32(others[j][m].v, second, _mm512_set1_epi32(load_word(eight + 4)));
            }
        }
    add(others, s);
}

template <int kPanels, int kRows>
inline void sum_u8(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    for (int64_t k = 0; k < count; k += 4, p += 64) {
        __m512i codes[kPanels];
        for (int j = 0; j < kPanels; ++j) {
            fetch_ahead<kPanels>(p + j * next);
            if constexpr (kPanels > 1) __builtin_prefetch(p + j * next + kAheadOfTile);
            codes[j] = _mm512_loadu_si512(p + j * next);
        }
        for (int m = 0; m < kRows; ++m) {
            const __m512i four = _mm512_set1_epi32(load_word(x + m * stride + k));
            for (int j = 0; j < kPanels; ++j) s[j][m].v = _mm512_dpbusd_epi32(s[j][m].v, codes[j], four);
        }
    }
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
