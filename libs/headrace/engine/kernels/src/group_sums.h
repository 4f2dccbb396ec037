// Dot products of weight codes and input codes within one group of columns. They are integers, so every order of
// summation gives the same result.

#pragma once

#include <cstdint>

#include "lanes.h"

namespace headrace {
namespace HEADRACE_ISA {

constexpr int kPanel = 16;        // Rows of W in a panel.
constexpr int64_t kAhead = 2048;  // Prefetch distance in bytes.
constexpr int64_t kAheadOfTile = 1024;

template <int kPanels, int kRows> inline void clear(Ints (&sums)[kPanels][kRows]) {
    for (auto &rows : sums)
        for (Ints &sum : rows) sum = spread(int32_t{0});
}

template <int kPanels, int kRows> inline void add(const Ints (&from)[kPanels][kRows], Ints (&to)[kPanels][kRows]) {
    for (int j = 0; j < kPanels; ++j)
        for (int m = 0; m < kRows; ++m) to[j][m] = to[j][m] + from[j][m];
}

// With a single panel the hardware prefetcher does not run far enough ahead.
template <int kPanels> inline void fetch_ahead(const uint8_t *p) {
    if constexpr (kPanels == 1) __builtin_prefetch(p + kAhead);
}

// Codes of inputs for s8: bytes where the instruction set multiplies bytes, else words.
#if defined(HEADRACE_AVX512) || defined(HEADRACE_AVX_VNNI)
using S8Input = int8_t;
constexpr float kS8Shift = 128.0f;  // Number that sum_s8 adds to each code of the weights, to make it unsigned.
#elif defined(HEADRACE_NEON)
using S8Input = int8_t;
constexpr float kS8Shift = 0.0f;
#else
using S8Input = int16_t;
constexpr float kS8Shift = 0.0f;
#endif

// sum_u4 and sum_s8 add to the accumulators `s[j][m]` the products of `count` columns of panel j, `j * next` bytes
// after `p`, with row m of the inputs, `m * stride` codes after `x`. matrix.h has the layout of a panel.

#if defined(HEADRACE_AVX512)

// Sums a tile of several rows and panels, which has chains enough: weights are unpacked once for all rows, and inputs
// are spread once for all panels.
template <int kPanels, int kRows>
inline void sum_u4_tile(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                        Ints (&s)[kPanels][kRows]) {
    const __m512i low = _mm512_set1_epi8(15);
    for (int64_t k = 0; k < count; k += 8, p += 64) {
        __m512i first[kPanels], second[kPanels];
        for (int j = 0; j < kPanels; ++j) {
            __builtin_prefetch(p + j * next + kAheadOfTile);
            const __m512i bytes = _mm512_loadu_si512(p + j * next);
            first[j] = _mm512_and_si512(bytes, low);
            second[j] = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), low);
        }
        for (int m = 0; m < kRows; ++m) {
            const int8_t *eight = x + m * stride + k;
            const __m512i four = _mm512_set1_epi32(load_word(eight));
            for (int j = 0; j < kPanels; ++j) s[j][m].v = _mm512_dpbusd_epi32(s[j][m].v, first[j], four);
        }
        for (int m = 0; m < kRows; ++m) {
            const __m512i four = _mm512_set1_epi32(load_word(x + m * stride + k + 4));
            for (int j = 0; j < kPanels; ++j) s[j][m].v = _mm512_dpbusd_epi32(s[j][m].v, second[j], four);
        }
    }
}

