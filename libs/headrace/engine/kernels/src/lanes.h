// Vectors of 16 lanes, with the same results on every instruction set.
//
// Each operation works lane by lane with IEEE 754 rounding, and sums over lanes use one fixed tree. So AVX-512, AVX2,
// NEON and the portable code give the same bits, and so does all code built on these operations. Where x86 and Arm
// differ, as for numbers that no integer holds, results are those of x86.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(HEADRACE_AVX512) || defined(HEADRACE_AVX2)
// GCC 12 warns of its own AVX-512 intrinsics, which leave lanes undefined on purpose (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#elif defined(HEADRACE_NEON)
#include "neon_lanes.h"
#endif

// Where compilers would keep sums in memory, or leave out calls of what only prefetches.
#define HEADRACE_INLINE __attribute__((always_inline))
// Goes before a loop over an array that is to stay in registers. GCC unrolls such loops by itself only up to a number
// of instructions, and keeps the array in memory where it does not.
#define HEADRACE_UNROLLED _Pragma("GCC unroll 16")

namespace headrace {
namespace HEADRACE_ISA {

constexpr int kLanes = 16;

#if defined(HEADRACE_AVX512)

struct Floats {
    __m512 v;
};
struct Ints {
    __m512i v;
};
struct Pairs {
    __m512i v;
};

inline Floats load(const float *p) { return {_mm512_loadu_ps(p)}; }
inline void store(float *p, Floats a) { _mm512_storeu_ps(p, a.v); }
inline Floats spread(float a) { return {_mm512_set1_ps(a)}; }
inline Floats operator+(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Floats operator-(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Floats operator*(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Floats operator/(Floats a, Floats b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Floats fma(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Floats larger(Floats a, Floats b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Floats smaller(Floats a, Floats b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Floats magnitude(Floats a) { return {_mm512_abs_ps(a.v)}; }
inline Floats as_floats(Ints a) { return {_mm512_castsi512_ps(a.v)}; }
inline Floats to_floats(Ints a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline Ints as_ints(Floats a) { return {_mm512_castps_si512(a.v)}; }
inline Ints round_to_ints(Floats a) { return {_mm512_cvtps_epi32(a.v)}; }
inline Ints spread(int32_t a) { return {_mm512_set1_epi32(a)}; }
inline Ints operator+(Ints a, Ints b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline Ints operator*(Ints a, Ints b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
inline Ints operator&(Ints a, Ints b) { return {_mm512_and_si512(a.v, b.v)}; }
inline Ints larger(Ints a, Ints b) { return {_mm512_max_epi32(a.v, b.v)}; }
inline Ints operator|(Ints a, Ints b) { return {_mm512_or_si512(a.v, b.v)}; }
template <int kBits> inline Ints shift_left(Ints a) { return {_mm512_slli_epi32(a.v, kBits)}; }
template <int kBits> inline Ints shift_right(Ints a) { return {_mm512_srli_epi32(a.v, kBits)}; }
inline Ints load_u8(const uint8_t *p) { return {_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p))}; }
inline Ints load_s8(const int8_t *p) { return {_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p))}; }
inline Ints load_u16(const uint16_t *p) { return {_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p))}; }
inline Ints load_i32(const void *p) { return {_mm512_loadu_si512(p)}; }
inline void store_s8(int8_t *p, Ints a) { _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(a.v)); }
inline void store_s16(int16_t *p, Ints a) { _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(a.v)); }
inline Floats load_f16(const uint16_t *p) { return {_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p))}; }
inline Pairs load_pairs(const void *p) { return {_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)p))}; }
inline Ints add_pairs(Ints s, Pairs a, int32_t two) { return {_mm512_dpwssd_epi32(s.v, a.v, _mm512_set1_epi32(two))}; }
// Replaces each byte, below 16, by that of a table.
inline Ints looked_up(const uint8_t *table, Ints codes) {
    const __m512i tables = _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i *>(table)));
    return {_mm512_shuffle_epi8(tables, codes.v)};
}
// `a` where x >= limit, else 0.
inline Floats where_at_least(Floats x, Floats limit, Floats a) {
    return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, limit.v, _CMP_GE_OQ), a.v)};
}
// `a` where x >= limit, else `b`, also where `x` is NaN.
inline Floats choose(Floats x, Floats limit, Floats a, Floats b) {
    return {_mm512_mask_mov_ps(b.v, _mm512_cmp_ps_mask(x.v, limit.v, _CMP_GE_OQ), a.v)};
}

