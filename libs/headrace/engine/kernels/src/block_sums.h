// Codes of GGUF's blocks taken from a panel, and their dot products with input codes within one group of columns. The
// sums are integers, so every order of summation gives the same result.

#pragma once

#include <type_traits>
#include <utility>

#include "block_format.h"
#include "group_sums.h"
#include "lanes.h"

namespace headrace {
namespace HEADRACE_ISA {

// Calls body(constant) for each quad of columns: shifts need their distance when they are compiled.
template <int64_t kQuads, typename Body> HEADRACE_INLINE inline void each_quad(const Body &body) {
    [&]<int... kQuad>(std::integer_sequence<int, kQuad...>) HEADRACE_INLINE {
        (body(std::integral_constant<int, kQuad>{}), ...);
    }(std::make_integer_sequence<int, kQuads>{});
}

// Numbers of E2M1 in halves, plus the code of 0: 0 to 6, then 0 to -6.
alignas(16) constexpr uint8_t kHalves[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

// Returns the codes of four columns, one in each byte of a lane. `p` points to the codes of a group.
template <int kStorage, int kQuad> HEADRACE_INLINE inline Ints quad_codes(const uint8_t *p) {
    constexpr BlockFormat format = block_format(kStorage);
    if constexpr (format.high_bits < 0) return load_i32(p + kQuad * kLineBytes);
    const Ints nibbles = load_i32(p + kQuad / 2 * kLineBytes);
    const Ints low = (kQuad % 2 ? shift_right<4>(nibbles) : nibbles) & spread(int32_t{0x0F0F0F0F});
    if constexpr (format.is_float) return looked_up(kHalves, low);
    if constexpr (format.high_bits <= 0) return low;
    // The bits move to the places of 16 and 32.
    constexpr int kShift = 4 - kQuad * format.high_bits;
    Ints high = load_i32(p + format.low_bytes());
    if constexpr (kShift > 0) high = shift_left<kShift>(high);
    if constexpr (kShift < 0) high = shift_right<-kShift>(high);
    return low | (high & spread(int32_t{format.high_bits == 1 ? 0x10101010 : 0x30303030}));
}

template <int kPanels, int kRows> HEADRACE_INLINE inline void fetch_codes(const uint8_t *p) {
    if constexpr (kPanels == 1) __builtin_prefetch(p + kAhead);
    if constexpr (kPanels > 1 && kRows > 1) __builtin_prefetch(p + kAheadOfTile);
}

// Prefetches what follows the codes of a group, where the hardware does not. For one row it does, as measured, except
// with Q6_K, and with Q4_K and Q5_K up to the end of a page.
template <int kStorage, int kPanels, int kRows>
HEADRACE_INLINE inline void fetch_group(const uint8_t *p, int64_t next) {
    constexpr bool kEndsAtPages = kStorage == kQ4K || kStorage == kQ5K;
    if constexpr (kRows == 1 && !kEndsAtPages && (kPanels > 1 || kStorage != kQ6K)) return;
    for (int64_t line = 0; line < block_format(kStorage).code_bytes(); line += kLineBytes)
        for (int j = 0; j < kPanels; ++j) {
            const uint8_t *codes = p + j * next + line;
            if constexpr (kRows == 1 && kEndsAtPages)
                __builtin_prefetch(codes + kNextPage, 0, 2);
            else
                fetch_codes<kPanels, kRows>(codes);
        }
}

// Code of 0 that sum_group subtracts by itself; the rest is up to the number that its sums begin with.
template <int kStorage> constexpr int32_t taken_zero() { return kStorage == kQ8_0 ? kTakenZero : 0; }

// sum_group adds to `s[j][m]` the products of the group of panel j, `j * next` bytes after `p`, with row m of the
// inputs, `m * stride` codes after `x`.

#if defined(HEADRACE_AVX512)

template <int kStorage, int kPanels, int kRows>
HEADRACE_INLINE inline void sum_group(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride,
                                      Ints (&s)[kPanels][kRows]) {
    fetch_group<kStorage, kPanels, kRows>(p, next);
    each_quad<block_format(kStorage).group / 4>([&](auto quad) HEADRACE_INLINE {
        Ints codes[kPanels];
        for (int j = 0; j < kPanels; ++j) codes[j] = quad_codes<kStorage, quad>(p + j * next);
        for (int m = 0; m < kRows; ++m) {
            const __m512i four = _mm512_set1_epi32(load_word(x + m * stride + 4 * quad));
            for (int j = 0; j < kPanels; ++j) s[j][m].v = _mm512_dpbusd_epi32(s[j][m].v, codes[j].v, four);
        }
    });
}

#elif defined(HEADRACE_AVX_VNNI)

template <int kStorage, int kPanels, int kRows>
HEADRACE_INLINE inline void sum_group(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride,
                                      Ints (&s)[kPanels][kRows]) {
    fetch_group<kStorage, kPanels, kRows>(p, next);
    each_quad<block_format(kStorage).group / 4>([&](auto quad) HEADRACE_INLINE {
        for (int j = 0; j < kPanels; ++j)
            add_products(quad_codes<kStorage, quad>(p + j * next), x + 4 * quad, stride, s[j]);
    });
}

#elif defined(HEADRACE_AVX2)

// Quads whose products fit 16 bits together: at most 15, 31 or 63 times 127, two in a lane, for each quad. Halves of
// E2M1 are at most 24.
template <int kStorage> constexpr int narrow_quads() {
    constexpr int kHigh = block_format(kStorage).is_float ? 1 : block_format(kStorage).high_bits;
    return kHigh == 0 ? 8 : kHigh == 1 ? 4 : 2;
}

template <int kStorage, int kPanels, int kRows>
HEADRACE_INLINE inline void sum_group(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride,
                                      Ints (&s)[kPanels][kRows]) {
    const __m256i ones = _mm256_set1_epi16(1);
    fetch_group<kStorage, kPanels, kRows>(p, next);
    for (int j = 0; j < kPanels; ++j) {
        Ints narrow[kRows];
        each_quad<block_format(kStorage).group / 4>([&](auto quad) HEADRACE_INLINE {
            const Ints codes = quad_codes<kStorage, quad>(p + j * next);
            for (int m = 0; m < kRows; ++m) {
                const __m256i four = _mm256_set1_epi32(load_word(x + m * stride + 4 * quad));
                const Ints products{_mm256_maddubs_epi16(codes.a, four), _mm256_maddubs_epi16(codes.b, four)};
                if constexpr (quad % narrow_quads<kStorage>() == 0)
                    narrow[m] = products;
                else
                    narrow[m] = {_mm256_add_epi16(narrow[m].a, products.a), _mm256_add_epi16(narrow[m].b, products.b)};
                pin(narrow[m]);
                if constexpr (quad % narrow_quads<kStorage>() == narrow_quads<kStorage>() - 1)
                    s[j][m] =
                        s[j][m] + Ints{_mm256_madd_epi16(narrow[m].a, ones), _mm256_madd_epi16(narrow[m].b, ones)};
            }
        });
    }
}

// Bytes, as in panels of u8.
template <int kStorage, int kPanels, int kRows>
HEADRACE_INLINE inline void sum_group(const uint8_t *p, int64_t next, const int16_t *x, int64_t stride,
                                      Ints (&s)[kPanels][kRows]) {
    sum_u8(p, next, x, stride, block_format(kStorage).group, s);
}

#elif defined(HEADRACE_NEON)

template <int kStorage, int kPanels, int kRows>
HEADRACE_INLINE inline void sum_group(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride,
                                      Ints (&s)[kPanels][kRows]) {
    fetch_group<kStorage, kPanels, kRows>(p, next);
    each_quad<block_format(kStorage).group / 4>([&](auto quad) HEADRACE_INLINE {
        int8x16_t inputs[kRows];
        load_inputs(x + quad / 4 * 16, stride, inputs);
        for (int j = 0; j < kPanels; ++j) {
            Ints codes = quad_codes<kStorage, quad>(p + j * next);
            if constexpr (kStorage == kQ8_0) codes = without_taken_zero(codes);
            add_products<quad % 4>(codes, inputs, s[j]);
        }
    });
}

#else

// Not inlined, so that tiles share it: it takes long to compile and is for processors that are slow anyway.
template <int kStorage, int kQuad> __attribute__((noinline)) Ints add_quad(Ints s, const uint8_t *p, const int8_t *x) {
    const Ints codes = quad_codes<kStorage, kQuad>(p);
    for (int n = 0; n < kPanel * 4; ++n) s.v[n / 4] += (codes.v[n / 4] >> n % 4 * 8 & 255) * x[4 * kQuad + n % 4];
    return s;
}

template <int kStorage, int kPanels, int kRows>
inline void sum_group(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, Ints (&s)[kPanels][kRows]) {
    each_quad<block_format(kStorage).group / 4>([&](auto quad) {
        for (int j = 0; j < kPanels; ++j)
            for (int m = 0; m < kRows; ++m) s[j][m] = add_quad<kStorage, quad>(s[j][m], p + j * next, x + m * stride);
    });
}

#endif

}  // namespace HEADRACE_ISA
}  // namespace headrace