template <int kPanels, int kRows>
inline void sum_u4(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    if constexpr (kPanels > 1 && kRows > 1) return sum_u4_tile(p, next, x, stride, count, s);
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

// Two pairs of columns lie one after the other: their words are put side by side, for one product of four columns.
template <int kPanels, int kRows>
inline void sum_s8(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    const __m512i flip = _mm512_set1_epi8(-128);
    const __m512i side_by_side = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
                                                  22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    for (int64_t k = 0; k < count; k += 4, p += 64) {
        __m512i codes[kPanels];
        for (int j = 0; j < kPanels; ++j) {
            fetch_ahead<kPanels>(p);
            const __m512i bytes = _mm512_loadu_si512(p + j * next);
            codes[j] = _mm512_xor_si512(_mm512_permutexvar_epi16(side_by_side, bytes), flip);
        }
        for (int m = 0; m < kRows; ++m) {
            const __m512i four = _mm512_set1_epi32(load_word(x + m * stride + k));
            for (int j = 0; j < kPanels; ++j) s[j][m].v = _mm512_dpbusd_epi32(s[j][m].v, codes[j], four);
        }
    }
}

#elif defined(HEADRACE_AVX_VNNI)

// Adds the products of four columns, one in each byte of a lane of `codes`, with four inputs for each row of x.
template <int kRows> inline void add_products(Ints codes, const int8_t *x, int64_t stride, Ints (&s)[kRows]) {
    for (int m = 0; m < kRows; ++m) {
        const __m256i four = _mm256_set1_epi32(load_word(x + m * stride));
        s[m].a = _mm256_dpbusd_epi32(s[m].a, codes.a, four);
        s[m].b = _mm256_dpbusd_epi32(s[m].b, codes.b, four);
        pin(s[m]);
    }
}

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

// Two pairs of columns lie one after the other: returns the four of a row side by side, made unsigned.
inline Ints zip_pairs(const uint8_t *p) {
    const __m256i flip = _mm256_set1_epi8(-128);
    const Ints pairs = load_i32(p);
    const __m256i low = _mm256_xor_si256(_mm256_unpacklo_epi16(pairs.a, pairs.b), flip);
    const __m256i high = _mm256_xor_si256(_mm256_unpackhi_epi16(pairs.a, pairs.b), flip);
    return {_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31)};
}

template <int kPanels, int kRows>
inline void sum_s8(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    for (int64_t k = 0; k < count; k += 4, p += 64)
        for (int j = 0; j < kPanels; ++j) {
            fetch_ahead<kPanels>(p);
            add_products(zip_pairs(p + j * next), x + k, stride, s[j]);
        }
}

#elif defined(HEADRACE_AVX2)