#elif defined(HEADRACE_AVX2)

struct Floats {
    __m256 a, b;
};
struct Ints {
    __m256i a, b;
};
struct Pairs {
    __m256i a, b;
};

#define HEADRACE_BOTH(type, op, ...) \
    type { op(x.a, ##__VA_ARGS__), op(x.b, ##__VA_ARGS__) }
#define HEADRACE_PAIR(type, op) \
    type { op(x.a, y.a), op(x.b, y.b) }

inline Floats load(const float *p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float *p, Floats x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
inline Floats spread(float v) { return {_mm256_set1_ps(v), _mm256_set1_ps(v)}; }
inline Floats operator+(Floats x, Floats y) { return HEADRACE_PAIR(Floats, _mm256_add_ps); }
inline Floats operator-(Floats x, Floats y) { return HEADRACE_PAIR(Floats, _mm256_sub_ps); }
inline Floats operator*(Floats x, Floats y) { return HEADRACE_PAIR(Floats, _mm256_mul_ps); }
inline Floats operator/(Floats x, Floats y) { return HEADRACE_PAIR(Floats, _mm256_div_ps); }
inline Floats fma(Floats x, Floats y, Floats z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
inline Floats larger(Floats x, Floats y) { return HEADRACE_PAIR(Floats, _mm256_max_ps); }
inline Floats smaller(Floats x, Floats y) { return HEADRACE_PAIR(Floats, _mm256_min_ps); }
inline Floats magnitude(Floats x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
inline Floats as_floats(Ints x) { return HEADRACE_BOTH(Floats, _mm256_castsi256_ps); }
inline Floats to_floats(Ints x) { return HEADRACE_BOTH(Floats, _mm256_cvtepi32_ps); }
inline Ints as_ints(Floats x) { return HEADRACE_BOTH(Ints, _mm256_castps_si256); }
inline Ints round_to_ints(Floats x) { return HEADRACE_BOTH(Ints, _mm256_cvtps_epi32); }
inline Ints spread(int32_t v) { return {_mm256_set1_epi32(v), _mm256_set1_epi32(v)}; }
inline Ints operator+(Ints x, Ints y) { return HEADRACE_PAIR(Ints, _mm256_add_epi32); }
inline Ints operator*(Ints x, Ints y) { return HEADRACE_PAIR(Ints, _mm256_mullo_epi32); }
inline Ints operator&(Ints x, Ints y) { return HEADRACE_PAIR(Ints, _mm256_and_si256); }
inline Ints larger(Ints x, Ints y) { return HEADRACE_PAIR(Ints, _mm256_max_epi32); }
inline Ints operator|(Ints x, Ints y) { return HEADRACE_PAIR(Ints, _mm256_or_si256); }
template <int kBits> inline Ints shift_left(Ints x) { return HEADRACE_BOTH(Ints, _mm256_slli_epi32, kBits); }
template <int kBits> inline Ints shift_right(Ints x) { return HEADRACE_BOTH(Ints, _mm256_srli_epi32, kBits); }
inline Ints load_u8(const uint8_t *p) {
    const __m128i x = _mm_loadu_si128((const __m128i *)p);
    return {_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8))};
}
inline Ints load_s8(const int8_t *p) {
    const __m128i x = _mm_loadu_si128((const __m128i *)p);
    return {_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8))};
}
inline Ints load_u16(const uint16_t *p) {
    return {_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)),
            _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p + 8)))};
}
inline Ints load_i32(const void *p) {
    return {_mm256_loadu_si256((const __m256i *)p), _mm256_loadu_si256((const __m256i *)p + 1)};
}
inline __m256i narrow(Ints x) { return _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xD8); }
inline void store_s16(int16_t *p, Ints x) { _mm256_storeu_si256((__m256i *)p, narrow(x)); }
inline void store_s8(int8_t *p, Ints x) {
    const __m256i words = narrow(x);
    _mm_storeu_si128((__m128i *)p, _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}
inline Floats load_f16(const uint16_t *p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
            _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8)))};
}
inline Pairs load_pairs(const void *p) {
    return {_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p)),
            _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p + 1))};
}
inline Ints add_pairs(Ints s, Pairs x, int32_t two) {
    const __m256i y = _mm256_set1_epi32(two);
    return {_mm256_add_epi32(s.a, _mm256_madd_epi16(x.a, y)), _mm256_add_epi32(s.b, _mm256_madd_epi16(x.b, y))};
}
// Replaces each byte, below 16, by that of a table.
inline Ints looked_up(const uint8_t *table, Ints x) {
    const __m256i tables = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i *>(table)));
    return {_mm256_shuffle_epi8(tables, x.a), _mm256_shuffle_epi8(tables, x.b)};
}
// `z` where x >= y, else 0.
inline Floats where_at_least(Floats x, Floats y, Floats z) {
    return {_mm256_and_ps(_mm256_cmp_ps(x.a, y.a, _CMP_GE_OQ), z.a),
            _mm256_and_ps(_mm256_cmp_ps(x.b, y.b, _CMP_GE_OQ), z.b)};
}
// `a` where x >= y, else `b`, also where `x` is NaN.
inline Floats choose(Floats x, Floats y, Floats a, Floats b) {
    return {_mm256_blendv_ps(b.a, a.a, _mm256_cmp_ps(x.a, y.a, _CMP_GE_OQ)),
            _mm256_blendv_ps(b.b, a.b, _mm256_cmp_ps(x.b, y.b, _CMP_GE_OQ))};
}

