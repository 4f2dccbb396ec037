// Reductions of 16 lanes to one number, in a fixed tree that all code shares: lanes eight apart, then four, two and
// one.

#pragma once

#include <cstdint>
#include <cstring>

#include "lanes.h"

namespace headrace {
namespace HEADRACE_ISA {

#if defined(HEADRACE_AVX512) || defined(HEADRACE_AVX2)

#if defined(HEADRACE_AVX512)
inline __m256 low_half(Floats x) { return _mm512_castps512_ps256(x.v); }
inline __m256 high_half(Floats x) { return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x.v), 1)); }
inline __m256i low_half(Ints x) { return _mm512_castsi512_si256(x.v); }
inline __m256i high_half(Ints x) { return _mm512_extracti64x4_epi64(x.v, 1); }
#else
inline __m256 low_half(Floats x) { return x.a; }
inline __m256 high_half(Floats x) { return x.b; }
inline __m256i low_half(Ints x) { return x.a; }
inline __m256i high_half(Ints x) { return x.b; }
#endif

inline float add_lanes(Floats x) {
    const __m256 eight = _mm256_add_ps(low_half(x), high_half(x));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// No lane may be NaN.
inline float largest_lane(Floats x) {
    const __m256 eight = _mm256_max_ps(low_half(x), high_half(x));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline int32_t largest_lane(Ints x) {
    const __m256i eight = _mm256_max_epi32(low_half(x), high_half(x));
    const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xEE));
    return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0x55)));
}

#else

// Combines halves of an array until one number is left.
template <typename T, typename Combine> inline T fold(T (&v)[kLanes], const Combine &combine) {
    for (int width = kLanes / 2; width; width /= 2)
        for (int i = 0; i < width; ++i) v[i] = combine(v[i], v[i + width]);
    return v[0];
}

inline float add_lanes(Floats x) {
    float v[kLanes];
    store(v, x);
    return fold(v, [](float a, float b) { return a + b; });
}

// No lane may be NaN.
inline float largest_lane(Floats x) {
    float v[kLanes];
    store(v, x);
    return fold(v, [](float a, float b) { return a > b ? a : b; });
}

inline int32_t largest_lane(Ints x) {
    float bits[kLanes];
    int32_t v[kLanes];
    store(bits, as_floats(x));
    std::memcpy(v, bits, sizeof v);
    return fold(v, [](int32_t a, int32_t b) { return a > b ? a : b; });
}

#endif

}  // namespace HEADRACE_ISA
}  // namespace headrace
