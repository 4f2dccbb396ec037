// Stands in front of the compiler's header of this name: what AVX-512 has comes from SIMDe, which computes it with AVX2.
// Intrinsics that SIMDe lacks are made of two halves.

#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#include_next <immintrin.h>
#include <simde/x86/avx512.h>

namespace emulated_avx512 {

template <typename Whole, typename Half> inline Whole join(Half low, Half high) {
    static_assert(sizeof(Whole) == 2 * sizeof(Half));
    const Half halves[2] = {low, high};
    Whole whole;
    __builtin_memcpy(&whole, halves, sizeof whole);
    return whole;
}

template <typename Half, typename Whole> inline Half half(Whole whole, int index) {
    static_assert(sizeof(Whole) == 2 * sizeof(Half));
    Half halves[2];
    __builtin_memcpy(halves, &whole, sizeof whole);
    return halves[index];
}

inline __m512 cvtepi32_ps(__m512i a) {
    return join<__m512>(_mm256_cvtepi32_ps(half<__m256i>(a, 0)), _mm256_cvtepi32_ps(half<__m256i>(a, 1)));
}

inline __m512i cvtps_epi32(__m512 a) {
    return join<__m512i>(_mm256_cvtps_epi32(half<__m256>(a, 0)), _mm256_cvtps_epi32(half<__m256>(a, 1)));
}

inline __m512 cvtph_ps(__m256i a) {
    return join<__m512>(_mm256_cvtph_ps(half<__m128i>(a, 0)), _mm256_cvtph_ps(half<__m128i>(a, 1)));
}

inline __m512i cvtepu16_epi32(__m256i a) {
    return join<__m512i>(_mm256_cvtepu16_epi32(half<__m128i>(a, 0)), _mm256_cvtepu16_epi32(half<__m128i>(a, 1)));
}

inline __m512i cvtepu8_epi32(__m128i a) {
    return join<__m512i>(_mm256_cvtepu8_epi32(a), _mm256_cvtepu8_epi32(_mm_srli_si128(a, 8)));
}

inline __m512i cvtepi8_epi32(__m128i a) {
    return join<__m512i>(_mm256_cvtepi8_epi32(a), _mm256_cvtepi8_epi32(_mm_srli_si128(a, 8)));
}

// The low bits of each number.
template <typename Element, typename Narrow> inline Narrow truncate(__m512i a) {
    int numbers[16];
    Element kept[16];
    static_assert(sizeof kept == sizeof(Narrow));
    __builtin_memcpy(numbers, &a, sizeof a);
    for (int i = 0; i < 16; ++i) kept[i] = static_cast<Element>(numbers[i]);
    Narrow narrow;
    __builtin_memcpy(&narrow, kept, sizeof narrow);
    return narrow;
}

}  // namespace emulated_avx512

// Later releases of SIMDe may have some of them.
#ifndef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps emulated_avx512::cvtepi32_ps
#endif
#ifndef _mm512_cvtps_epi32
#define _mm512_cvtps_epi32 emulated_avx512::cvtps_epi32
#endif
#ifndef _mm512_cvtph_ps
#define _mm512_cvtph_ps emulated_avx512::cvtph_ps
#endif
#ifndef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32 emulated_avx512::cvtepu16_epi32
#endif
#ifndef _mm512_cvtepu8_epi32
#define _mm512_cvtepu8_epi32 emulated_avx512::cvtepu8_epi32
#endif
#ifndef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32 emulated_avx512::cvtepi8_epi32
#endif
#ifndef _mm512_cvtepi32_epi8
#define _mm512_cvtepi32_epi8 emulated_avx512::truncate<signed char, __m128i>
#endif
#ifndef _mm512_cvtepi32_epi16
#define _mm512_cvtepi32_epi16 emulated_avx512::truncate<short, __m256i>
#endif