#elif !defined(HEADRACE_NEON)

struct Floats {
    float v[kLanes];
};
struct Ints {
    int32_t v[kLanes];
};
// Two 16-bit integers in each lane.
struct Pairs {
    int16_t v[2 * kLanes];
};

#define HEADRACE_EACH(type, expression)                   \
    type r;                                               \
    for (int i = 0; i < kLanes; ++i) r.v[i] = expression; \
    return r

inline Floats load(const float *p) { HEADRACE_EACH(Floats, p[i]); }
inline void store(float *p, Floats x) { std::memcpy(p, x.v, sizeof x.v); }
inline Floats spread(float a) { HEADRACE_EACH(Floats, a); }
inline Floats operator+(Floats x, Floats y) { HEADRACE_EACH(Floats, x.v[i] + y.v[i]); }
inline Floats operator-(Floats x, Floats y) { HEADRACE_EACH(Floats, x.v[i] - y.v[i]); }
inline Floats operator*(Floats x, Floats y) { HEADRACE_EACH(Floats, x.v[i] * y.v[i]); }
inline Floats operator/(Floats x, Floats y) { HEADRACE_EACH(Floats, x.v[i] / y.v[i]); }
inline Floats fma(Floats x, Floats y, Floats z) { HEADRACE_EACH(Floats, std::fma(x.v[i], y.v[i], z.v[i])); }
// If either is NaN, returns the second operand, as maxps and minps do.
inline Floats larger(Floats x, Floats y) { HEADRACE_EACH(Floats, x.v[i] > y.v[i] ? x.v[i] : y.v[i]); }
inline Floats smaller(Floats x, Floats y) { HEADRACE_EACH(Floats, x.v[i] < y.v[i] ? x.v[i] : y.v[i]); }
inline Floats magnitude(Floats x) { HEADRACE_EACH(Floats, std::fabs(x.v[i])); }
inline Floats as_floats(Ints x) {
    Floats r;
    std::memcpy(r.v, x.v, sizeof r.v);
    return r;
}
inline Ints as_ints(Floats x) {
    Ints r;
    std::memcpy(r.v, x.v, sizeof r.v);
    return r;
}
inline Floats to_floats(Ints x) { HEADRACE_EACH(Floats, static_cast<float>(x.v[i])); }
inline int32_t round_to_int(float a) {
    const bool fits = a >= -2147483648.0f && a < 2147483648.0f;
    return fits ? static_cast<int32_t>(std::nearbyint(a)) : INT32_MIN;
}
inline Ints round_to_ints(Floats x) { HEADRACE_EACH(Ints, round_to_int(x.v[i])); }
inline Ints spread(int32_t a) { HEADRACE_EACH(Ints, a); }
inline Ints operator+(Ints x, Ints y) {
    HEADRACE_EACH(Ints, static_cast<int32_t>(static_cast<uint32_t>(x.v[i]) + static_cast<uint32_t>(y.v[i])));
}
inline Ints operator*(Ints x, Ints y) {
    HEADRACE_EACH(Ints, static_cast<int32_t>(static_cast<uint32_t>(x.v[i]) * static_cast<uint32_t>(y.v[i])));
}
inline Ints operator&(Ints x, Ints y) { HEADRACE_EACH(Ints, x.v[i] & y.v[i]); }
inline Ints larger(Ints x, Ints y) { HEADRACE_EACH(Ints, x.v[i] > y.v[i] ? x.v[i] : y.v[i]); }
inline Ints operator|(Ints x, Ints y) { HEADRACE_EACH(Ints, x.v[i] | y.v[i]); }
template <int kBits> inline Ints shift_left(Ints x) {
    HEADRACE_EACH(Ints, static_cast<int32_t>(static_cast<uint32_t>(x.v[i]) << kBits));
}
template <int kBits> inline Ints shift_right(Ints x) {
    HEADRACE_EACH(Ints, static_cast<int32_t>(static_cast<uint32_t>(x.v[i]) >> kBits));
}
inline Ints load_u8(const uint8_t *p) { HEADRACE_EACH(Ints, p[i]); }
inline Ints load_s8(const int8_t *p) { HEADRACE_EACH(Ints, p[i]); }
inline Ints load_u16(const uint16_t *p) { HEADRACE_EACH(Ints, p[i]); }
inline Ints load_i32(const void *p) {
    Ints r;
    std::memcpy(r.v, p, sizeof r.v);
    return r;
}
inline void store_s8(int8_t *p, Ints x) {
    for (int i = 0; i < kLanes; ++i) p[i] = static_cast<int8_t>(x.v[i]);
}
inline void store_s16(int16_t *p, Ints x) {
    for (int i = 0; i < kLanes; ++i) p[i] = static_cast<int16_t>(x.v[i]);
}
// Widens 8-bit integers.
inline Pairs load_pairs(const void *p) {
    Pairs r;
    for (int i = 0; i < 2 * kLanes; ++i) r.v[i] = static_cast<const int8_t *>(p)[i];
    return r;
}
// Adds to each lane the dot product of its pair with the pair of 16-bit integers in `two`.
inline Ints add_pairs(Ints s, Pairs x, int32_t two) {
    const int32_t first = static_cast<int16_t>(two);
    const int32_t second = two >> 16;
    for (int i = 0; i < kLanes; ++i) s.v[i] += x.v[2 * i] * first + x.v[2 * i + 1] * second;
    return s;
}
// Replaces each byte, below 16, by that of a table.
inline Ints looked_up(const uint8_t *table, Ints x) {
    uint8_t bytes[4 * kLanes];
    std::memcpy(bytes, x.v, sizeof bytes);
    for (uint8_t &byte : bytes) byte = table[byte & 15];
    std::memcpy(x.v, bytes, sizeof bytes);
    return x;
}
inline Floats where_at_least(Floats x, Floats y, Floats z) { HEADRACE_EACH(Floats, x.v[i] >= y.v[i] ? z.v[i] : 0.0f); }
// `a` where x >= y, else `b`, also where `x` is NaN.
inline Floats choose(Floats x, Floats y, Floats a, Floats b) {
    HEADRACE_EACH(Floats, x.v[i] >= y.v[i] ? a.v[i] : b.v[i]);
}
inline float half_to_float(uint16_t h) {
    // One exact multiplication rebiases the exponents of normals and subnormals alike.
    const uint32_t bits = static_cast<uint32_t>(h & 0x7FFF) << 13;
    float value;
    std::memcpy(&value, &bits, 4);
    value *= 5.192296858534828e33f;  // 2^112
    if ((h & 0x7C00) == 0x7C00) value = (h & 0x3FF) ? NAN : INFINITY;
    return h & 0x8000 ? -value : value;
}
inline Floats load_f16(const uint16_t *p) { HEADRACE_EACH(Floats, half_to_float(p[i])); }