// Adds the products of four columns, one nibble each of 16 rows of W, with kRows rows of x.
template <int kRows> inline void add_products(Ints codes, const int8_t *x, int64_t stride, Ints (&s)[kRows]) {
    for (int m = 0; m < kRows; ++m) {
        const __m256i four = _mm256_set1_epi32(load_word(x + m * stride));
        s[m].a = _mm256_add_epi16(s[m].a, _mm256_maddubs_epi16(codes.a, four));
        s[m].b = _mm256_add_epi16(s[m].b, _mm256_maddubs_epi16(codes.b, four));
        pin(s[m]);
    }
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

// Products of u4 and s8 are at most 15 * 127, so sixteen of them fit 16 bits: widening once per 32 columns is enough.
template <int kPanels, int kRows>
inline void sum_u4(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    const __m256i ones = _mm256_set1_epi16(1);
    for (int64_t k = 0; k < count; k += 32) {
        Ints narrow[kPanels][kRows];
        Ints wide[kPanels][kRows];
        clear(narrow);
#pragma GCC unroll 1
        for (int64_t step = k; step < k + 32; step += 8, p += 64)
            for (int j = 0; j < kPanels; ++j) {
                fetch_ahead<kPanels>(p);
                add_eight<kRows>(p + j * next, x + step, stride, narrow[j]);
            }
        for (int j = 0; j < kPanels; ++j)
            for (int m = 0; m < kRows; ++m)
                wide[j][m] = {_mm256_madd_epi16(narrow[j][m].a, ones), _mm256_madd_epi16(narrow[j][m].b, ones)};
        add(wide, s);
    }
}

#elif defined(HEADRACE_NEON)

// Adds the products of four columns, one in each byte of a lane of `codes`, with the quad `kQuad` of sixteen inputs.
template <int kQuad> inline Ints add_quad(Ints s, Ints codes, int8x16_t inputs) {
    return {vdotq_laneq_s32(s.a, vreinterpretq_s8_s32(codes.a), inputs, kQuad),
            vdotq_laneq_s32(s.b, vreinterpretq_s8_s32(codes.b), inputs, kQuad),
            vdotq_laneq_s32(s.c, vreinterpretq_s8_s32(codes.c), inputs, kQuad),
            vdotq_laneq_s32(s.d, vreinterpretq_s8_s32(codes.d), inputs, kQuad)};
}

template <int kQuad, int kRows>
inline void add_products(Ints codes, const int8x16_t (&inputs)[kRows], Ints (&s)[kRows]) {
    for (int m = 0; m < kRows; ++m) s[m] = add_quad<kQuad>(s[m], codes, inputs[m]);
    for (int m = 0; m < kRows; ++m) pin(s[m]);
}

template <int kRows> inline void load_inputs(const int8_t *x, int64_t stride, int8x16_t (&inputs)[kRows]) {
    for (int m = 0; m < kRows; ++m) inputs[m] = vld1q_s8(x + m * stride);
}

// Adds the products of eight columns: the low nibbles of 64 bytes hold four of them, the high nibbles the others.
template <int kQuad, int kRows>
inline void add_eight(const uint8_t *p, const int8x16_t (&inputs)[kRows], Ints (&s)[kRows]) {
    const Ints low = spread(int32_t{0x0F0F0F0F});
    const Ints bytes = load_i32(p);
    add_products<kQuad>(bytes & low, inputs, s);
    add_products<kQuad + 1>(shift_right<4>(bytes) & low, inputs, s);
}

template <int kPanels, int kRows>
inline void sum_u4(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    for (int64_t k = 0; k < count; k += 16, p += 128) {
        int8x16_t inputs[kRows];
        load_inputs(x + k, stride, inputs);
        for (int j = 0; j < kPanels; ++j) {
            fetch_ahead<kPanels>(p);
            fetch_ahead<kPanels>(p + 64);
            add_eight<0>(p + j * next, inputs, s[j]);
            add_eight<2>(p + j * next + 64, inputs, s[j]);
        }
    }
}

// Two pairs of columns lie one after the other: returns the four of a row side by side.
inline Ints zip_pairs(const uint8_t *p) {
    const Ints x = load_i32(p);
    const auto words = [](int32x4_t each) { return vreinterpretq_s16_s32(each); };
    const auto zip_low = [&](int32x4_t first, int32x4_t second) {
        return vreinterpretq_s32_s16(vzip1q_s16(words(first), words(second)));
    };
    const auto zip_high = [&](int32x4_t first, int32x4_t second) {
        return vreinterpretq_s32_s16(vzip2q_s16(words(first), words(second)));
    };
    return {zip_low(x.a, x.c), zip_high(x.a, x.c), zip_low(x.b, x.d), zip_high(x.b, x.d)};
}

template <int kPanels, int kRows>
inline void sum_s8(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    for (int64_t k = 0; k < count; k += 16, p += 256) {
        int8x16_t inputs[kRows];
        load_inputs(x + k, stride, inputs);
        for (int j = 0; j < kPanels; ++j) {
            for (int line = 0; line < 256; line += 64) fetch_ahead<kPanels>(p + line);
            const uint8_t *codes = p + j * next;
            add_products<0>(zip_pairs(codes), inputs, s[j]);
            add_products<1>(zip_pairs(codes + 64), inputs, s[j]);
            add_products<2>(zip_pairs(codes + 128), inputs, s[j]);
            add_products<3>(zip_pairs(codes + 192), inputs, s[j]);
        }
    }
}

#else

template <int kPanels, int kRows>
inline void sum_u4(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    for (int j = 0; j < kPanels; ++j)
        for (int m = 0; m < kRows; ++m)
            for (int64_t k = 0; k < count; k += 8)
                for (int n = 0; n < kPanel * 4; ++n) {
                    const int8_t *four = x + m * stride + k + n % 4;
                    const uint8_t codes = p[j * next + k * 8 + n];
                    s[j][m].v[n / 4] += (codes & 15) * four[0] + (codes >> 4) * four[4];
                }
}

#endif

#if !defined(HEADRACE_AVX512) && !defined(HEADRACE_AVX_VNNI) && !defined(HEADRACE_NEON)

template <int kPanels, int kRows>
inline void sum_s8(const uint8_t *p, int64_t next, const int16_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
#pragma GCC unroll 2
    for (int64_t k = 0; k < count; k += 2, p += 32)
        for (int j = 0; j < kPanels; ++j) {
            fetch_ahead<kPanels>(p);
            const Pairs codes = load_pairs(p + j * next);
            for (int m = 0; m < kRows; ++m) {
                s[j][m] = add_pairs(s[j][m], codes, load_word(x + m * stride + k));
                pin(s[j][m]);
            }
        }
}

#endif

}  // namespace HEADRACE_ISA
}  // namespace headrace
