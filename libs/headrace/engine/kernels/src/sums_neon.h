// Sums within a group of columns in NEON with dot products: see group_sums.h.

#pragma once

#include <cstdint>

#include "accumulators.h"
#include "lanes.h"

namespace headrace {
namespace HEADRACE_ISA {

#if defined(HEADRACE_I8MM)

constexpr int32_t kTakenZero = 0;

template <int kQuad> inline int32x4_t add_dots(int32x4_t s, int32x4_t codes, int8x16_t inputs) {
    return vusdotq_laneq_s32(s, vreinterpretq_u8_s32(codes), inputs, kQuad);
}

inline Ints without_taken_zero(Ints codes) { return codes; }

#else

constexpr int32_t kTakenZero = 128;

template <int kQuad> inline int32x4_t add_dots(int32x4_t s, int32x4_t codes, int8x16_t inputs) {
    return vdotq_laneq_s32(s, vreinterpretq_s8_s32(codes), inputs, kQuad);
}

inline Ints without_taken_zero(Ints codes) {
    const uint8x16_t flip = vdupq_n_u8(0x80);
    const auto each = [=](int32x4_t four) { return vreinterpretq_s32_u8(veorq_u8(vreinterpretq_u8_s32(four), flip)); };
    return {each(codes.a), each(codes.b), each(codes.c), each(codes.d)};
}

#endif

// Adds the products of four columns, one in each byte of a lane of `codes`, with the quad `kQuad` of sixteen inputs.
template <int kQuad> inline Ints add_quad(Ints s, Ints codes, int8x16_t inputs) {
    return {add_dots<kQuad>(s.a, codes.a, inputs), add_dots<kQuad>(s.b, codes.b, inputs),
            add_dots<kQuad>(s.c, codes.c, inputs), add_dots<kQuad>(s.d, codes.d, inputs)};
}

template <int kQuad, int kRows>
HEADRACE_INLINE inline void add_products(Ints codes, const int8x16_t (&inputs)[kRows], Ints (&s)[kRows]) {
    for (int m = 0; m < kRows; ++m) s[m] = add_quad<kQuad>(s[m], codes, inputs[m]);
    for (int m = 0; m < kRows; ++m) pin(s[m]);
}

template <int kRows>
HEADRACE_INLINE inline void load_inputs(const int8_t *x, int64_t stride, int8x16_t (&inputs)[kRows]) {
    for (int m = 0; m < kRows; ++m) inputs[m] = vld1q_s8(x + m * stride);
}

inline Ints high_nibbles(Ints bytes) {
    const auto each = [](int32x4_t four) { return vreinterpretq_s32_u8(vshrq_n_u8(vreinterpretq_u8_s32(four), 4)); };
    return {each(bytes.a), each(bytes.b), each(bytes.c), each(bytes.d)};
}

// Adds the products of eight columns: the low nibbles of 64 bytes hold four of them, the high nibbles the others.
template <int kQuad, int kRows>
HEADRACE_INLINE inline void add_eight(const uint8_t *p, const int8x16_t (&inputs)[kRows], Ints (&s)[kRows]) {
    const Ints low = spread(int32_t{0x0F0F0F0F});
    const Ints bytes = load_i32(p);
    add_products<kQuad>(bytes & low, inputs, s);
    add_products<kQuad + 1>(high_nibbles(bytes), inputs, s);
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

template <int kPanels, int kRows>
inline void sum_u8(const uint8_t *p, int64_t next, const int8_t *x, int64_t stride, int64_t count,
                   Ints (&s)[kPanels][kRows]) {
    for (int64_t k = 0; k < count; k += 16, p += 256) {
        int8x16_t inputs[kRows];
        load_inputs(x + k, stride, inputs);
        for (int j = 0; j < kPanels; ++j) {
            for (int line = 0; line < 256; line += 64) fetch_ahead<kPanels>(p + line);
            const uint8_t *codes = p + j * next;
            add_products<0>(without_taken_zero(load_i32(codes)), inputs, s[j]);
            add_products<1>(without_taken_zero(load_i32(codes + 64)), inputs, s[j]);
            add_products<2>(without_taken_zero(load_i32(codes + 128)), inputs, s[j]);
            add_products<3>(without_taken_zero(load_i32(codes + 192)), inputs, s[j]);
        }
    }
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
