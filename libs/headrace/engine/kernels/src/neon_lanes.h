// Vectors of 16 lanes in NEON, four registers each: see lanes.h.

#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace headrace {
namespace HEADRACE_ISA {

struct Floats {
    float32x4_t a, b, c, d;
};
struct Ints {
    int32x4_t a, b, c, d;
};
// The first integers of 16 pairs, then the second ones: lanes multiply by one of two numbers at a time.
struct Pairs {
    int16x8_t first_a, first_b, second_a, second_b;
};

#define HEADRACE_ALL(type, op, ...) \
    type { op(x.a, ##__VA_ARGS__), op(x.b, ##__VA_ARGS__), op(x.c, ##__VA_ARGS__), op(x.d, ##__VA_ARGS__) }
#define HEADRACE_PAIR(type, op) \
    type { op(x.a, y.a), op(x.b, y.b), op(x.c, y.c), op(x.d, y.d) }
#define HEADRACE_THREE(type, op) \
    type { op(x.a, y.a, z.a), op(x.b, y.b, z.b), op(x.c, y.c, z.c), op(x.d, y.d, z.d) }

// Unlike fmax and fmaxnm, return the second operand if either is NaN or both are zero, as maxps and minps do.
inline float32x4_t larger_of(float32x4_t x, float32x4_t y) { return vbslq_f32(vcgtq_f32(x, y), x, y); }
inline float32x4_t smaller_of(float32x4_t x, float32x4_t y) { return vbslq_f32(vcltq_f32(x, y), x, y); }
// Rounds to nearest, ties to even. Gives INT32_MIN for all that does not fit, as cvtps2dq does.
inline int32x4_t round_each(float32x4_t x) {
    const uint32x4_t below = vcltq_f32(x, vdupq_n_f32(2147483648.0f));
    return vbslq_s32(below, vcvtnq_s32_f32(x), vdupq_n_s32(INT32_MIN));
}
inline float32x4_t add_product(float32x4_t x, float32x4_t y, float32x4_t z) { return vfmaq_f32(z, x, y); }
inline float32x4_t keep_at_least(float32x4_t x, float32x4_t y, float32x4_t z) {
    return vreinterpretq_f32_u32(vandq_u32(vcgeq_f32(x, y), vreinterpretq_u32_f32(z)));
}

inline Floats load(const float *p) { return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}; }
inline void store(float *p, Floats x) {
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
    vst1q_f32(p + 8, x.c);
    vst1q_f32(p + 12, x.d);
}
inline Floats spread(float v) {
    const float32x4_t x = vdupq_n_f32(v);
    return {x, x, x, x};
}
inline Floats operator+(Floats x, Floats y) { return HEADRACE_PAIR(Floats, vaddq_f32); }
inline Floats operator-(Floats x, Floats y) { return HEADRACE_PAIR(Floats, vsubq_f32); }
inline Floats operator*(Floats x, Floats y) { return HEADRACE_PAIR(Floats, vmulq_f32); }
inline Floats operator/(Floats x, Floats y) { return HEADRACE_PAIR(Floats, vdivq_f32); }
inline Floats fma(Floats x, Floats y, Floats z) { return HEADRACE_THREE(Floats, add_product); }
inline Floats larger(Floats x, Floats y) { return HEADRACE_PAIR(Floats, larger_of); }
inline Floats smaller(Floats x, Floats y) { return HEADRACE_PAIR(Floats, smaller_of); }
inline Floats magnitude(Floats x) { return HEADRACE_ALL(Floats, vabsq_f32); }
inline Floats as_floats(Ints x) { return HEADRACE_ALL(Floats, vreinterpretq_f32_s32); }
inline Floats to_floats(Ints x) { return HEADRACE_ALL(Floats, vcvtq_f32_s32); }
inline Ints as_ints(Floats x) { return HEADRACE_ALL(Ints, vreinterpretq_s32_f32); }
inline Ints round_to_ints(Floats x) { return HEADRACE_ALL(Ints, round_each); }
inline Ints spread(int32_t v) {
    const int32x4_t x = vdupq_n_s32(v);
    return {x, x, x, x};
}
inline Ints operator+(Ints x, Ints y) { return HEADRACE_PAIR(Ints, vaddq_s32); }
inline Ints operator*(Ints x, Ints y) { return HEADRACE_PAIR(Ints, vmulq_s32); }
inline Ints operator&(Ints x, Ints y) { return HEADRACE_PAIR(Ints, vandq_s32); }
inline Ints larger(Ints x, Ints y) { return HEADRACE_PAIR(Ints, vmaxq_s32); }
inline Ints operator|(Ints x, Ints y) { return HEADRACE_PAIR(Ints, vorrq_s32); }
template <int kBits> inline int32x4_t shift_each_right(int32x4_t x) {
    return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(x), kBits));
}
template <int kBits> inline Ints shift_left(Ints x) { return HEADRACE_ALL(Ints, vshlq_n_s32, kBits); }
template <int kBits> inline Ints shift_right(Ints x) { return HEADRACE_ALL(Ints, shift_each_right<kBits>); }
inline Ints widen(int16x8_t x, int16x8_t y) {
    return {vmovl_s16(vget_low_s16(x)), vmovl_high_s16(x), vmovl_s16(vget_low_s16(y)), vmovl_high_s16(y)};
}
inline Ints load_u8(const uint8_t *p) {
    const uint8x16_t x = vld1q_u8(p);
    return widen(vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(x))), vreinterpretq_s16_u16(vmovl_high_u8(x)));
}
inline Ints load_s8(const int8_t *p) {
    const int8x16_t x = vld1q_s8(p);
    return widen(vmovl_s8(vget_low_s8(x)), vmovl_high_s8(x));
}
inline int32x4_t widen_four(const uint16_t *p) { return vreinterpretq_s32_u32(vmovl_u16(vld1_u16(p))); }
inline Ints load_u16(const uint16_t *p) {
    return {widen_four(p), widen_four(p + 4), widen_four(p + 8), widen_four(p + 12)};
}
inline Ints load_i32(const void *p) {
    // As bytes: integers would have to be aligned.
    const uint8_t *bytes = static_cast<const uint8_t *>(p);
    return {vreinterpretq_s32_u8(vld1q_u8(bytes)), vreinterpretq_s32_u8(vld1q_u8(bytes + 16)),
            vreinterpretq_s32_u8(vld1q_u8(bytes + 32)), vreinterpretq_s32_u8(vld1q_u8(bytes + 48))};
}
inline int16x8_t narrow(int32x4_t x, int32x4_t y) { return vmovn_high_s32(vmovn_s32(x), y); }
inline void store_s16(int16_t *p, Ints x) {
    vst1q_s16(p, narrow(x.a, x.b));
    vst1q_s16(p + 8, narrow(x.c, x.d));
}
inline void store_s8(int8_t *p, Ints x) { vst1q_s8(p, vmovn_high_s16(vmovn_s16(narrow(x.a, x.b)), narrow(x.c, x.d))); }
inline float32x4_t widen_halves(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
inline Floats load_f16(const uint16_t *p) {
    return {widen_halves(p), widen_halves(p + 4), widen_halves(p + 8), widen_halves(p + 12)};
}
inline Pairs load_pairs(const void *p) {
    const int8x16x2_t x = vld2q_s8(static_cast<const int8_t *>(p));
    return {vmovl_s8(vget_low_s8(x.val[0])), vmovl_high_s8(x.val[0]), vmovl_s8(vget_low_s8(x.val[1])),
            vmovl_high_s8(x.val[1])};
}
inline Ints add_pairs(Ints s, Pairs x, int32_t two) {
    const int16x4_t y = vreinterpret_s16_s32(vdup_n_s32(two));
    s = {vmlal_lane_s16(s.a, vget_low_s16(x.first_a), y, 0), vmlal_high_lane_s16(s.b, x.first_a, y, 0),
         vmlal_lane_s16(s.c, vget_low_s16(x.first_b), y, 0), vmlal_high_lane_s16(s.d, x.first_b, y, 0)};
    return {vmlal_lane_s16(s.a, vget_low_s16(x.second_a), y, 1), vmlal_high_lane_s16(s.b, x.second_a, y, 1),
            vmlal_lane_s16(s.c, vget_low_s16(x.second_b), y, 1), vmlal_high_lane_s16(s.d, x.second_b, y, 1)};
}
// `z` where x >= y, else 0.
// Replaces each byte, below 16, by that of a table.
inline int32x4_t look_up(int32x4_t x, uint8x16_t table) {
    return vreinterpretq_s32_u8(vqtbl1q_u8(table, vreinterpretq_u8_s32(x)));
}
inline Ints looked_up(const uint8_t *table, Ints x) { return HEADRACE_ALL(Ints, look_up, vld1q_u8(table)); }
inline Floats where_at_least(Floats x, Floats y, Floats z) { return HEADRACE_THREE(Floats, keep_at_least); }
// `a` where x >= y, else `b`, also where `x` is NaN.
inline Floats choose(Floats x, Floats y, Floats a, Floats b) {
    return {vbslq_f32(vcgeq_f32(x.a, y.a), a.a, b.a), vbslq_f32(vcgeq_f32(x.b, y.b), a.b, b.b),
            vbslq_f32(vcgeq_f32(x.c, y.c), a.c, b.c), vbslq_f32(vcgeq_f32(x.d, y.d), a.d, b.d)};
}

// See lanes.h.
inline void pin(Floats &x) { asm volatile("" : "+w"(x.a), "+w"(x.b), "+w"(x.c), "+w"(x.d)); }
inline void pin(Ints &x) { asm volatile("" : "+w"(x.a), "+w"(x.b), "+w"(x.c), "+w"(x.d)); }

}  // namespace HEADRACE_ISA
}  // namespace headrace
