// Dot products of weight codes and input codes within one group of columns. They are integers, so every order of
// summation gives the same result.

#pragma once

#include <cstdint>

#include "lanes.h"

namespace headrace {
namespace HEADRACE_ISA {

// Prefetch distances in bytes.
constexpr int64_t kAhead = 512;
constexpr int64_t kAheadOfTile = 1024;

template <int kPanels, int kRows> inline void clear(Ints (&sums)[kPanels][kRows]) {
    for (auto &rows : sums)
        for (Ints &sum : rows) sum = spread(int32_t{0});
}

template <int kPanels, int kRows> inline void add(const Ints (&from)[kPanels][kRows], Ints (&to)[kPanels][kRows]) {
    for (int j = 0; j < kPanels; ++j)
        for (int m = 0; m < kRows; ++m) to[j][m] = to[j][m] + from[j][m];
}

// The hardware prefetches a single panel by itself, which is read in order, but not beyond the end of its page.
template <int kPanels> inline void fetch_ahead(const uint8_t *p) {
    if constexpr (kPanels == 1) __builtin_prefetch(p + kAhead);
}

// The number that sum_u8 subtracts from each code, where the instruction set multiplies signed bytes.
#if (defined(HEADRACE_AVX2) && !defined(HEADRACE_AVX_VNNI)) || defined(HEADRACE_NEON)
constexpr int32_t kTakenZero = 128;
#else
constexpr int32_t kTakenZero = 0;
#endif

// sum_u4 and sum_u8 add to the accumulators `s[j][m]` the products of `count` columns of panel j, `j * next` bytes
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

template <int kPanels, int kRows>
inline void sum_u8(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    for (int64_t k = 0; k < count; k += 4, p += 64) {
        __m512i codes[kPanels];
        for (int j = 0; j < kPanels; ++j) {
            __builtin_prefetch(p + j * next + (kPanels == 1 ? kAhead : kAheadOfTile));
            codes[j] = _mm512_loadu_si512(p + j * next);
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

template <int kPanels, int kRows>
inline void sum_u8(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    for (int64_t k = 0; k < count; k += 4, p += 64)
        for (int j = 0; j < kPanels; ++j) {
            fetch_ahead<kPanels>(p);
            add_products(load_i32(p + j * next), x + k, stride, s[j]);
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

// Products of signed bytes: the signs of the codes move to the inputs. The largest sum of two, 2 * 128 * 127, fits 16
// bits.
inline __m256i multiply_signed(__m256i codes, __m256i four) {
    return _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(four, codes));
}

template <int kPanels, int kRows>
inline void sum_u8(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i flip = _mm256_set1_epi8(-128);
    for (int64_t k = 0; k < count; k += 4, p += 64)
        for (int j = 0; j < kPanels; ++j) {
            fetch_ahead<kPanels>(p);
            const Ints bytes = load_i32(p + j * next);
            const Ints codes{_mm256_xor_si256(bytes.a, flip), _mm256_xor_si256(bytes.b, flip)};
            for (int m = 0; m < kRows; ++m) {
                const __m256i four = _mm256_set1_epi32(load_word(x + m * stride + k));
                s[j][m] = s[j][m] + Ints{_mm256_madd_epi16(multiply_signed(codes.a, four), ones),
                                         _mm256_madd_epi16(multiply_signed(codes.b, four), ones)};
                pin(s[j][m]);
            }
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

// Makes codes signed.
inline Ints to_signed(Ints codes) {
    const uint8x16_t flip = vdupq_n_u8(0x80);
    const auto each = [=](int32x4_t four) { return vreinterpretq_s32_u8(veorq_u8(vreinterpretq_u8_s32(four), flip)); };
    return {each(codes.a), each(codes.b), each(codes.c), each(codes.d)};
}

template <int kPanels, int kRows>
inline void sum_u8(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    for (int64_t k = 0; k < count; k += 16, p += 256) {
        int8x16_t inputs[kRows];
        load_inputs(x + k, stride, inputs);
        for (int j = 0; j < kPanels; ++j) {
            for (int line = 0; line < 256; line += 64) fetch_ahead<kPanels>(p + line);
            const uint8_t *codes = p + j * next;
            add_products<0>(to_signed(load_i32(codes)), inputs, s[j]);
            add_products<1>(to_signed(load_i32(codes + 64)), inputs, s[j]);
            add_products<2>(to_signed(load_i32(codes + 128)), inputs, s[j]);
            add_products<3>(to_signed(load_i32(codes + 192)), inputs, s[j]);
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

template <int kPanels, int kRows>
inline void sum_u8(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    for (int j = 0; j < kPanels; ++j)
        for (int m = 0; m < kRows; ++m)
            for (int64_t k = 0; k < count; k += 4)
                for (int n = 0; n < kPanel * 4; ++n)
                    s[j][m].v[n / 4] += p[j * next + k * kPanel + n] * x[m * stride + k + n % 4];
}

#endif

}  // namespace HEADRACE_ISA
}  // namespace headrace