#endif

// Loads a tail: the first `count` numbers at p, then zeros.
inline Floats load_some(const float *p, int64_t count) {
    if (count >= kLanes) return load(p);
    float padded[kLanes] = {};
    for (int64_t i = 0; i < count; ++i) padded[i] = p[i];
    return load(padded);
}

// Stores a tail: the first `count` lanes.
inline void store_some(float *p, Floats x, int64_t count) {
    if (count >= kLanes) return store(p, x);
    float padded[kLanes];
    store(padded, x);
    for (int64_t i = 0; i < count; ++i) p[i] = padded[i];
}

// Loads four bytes as one integer, to be broadcast to the lanes.
inline int32_t load_word(const void *p) {
    int32_t word;
    std::memcpy(&word, p, sizeof word);
    return word;
}

inline Floats load_bf16(const uint16_t *p) { return as_floats(shift_left<16>(load_u16(p))); }

// Keeps the compiler from moving work across this point: computing a tile row by row fits the registers; computing all
// its products first spills them. Registers that tests emulate are structures, which cannot be asm operands.
#if defined(HEADRACE_AVX512) && !defined(HEADRACE_EMULATED)
inline void pin(Floats &x) { asm volatile("" : "+v"(x.v)); }
inline void pin(Ints &x) { asm volatile("" : "+v"(x.v)); }
#elif defined(HEADRACE_AVX2)
inline void pin(Floats &x) { asm volatile("" : "+x"(x.a), "+x"(x.b)); }
inline void pin(Ints &x) { asm volatile("" : "+x"(x.a), "+x"(x.b)); }
#elif !defined(HEADRACE_NEON)
inline void pin(Floats &) {}
inline void pin(Ints &) {}
#endif

// e^x within 1.5 units in the last place for x <= 0, and 0 for x < -87: range reduction by ln 2 in two parts (Cody and
// Waite, 1980), then a polynomial of degree 6.
inline Floats exponential(Floats x) {
    const Floats low = spread(-87.0f);
    const Floats clamped = smaller(larger(x, low), spread(88.0f));
    const Ints exponent = round_to_ints(clamped * spread(1.44269504f));
    const Floats n = to_floats(exponent);
    Floats r = fma(n, spread(-0.693145752f), clamped);
    r = fma(n, spread(-1.42860677e-6f), r);
    Floats p = spread(1.388893e-3f);
    p = fma(p, r, spread(8.3333310e-3f));
    p = fma(p, r, spread(4.16666649e-2f));
    p = fma(p, r, spread(1.66666672e-1f));
    p = fma(p, r, spread(0.5f));
    p = fma(p, r, spread(1.0f));
    p = fma(p, r, spread(1.0f));
    // Masked scores are minus infinity, and their weight must be exactly zero.
    return where_at_least(x, low, p * as_floats(shift_left<23>(exponent + spread(127))));
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
