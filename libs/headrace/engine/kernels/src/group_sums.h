// Dot products of weight codes and input codes within one group of columns. They are integers, so every order of
// summation gives the same result.
//
// Each instruction set has sum_u4 and sum_u8 in a file of its own. They add to the accumulators `s[j][m]` the products
// of `count` columns of panel j, `j * next` bytes after `p`, with row m of the inputs, `m * stride` codes after `x`.
// matrix.h has the layout of a panel. sum_u8 subtracts kTakenZero from each code: instructions may multiply signed
// bytes alone. With kWidensInputs it takes the inputs in 16 bits, as `widen` writes them.

#pragma once

#include "accumulators.h"

// Products of several rows take inputs in panels: see panel_product.h.
#if defined(HEADRACE_AVX512) || defined(HEADRACE_AVX2)
#define HEADRACE_PANELS
#endif

#if defined(HEADRACE_AVX512)
#include "sums_avx512.h"
#elif defined(HEADRACE_AVX_VNNI)
#include "sums_avx_vnni.h"
#elif defined(HEADRACE_AVX2)
#include "sums_avx2.h"
#elif defined(HEADRACE_I8MM)
#include "sums_i8mm.h"
#elif defined(HEADRACE_NEON)
#include "sums_neon.h"
#else
#include "sums_portable.h"
#endif

namespace headrace {
namespace HEADRACE_ISA {

#if defined(HEADRACE_AVX2) && !defined(HEADRACE_AVX_VNNI)
constexpr bool kWidensInputs = true;
#else
constexpr bool kWidensInputs = false;
#endif

// Writes input codes in 16 bits, the first and third of each four before the second and fourth: the even and the odd
// bytes of a panel are what takes no shuffle to widen.
inline void widen(const int8_t *codes, int64_t count, int16_t *wide) {
    for (int64_t k = 0; k < count; k += 4) {
        wide[k] = codes[k];
        wide[k + 1] = codes[k + 2];
        wide[k + 2] = codes[k + 1];
        wide[k + 3] = codes[k + 3];
    }
}

}  // namespace HEADRACE_ISA
}  // namespace headrace
